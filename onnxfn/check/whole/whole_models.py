"""All parts of a model that sees or hears, one after the other, against the whole model of PyTorch.

The files read pixels and sounds, look up tokens, put features in their places and write a text with the cache, as a
client does. PyTorch's `forward` gets the pixels and the tokens, and computes features, places and positions by itself.
So an error between the parts shows, such as positions of another image, which the check of each part cannot see.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.architectures.families.features import reads_prompts_both_ways
from onnxfn.architectures.placeholders import Placeholders, placeholders, with_placeholders
from onnxfn.check.check import differences
from onnxfn.check.compare import Comparison, allowed_by_scale, compare
from onnxfn.check.decoded_texts import NEW_TOKENS, SessionOpener, text_comparison
from onnxfn.check.exact_outputs import ExactOutputs
from onnxfn.check.greedy_decoding import Decoder, greedy, most_likely_token, prompt_outputs, session_outputs
from onnxfn.check.precision import precision_of
from onnxfn.check.proof import is_quantized
from onnxfn.check.sessions import runtime_message
from onnxfn.check.token_choices import ordinary_logits
from onnxfn.check.whole.encoded import embedded, encoder_outputs, encoder_prompts, read_by_encoder, start_tokens
from onnxfn.check.whole.processed_prompts import processed_prompts
from onnxfn.check.whole.prompts_with_images import Prompt, towers_of, whole_prompts
from onnxfn.check.whole.torch_whole import (
    MASK,
    WHOLE,
    encoder_arguments,
    forward_arguments,
    texts_of_generate,
    whole_part,
)
from onnxfn.check.whole.towers import TOWERS, takes_three_positions, tower_features, with_features
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.config_values import snapshot
from onnxfn.specs.dummies import Array
from onnxfn.specs.edits.behaviors import STEMS
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, EMBEDS, IDS
from onnxfn.specs.errors import CaptureFailed, OnnxfnError
from onnxfn.specs.planned import Part, Plan, PlannedSpec
from onnxfn.specs.reports import CheckFailed, Report, Tick, no_tick
from onnxfn.specs.tasks import WITH_PAST
from onnxfn.weights.layouts import dtype_suffix

GENERATE = "PyTorch's generate"
STEPS = "logits of new tokens"
GREEDY = "greedy"
"""The key of the only choice of tokens."""

MAIN_OUTPUTS = ("logits", "last_hidden_state")
"""What is compared: of a model that writes, and of one that does not."""
SEES = "image-text-to-text"
"""The task of encoder-decoders whose encoder reads images."""


@frozen
class Whole:
    """The parts of a model that sees or hears.

    Attributes:
        model: The model of PyTorch.
        towers: The parts that read images and sounds, by the stem of their files.
        table: The part that looks up the embeddings of tokens; None if the decoder takes tokens.
        decoder: The part that gives logits, or the last hidden states.
        known: How tokens and features become one sequence.
        session_of: From a part to the session of its file.
        encoder: The part that reads what stands before the texts of the decoder; None if the decoder reads it itself.
    """

    model: Any
    towers: Mapping[str, Part]
    table: Part | None
    decoder: Part
    known: Placeholders
    session_of: Callable[[Part], Any] = field(repr=False)
    encoder: Part | None = None


def whole_model(model: Any, plan: Plan, folder: Path, session_for: SessionOpener) -> Whole | None:
    """The parts of a plan as a whole; None if it has no part that reads images or sounds, or is quantized."""
    if any(is_quantized(part.spec) for part in plan.parts):
        return None
    suffix = dtype_suffix(plan.parts[0].dtype)
    parts = {part.name.removesuffix(suffix): part for part in plan.parts}
    towers, table, encoder = towers_of(plan.parts, suffix), parts.get(EMBEDDING_FILE), parts.get(STEMS["encoder"])
    decoder = next((part for part in plan.parts if part != encoder and _writes(part, table)), None)
    sees = bool(towers and table) or (encoder is not None and _stem(encoder.spec) == SEES)
    if not sees or decoder is None:
        return None
    known = placeholders(snapshot(model))

    def session_of(part: Part) -> Any:
        return session_for(folder / f"{part.name}.onnx")

    return Whole(model, towers, table, decoder, known, session_of, encoder)


def _writes(part: Part, table: Part | None) -> bool:
    """Whether a part gives logits for tokens, or for their embeddings where a table looks these up."""
    return (IDS if table is None else EMBEDS) in part.inputs and bool(_main_output(part))


def _stem(spec: PlannedSpec) -> str:
    """The task of a spec, without `-with-past`."""
    return (spec.task or "").removesuffix(WITH_PAST)


def whole_model_report(
    model: Any,
    plan: Plan,
    folder: Path,
    session_for: SessionOpener,
    exact: ExactOutputs,
    tick: Tick = no_tick,
    preprocessor: Any = None,
) -> Report:
    """Compares the files of a plan, run one after the other, with the whole model; empty if nothing reads images.

    Args:
        model: The model of PyTorch, in the float dtype of the plan.
        plan: The plan. Parts that read images or sounds are those of `TOWERS`.
        folder: The folder of the files.
        session_for: Opens an ONNX file.
        exact: Computes PyTorch's outputs in a wider dtype.
        tick: Is called between the cases.
        preprocessor: The processor of the model. What it makes of a text with pictures is one more case.

    Raises:
        CheckFailed: The files cannot be run one after the other.
    """
    whole = whole_model(model, plan, folder, session_for)
    if whole is None:
        return Report((), ())
    comparisons: list[Comparison] = []
    compared: set[str] = set()
    refusals: list[str] = []
    for unmarked in chain(_prompts(whole), processed_prompts(preprocessor)):
        prompt = evolve(unmarked, arguments=with_placeholders(unmarked.arguments, whole.known))
        tick()
        try:
            for comparison in prompt_comparisons(whole, prompt, exact):
                comparisons.append(comparison)
                compared.add(prompt.case)
        except CaptureFailed as error:
            refusals.append(f"{prompt.case}: {error}")
    cases = dict.fromkeys(comparison.case for comparison in comparisons)
    # A text alone, and a text with an image, must run: else nothing was compared.
    findings = refusals[:1] if len(compared) <= 1 else []
    of_whole = differences(evolve(whole.decoder, name=WHOLE), comparisons)
    findings += [] if all(each.passed for each in of_whole) else _unread_types(whole)
    return Report(of_whole, (*cases, *refusals), tuple(findings))


def _prompts(whole: Whole) -> Iterator[Prompt]:
    """Texts and images from the dummies of the parts."""
    if whole.table is not None:
        return whole_prompts(whole.towers, whole.table.spec, whole.known, partial(_features, whole))
    return encoder_prompts(whole.encoder) if whole.encoder is not None else iter(())


def _begun(whole: Whole, prompt: Prompt) -> tuple[Array, Array]:
    """The tokens after which the decoder writes, and their mask: the prompt, or the first token after an encoder."""
    if whole.encoder is None:
        return prompt.arguments[IDS], prompt.arguments[MASK]
    first = prompt.arguments.get(IDS, next(iter(prompt.arguments.values())))
    ids = start_tokens(whole.model, len(first))
    return ids, np.ones_like(ids)


def prompt_comparisons(whole: Whole, prompt: Prompt, exact: ExactOutputs) -> Iterator[Comparison]:
    """What the files give for a prompt, against PyTorch: the logits of the prompt, and the text after it."""
    ids, mask = _begun(whole, prompt)
    expected = _logits(whole, prompt, ids)
    with _run_errors(prompt):
        decoder = decoder_of(whole, prompt)
        actual = prompt_outputs(decoder, ids, mask)[_main_output(whole.decoder)]
    last = actual.shape[1]
    exact_end = partial(_exact, whole, prompt, exact, ids, last)
    at_tokens = mask[:, -last:].astype(bool)
    spec, label = whole.decoder.spec, f"{prompt.case} (tokens={ids.shape[1]})"
    output, expected_end = _main_output(whole.decoder), expected[:, -last:]
    yield compare(spec, output, label, actual, expected_end, lambda array: array[at_tokens], exact_end)
    if spec.feedback:
        yield from _text_comparisons(whole, prompt, decoder, exact)


def _text_comparisons(whole: Whole, prompt: Prompt, decoder: Decoder, exact: ExactOutputs) -> Iterator[Comparison]:
    """What the files write after a prompt, against PyTorch: the logits of each step, the tokens, those of generate."""
    (ids, mask), spec, case = _begun(whole, prompt), whole.decoder.spec, f"{NEW_TOKENS} tokens after {prompt.case}"
    steps: list[Array] = []

    def choose(logits: Array, texts: Array) -> Array:
        steps.append(logits)
        return most_likely_token(ordinary_logits(whole.known.special, logits), texts)

    with _run_errors(prompt):
        texts = greedy(decoder, ids, mask, steps=NEW_TOKENS, choose=choose)
    at_steps = slice(ids.shape[1] - 1, -1)
    of_texts = _logits(whole, prompt, texts)
    exact_logits = cache(partial(_exact, whole, prompt, exact, texts, texts.shape[1]))

    def exact_steps() -> tuple[str, Array]:
        wider, logits = exact_logits()
        return wider, logits[:, at_steps]

    def exact_ordinary() -> tuple[str, Array]:
        wider, logits = exact_logits()
        return wider, ordinary_logits(whole.known.special, logits)

    yield compare(spec, STEPS, case, np.stack(steps, axis=1), of_texts[:, at_steps], exact=exact_steps)
    ordinary = ordinary_logits(whole.known.special, of_texts)
    yield text_comparison(spec, GREEDY, texts, ordinary, exact=exact_ordinary, case=case, start=ids.shape[1])
    arguments = _arguments(whole, prompt, ids)
    part = _whole_part(whole, arguments)
    generated = texts_of_generate(whole.model, part, arguments, NEW_TOKENS, whole.known.special)
    yield generate_comparison(spec, texts, generated, ordinary, case)


def generate_comparison(spec: PlannedSpec, texts: Array, generated: Array, logits: Array, case: str) -> Comparison:
    """Compares texts with those that PyTorch's `generate` writes: their first other token must be as likely.

    Args:
        spec: The spec of the decoder: its float dtype.
        texts: `[batch, length]`.
        generated: Those of `generate`.
        logits: PyTorch's logits for `texts`.
        case: The name of the case.
    """
    precision = precision_of(spec.target.float_dtype)
    scale = float(np.sqrt(np.mean(np.square(logits[np.abs(logits) < precision.largest_ordinary], dtype=np.float64))))
    margins = [0.0]
    for row in np.flatnonzero((texts != generated).any(axis=1)):
        step = int(np.argmax(texts[row] != generated[row]))
        own, other = (float(logits[row, step - 1, tokens[row, step]]) for tokens in (texts, generated))
        margins.append(abs(own - other))
    largest, tolerance = max(margins), 2 * allowed_by_scale(precision).peak * scale
    relative = largest / scale if scale else largest
    passed = largest <= tolerance
    return Comparison("tokens of generate", case, texts.shape, largest, relative, tolerance, passed, reference=GENERATE)


def decoder_of(whole: Whole, prompt: Prompt) -> Decoder:
    """The decoder of the files for a prompt, with the features of its images and sounds."""
    session = whole.session_of(whole.decoder)
    table = None if whole.table is None else whole.session_of(whole.table)
    decoder = Decoder(session, session, table)
    sessions = {stem: whole.session_of(part) for stem, part in whole.towers.items()}
    arguments = prompt.arguments
    features = tower_features(sessions, arguments)
    if whole.encoder is None:
        return with_features(decoder, features, whole.known, arguments[IDS], arguments)
    read = arguments if table is None else embedded(table, features, whole.known, arguments)
    inputs = read_by_encoder(whole.encoder, read)
    encoded = encoder_outputs(whole.encoder, whole.decoder, whole.session_of(whole.encoder), inputs)
    return evolve(decoder, constant_feeds=encoded)


def _main_output(part: Part) -> str:
    """The output of a part that is compared with the whole model; empty if it has none."""
    return next((name for name in MAIN_OUTPUTS if name in part.outputs), "")


def _features(whole: Whole, tower: Part, inputs: Mapping[str, Array]) -> Array:
    """The features that the file of a tower computes."""
    stem = next(stem for stem, part in whole.towers.items() if part == tower)
    return session_outputs(whole.session_of(tower), inputs)[TOWERS[stem]]


def _arguments(whole: Whole, prompt: Prompt, texts: Array) -> dict[str, Array]:
    if whole.encoder is not None:
        return encoder_arguments(whole.model, prompt.arguments, texts)
    three = takes_three_positions(whole.session_of(whole.decoder))
    return forward_arguments(whole.model, prompt.arguments, texts, whole.known, has_three_positions=three)


def _whole_part(whole: Whole, arguments: Mapping[str, Array]) -> Part:
    """The whole model with the main output of the part that takes embeddings. It gets what its towers always get."""
    parameters = inspect.signature(whole.model.forward).parameters
    of_towers = dict.fromkeys(each for tower in whole.towers.values() for each in tower.spec.call.constants)
    constants = [each for each in of_towers if each.name in parameters]
    return whole_part(arguments, whole.decoder.spec, _main_output(whole.decoder), constants)


def _unread_types(whole: Whole) -> list[str]:
    """A line for each argument with types of tokens on which attention depends, and which no file takes."""
    from onnxfn.architectures.wrappers.wide_rows import width_of  # imports torch

    parameters = inspect.signature(whole.model.forward).parameters
    taken = {*whole.decoder.inputs, width_of(whole.model).types}
    types = whole.known.types
    taken |= {
        each.argument for each in types if each.tells_prompts and reads_prompts_both_ways(whole.decoder.spec.call)
    }
    unread = [each for each in types if each.attention and each.argument in parameters.keys() - taken]
    return [f"no file takes {each.argument}, which processors give: by it {each.attention}" for each in unread]


def _logits(whole: Whole, prompt: Prompt, texts: Array) -> Array:
    """The logits of PyTorch's whole model for texts that begin with a prompt. Raises CaptureFailed."""
    arguments = _arguments(whole, prompt, texts)
    (logits,) = torch_outputs(whole.model, _whole_part(whole, arguments), arguments)
    return logits


def _exact(whole: Whole, prompt: Prompt, exact: ExactOutputs, texts: Array, last: int) -> tuple[str, Array]:
    """The name of a wider dtype, and the logits of the last tokens in it. Raises NoReference."""
    arguments = _arguments(whole, prompt, texts)
    wider, (logits,) = exact(_whole_part(whole, arguments), arguments)
    return wider, logits[:, -last:]


@contextmanager
def _run_errors(prompt: Prompt) -> Iterator[None]:
    """Raises CheckFailed for an error of the files, with the case."""
    try:
        yield
    except CheckFailed:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, OnnxfnError) else f"{type(error).__name__}: {runtime_message(error)}"
        raise CheckFailed(f"{WHOLE}: the files cannot be run one after the other ({prompt.case}): {reason}") from error
