"""All parts of a multimodal model, one after the other, against the whole model of PyTorch.

The files read pixels and sounds, look up tokens, put features in their places and write a text with the cache, as a
client does. PyTorch's `forward` gets the pixels and the tokens, and computes features, places and positions by itself.
So an error between the parts shows, such as positions of another image, which the check of each part cannot see.
"""

import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import evolve

from onnxfn.architectures.families.features import reads_prompts_both_ways
from onnxfn.architectures.wrappers.wide_rows import width_of
from onnxfn.check.check import differences
from onnxfn.check.texts.decoded_texts import NEW_TOKENS, SessionOpener, margin_comparison, margin_error, ordinary_logits
from onnxfn.check.variants.measures import cosine_of
from onnxfn.check.variants.proof import NO_PROOF, Proof, is_proven_apart, measurement
from onnxfn.check.verdict.compare import Exact, compare
from onnxfn.check.verdict.verdict import Comparison, ExactOutputs, Scale, allowed_by_scale, judged, precision_of
from onnxfn.check.wholes.joined_parts import (
    Whole,
    arguments_of,
    begun,
    main_output,
    part_of,
    prompt_logits,
    prompts_of,
    run_errors,
    torch_logits,
    whole_model,
    written,
)
from onnxfn.check.wholes.torch_whole import WHOLE, texts_of_generate
from onnxfn.run.prompts_with_images import Prompt
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Plan, PlannedSpec
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.short_repr import counted
from onnxfn.specs.stored.reports import Report, Tick, no_tick

OF_GENERATE = "tokens of generate"


def whole_model_report(
    model: Any,
    plan: Plan,
    folder: Path,
    session_for: SessionOpener,
    exact: ExactOutputs,
    tick: Tick = no_tick,
    preprocessor: Any = None,
    proof: Proof = NO_PROOF,
) -> Report:
    """Compares the files of a plan, run one after the other, with the whole model; empty if nothing reads images.

    Quantized files are measured: each has a proof of its own. A prompt that PyTorch refuses is a finding; a text alone
    is none if another prompt is compared: Kosmos-2 and BLIP-2 refuse a text without an image. `model` has the float
    dtype of the plan. CheckFailed if the files cannot be run one after the other.
    """
    whole = whole_model(model, plan, folder, session_for)
    if whole is None:
        return Report((), ())
    is_measured = any(is_proven_apart(part, folder / f"{part.name}.onnx") for part in plan.parts)
    in_torch = evolve(whole, model=proof.model or model)
    of_prompt = partial(_cosines, whole, in_torch) if is_measured else partial(prompt_comparisons, whole, exact)
    results: list[Any] = []
    with_result: dict[str, None] = {}
    refusals: dict[str, str] = {}
    texts_alone: set[str] = set()
    of_towers = {str(input_.forward_path[0]) for tower in whole.towers.values() for input_ in tower.spec.inputs}
    for prompt in prompts_of(whole, preprocessor):
        tick()
        try:
            for result in of_prompt(prompt):
                results.append(result)
                with_result[prompt.case] = None
        except CaptureFailed as error:
            refusals[prompt.case] = f"{prompt.case}: {error}"
            if of_towers.isdisjoint(prompt.arguments):
                texts_alone.add(prompt.case)
    compared = {*with_result, *(texts_alone if with_result else ())}
    findings = [text for case, text in refusals.items() if case not in compared]
    unread = [text for text in refusals.values() if text not in findings]
    part = evolve(whole.decoder, name=WHOLE if whole.decoder.dtype is None else f"{WHOLE}, {whole.decoder.dtype}")
    if is_measured:
        cases = tuple(with_result)
        of_logits = partial(measurement, part, main_output(part), "cases")  # the floor of random cases
        worst = [of_logits(np.array(results), proof.floors, counted(len(results), "prompts"))] if results else []
        return Report((), cases, tuple(findings), worst, unchecked=unread)
    of_whole = differences(part, results)
    findings += [] if all(each.passed for each in of_whole) else _unread_types(whole)
    cases = tuple(dict.fromkeys(comparison.case for comparison in results))
    return Report(of_whole, cases, tuple(findings), unchecked=unread)


def _cosines(whole: Whole, in_torch: Whole, prompt: Prompt) -> Iterator[float]:
    """The cosine of the logits of a prompt and those of PyTorch in float32."""
    _, actual, expected, is_token = prompt_logits(whole, prompt, in_torch, torch.float32)
    yield cosine_of(actual[is_token], expected[is_token])


def prompt_comparisons(whole: Whole, exact: ExactOutputs, prompt: Prompt) -> Iterator[Comparison]:
    """The outputs of the files for a prompt, against PyTorch: the logits of the prompt, and the text after it."""
    (decoder, actual, expected, is_token), (ids, _) = prompt_logits(whole, prompt, whole), begun(whole, prompt)
    exact_end = Exact(partial(_exact, whole, prompt, exact, ids, actual.shape[1]))
    spec, output = whole.decoder.spec, main_output(whole.decoder)
    case = f"{prompt.case} (tokens={ids.shape[1]})"
    yield compare(spec, output, case, actual, expected, lambda array: array[is_token], exact_end)
    if spec.feedback:
        yield from _text_comparisons(whole, prompt, decoder, exact)


def _text_comparisons(whole: Whole, prompt: Prompt, decoder: Any, exact: ExactOutputs) -> Iterator[Comparison]:
    """The texts of the files after a prompt, against PyTorch: the logits of each step, the tokens of generate."""
    (ids, mask), spec, case = begun(whole, prompt), whole.decoder.spec, f"{NEW_TOKENS} tokens after {prompt.case}"
    with run_errors(prompt):
        texts, steps = written(whole, decoder, ids, mask)
    at_steps = slice(ids.shape[1] - 1, -1)
    of_texts = torch_logits(whole, prompt, texts)

    def exact_steps() -> tuple[str, Array]:
        wider, logits = _exact(whole, prompt, exact, texts, texts.shape[1])
        return wider, logits[:, at_steps]

    yield compare(spec, "logits of new tokens", case, steps, of_texts[:, at_steps], exact=Exact(exact_steps))
    ordinary = ordinary_logits(whole.known.special, of_texts)
    arguments = arguments_of(whole, prompt, ids)
    generated = texts_of_generate(whole.model, part_of(whole, arguments), arguments, NEW_TOKENS, whole.known.special)
    yield generate_comparison(spec, texts, generated, ordinary, case)


def generate_comparison(spec: PlannedSpec, texts: Array, generated: Array, logits: Array, case: str) -> Comparison:
    """Compares texts with those of `generate`: their first other token must be as likely, by PyTorch's logits."""
    if texts.shape != generated.shape:
        label = f"{case}: tokens {list(texts.shape)} where generate writes {list(generated.shape)}"
        return Comparison(OF_GENERATE, label, texts.shape, np.inf, np.inf, 0.0, passed=False)
    precision = precision_of(spec.target.float_dtype)
    ordinary = logits[np.abs(logits) < precision.largest_ordinary].astype(np.float64)
    scale, pairs = Scale.of(ordinary, precision), [np.zeros(2)]
    for row in np.flatnonzero((texts != generated).any(axis=1)):
        step = int(np.argmax(texts[row] != generated[row]))
        pairs.append(np.sort([logits[row, step - 1, tokens[row, step]] for tokens in (texts, generated)]))
    chosen, best = np.array(pairs, np.float64).T
    error, bound = margin_error(best, chosen, scale.rms), allowed_by_scale(precision)
    by_scale = judged(error, bound, scale.rms, "PyTorch's generate")
    return margin_comparison(by_scale, OF_GENERATE, case, texts)


def _unread_types(whole: Whole) -> list[str]:
    """A line for each argument with token types that no file takes, although attention depends on them."""
    parameters = inspect.signature(whole.model.forward).parameters
    taken = {*whole.decoder.inputs, width_of(whole.model).types}
    types, both_ways = whole.known.types, reads_prompts_both_ways(whole.decoder.spec.call)
    taken |= {each.argument for each in types if each.tells_prompts and both_ways}
    unread = [each for each in types if each.attention and each.argument in parameters.keys() - taken]
    return [f"no file takes {each.argument}, which processors give: by it {each.attention}" for each in unread]


def _exact(whole: Whole, prompt: Prompt, exact: ExactOutputs, texts: Array, last: int) -> tuple[str, Array]:
    """The name of a wider dtype, and the logits of the last tokens in it. Raises NoReference."""
    arguments = arguments_of(whole, prompt, texts)
    wider, (logits,) = exact(part_of(whole, arguments), arguments)
    return wider, logits[:, -last:]
