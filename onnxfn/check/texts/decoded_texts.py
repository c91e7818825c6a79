"""Decodes texts with the ONNX files, and compares their tokens with PyTorch's logits of the whole texts.

ONNX Runtime decodes token by token with a KV cache. PyTorch computes the logits of all tokens at once without a cache.
So an error in the cache shows, which a comparison of single steps may miss. Only ordinary tokens are written: a random
model may write the placeholder of an image, and no image belongs to it.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.architectures.families.features import reads_prompts_both_ways
from onnxfn.architectures.placeholders import placeholders
from onnxfn.check.cases.references import OutputArrays
from onnxfn.check.verdict.case_comparisons import CheckedFile
from onnxfn.check.verdict.compare import has_tolerance
from onnxfn.check.verdict.verdict import (
    Comparison,
    Error,
    Evidence,
    ExactArray,
    ExactOutputs,
    Norms,
    Scale,
    judged,
    precision_of,
    verdict,
)
from onnxfn.models.forward import torch_outputs
from onnxfn.run.greedy_decoding import Decoder, greedy, most_likely_unused_token
from onnxfn.run.sessions import file_errors
from onnxfn.specs.algebra.compose import group
from onnxfn.specs.algebra.config_values import config_of, snapshot
from onnxfn.specs.algebra.dummies import Array, dummies, padded
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.algebra.spec import Dummies
from onnxfn.specs.axes import names
from onnxfn.specs.axis_symbols import fixed_sizes, ranges
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP, has_last_logits
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, by_tokens
from onnxfn.specs.plan.check_cases import past_lengths, with_dummies
from onnxfn.weights.layouts import dtype_suffix

PROMPT_LENGTH, NEW_TOKENS, TEXTS = 6, 16, 2
"""Tokens of a prompt, tokens decoded after it, and texts."""

SessionOpener = Callable[..., Any]
"""`session_for(file)` is the session of an ONNX file. `session_for(file, tick)` calls this tick while it is loaded."""


@frozen
class Prompts:
    """The prompts, and the dummy inputs that are the same at each step."""

    input_ids: Array
    attention_mask: Array
    constant_inputs: Mapping[str, Array]


def decoded_text_comparisons(checked: CheckedFile, plan: Plan, session_for: SessionOpener) -> list[Comparison]:
    """The comparison of the decoded texts; none if the part does not decode texts.

    No text has a token twice: a model that repeats its most likely token hardly uses its cache. Inputs that other parts
    compute, such as encoder states, come from the files of these parts for ONNX Runtime, and from PyTorch for PyTorch.
    CheckFailed if a text cannot be decoded: a wrong file may return what no next step can take.
    """
    if not can_decode(checked.part, plan):
        return []
    case = f"{NEW_TOKENS} tokens after left-padded prompts of {PROMPT_LENGTH}"
    with file_errors(f"{checked.part.name}: texts cannot be decoded ({case})"):
        return [_comparison(checked, plan, session_for)]


def _comparison(checked: CheckedFile, plan: Plan, session_for: SessionOpener) -> Comparison:
    model, part, folder = checked.model, checked.part, checked.file.parent
    special, table = special_tokens(model), _embedding_part(part)
    # Token ids in place of token embeddings, generated as those of the embedding table.
    generators = next((other.spec for other in plan.parts if other.name == table), PlannedSpec()).dummies.generators
    token_dummies = group(part.spec.dummies, Dummies(generators=generators))
    token_part = evolve(part, spec=by_tokens(evolve(part.spec, dummies=token_dummies)))
    embeddings = session_for(folder / f"{table}.onnx") if table in {link.part for link in part.spec.links} else None

    def by_file(other: Part, inputs: Mapping[str, Array]) -> tuple[str, OutputArrays]:
        session = session_for(folder / f"{other.name}.onnx")
        return other.name, tuple(session.run(list(other.outputs), dict(inputs)))

    by_files = _linked_inputs(part, plan, by_file)
    prompts = prompts_of(token_part.spec, {*by_files})
    session = session_for(checked.file)
    fed_back = {feedback.input: feedback.output for feedback in part.spec.feedback}
    decoder = Decoder(session, session, embeddings, {**by_files, **prompts.constant_inputs}, fed_back)

    def choose(logits: Array, texts: Array) -> Array:
        checked.tick()
        return most_likely_unused_token(ordinary_logits(special, logits), texts)

    ordinary = min({*range(len(special) + 1)} - {*special})  # in place of special tokens: the smallest other one
    ids = np.where(np.isin(prompts.input_ids, [*special]), ordinary, prompts.input_ids)
    texts = greedy(decoder, ids, prompts.attention_mask, steps=NEW_TOKENS, choose=choose)
    case = f"{NEW_TOKENS} different tokens after {len(texts)} left-padded prompts"
    logits_by = partial(logits_without_cache, token_part, plan, texts, prompts, special)
    _, logits = logits_by(lambda other, inputs: (other.name, torch_outputs(model, other, inputs)))
    return text_comparison(
        part.spec, texts, logits, exact=partial(logits_by, checked.exact), case=case, start=PROMPT_LENGTH
    )


def can_decode(part: Part, plan: Plan) -> bool:
    """Whether texts can be decoded with a part: tokens, an empty past, logits, and parts that compute the rest."""
    spec = part.spec
    past_inputs = {feedback.input for feedback in spec.feedback}
    if not past_inputs:
        return False
    embeddings = {link.input for link in spec.links if link.part == _embedding_part(part)}
    takes_tokens = bool({"input_ids", *embeddings} & {*part.inputs})
    past_is_fed_back = all(input_.name in past_inputs for input_ in spec.inputs if input_.generator == "past_states")
    lengths = past_lengths(spec)
    has_fixed_length = bool(fixed_sizes(spec).keys() & {*lengths, *lengths.values()})
    has_linked_parts = {link.part for link in part.spec.links} <= {other.name for other in plan.parts}
    gives_all = "logits" in spec.outputs and (NUM_LOGITS_TO_KEEP in spec.inputs or not has_last_logits(spec))
    decodes = takes_tokens and gives_all and not reads_prompts_both_ways(spec.call)
    return decodes and past_is_fed_back and not has_fixed_length and has_linked_parts and _texts_are_in_range(spec)


def _texts_are_in_range(spec: PlannedSpec) -> bool:
    """Whether the sizes of all steps are in the ranges of their axes: from an empty past on, token by token."""
    lengths, longest = past_lengths(spec), PROMPT_LENGTH + NEW_TOKENS
    smallest = {spec.batch: TEXTS, **dict.fromkeys(lengths.values(), 1), **dict.fromkeys(lengths, 0)}
    largest = {spec.batch: TEXTS, **dict.fromkeys((*lengths.values(), *lengths), longest)}
    known = [(smallest[name], largest[name], *ends) for name, ends in ranges(spec).items() if name in smallest]
    return all(low <= least and most <= high for least, most, low, high in known)


def prompts_of(spec: PlannedSpec, known: set[str]) -> Prompts:
    """Left-padded prompts. `known` are the inputs that other parts compute."""
    inputs = dummies(with_dummies(spec, padded("left")), _text_sizes(spec, PROMPT_LENGTH))
    mask = inputs.get("attention_mask", np.ones_like(inputs["input_ids"]))[:, : inputs["input_ids"].shape[1]]
    of_text = ("input_ids", "attention_mask", "position_ids")
    varying = {*of_text, *known, *(feedback.input for feedback in spec.feedback)}
    constant = {name: array for name, array in inputs.items() if name not in varying}
    return Prompts(inputs["input_ids"], mask, constant)


def _text_sizes(spec: PlannedSpec, length: int) -> dict[str, int]:
    """The sizes of a batch of texts of this length, with an empty past."""
    batch, new_length = fixed_sizes(spec).get(spec.batch, TEXTS), names(spec.inputs["input_ids"].axes)[-1]
    return {spec.batch: batch, **dict.fromkeys(past_lengths(spec), 0), new_length: length}


def special_tokens(model: Any) -> frozenset[int]:
    """The tokens that the configuration of a model names, if one of them is a placeholder; else none."""
    if config_of(model) is None:
        return frozenset()
    known = placeholders(snapshot(model))
    return known.special if known.tokens else frozenset()


def ordinary_logits(special: Collection[int], logits: Array) -> Array:
    """Logits by which no special token is written: it has the lowest number."""
    known = [token for token in special if 0 <= token < logits.shape[-1]]
    ordinary = logits.copy()
    ordinary[..., known] = np.finfo(logits.dtype).min
    return ordinary


# Inputs that other parts compute


def _embedding_part(part: Part) -> str:
    """The name of the part that looks up the embeddings of tokens, in the variant of a part."""
    return f"{EMBEDDING_FILE}{dtype_suffix(part.dtype)}"


def _linked_inputs(part: Part, plan: Plan, run: ExactOutputs) -> dict[str, Array]:
    """The inputs of the texts that other parts compute; not token embeddings, which change at each step."""
    linked_inputs: dict[str, Array] = {}
    others = {link.part for link in part.spec.links} - {_embedding_part(part)}
    for linked in (other for other in plan.parts if other.name in others):
        sizes = {linked.spec.batch: fixed_sizes(linked.spec).get(linked.spec.batch, TEXTS)}
        inputs = dummies(with_dummies(linked.spec, padded("right")), sizes)
        _, outputs = run(linked, inputs)
        known = {**inputs, **dict(zip(linked.outputs, outputs, strict=True))}
        links = (link for link in part.spec.links if link.part == linked.name)
        linked_inputs.update({link.input: known[link.output] for link in links})
    return linked_inputs


# Comparison with PyTorch


def logits_without_cache(
    part: Part, plan: Plan, texts: Array, prompts: Prompts, special: Collection[int], run: ExactOutputs
) -> tuple[str, Array]:
    """A runner's name, and the logits `[batch, length, vocabulary]` of texts without a past; no special token wins."""
    prompt_mask = prompts.attention_mask
    mask = np.concatenate([prompt_mask, np.ones_like(texts[:, prompt_mask.shape[1] :])], axis=1)
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
    inputs = dummies(part.spec, _text_sizes(part.spec, texts.shape[1]))
    behind = inputs.get("attention_mask", mask).shape[1] - mask.shape[1]  # more than 0 with a static cache
    mask = np.pad(mask, ((0, 0), (0, behind)))
    text_inputs = {"input_ids": texts, "attention_mask": mask, "position_ids": positions}
    known = {**_linked_inputs(part, plan, run), **prompts.constant_inputs, **text_inputs}
    # In float64, what other parts compute stays float64.
    fed = {name: _like(array, inputs[name]) for name, array in known.items() if name in inputs}
    by, outputs = run(part, inputs | _empty_past(part, inputs) | fed)
    return by, ordinary_logits(special, outputs[list(part.outputs).index("logits")])


def _like(array: Array, planned: Array) -> Array:
    """An array in the dtype of a planned input; real numbers are not cast. M-RoPE has the positions three times."""
    repeated = np.broadcast_to(array, (*planned.shape[: max(0, planned.ndim - array.ndim)], *array.shape))
    return repeated if array.dtype.kind == planned.dtype.kind == "f" else repeated.astype(planned.dtype)


def _empty_past(part: Part, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The past inputs before the first token: all dynamic axes but the batch have size 0, all values are 0."""
    batch, past = part.spec.batch, dict[str, Array]()
    for feedback in part.spec.feedback:
        array, symbols = inputs[feedback.input], part.inputs[feedback.input]
        sizes = [size if symbols.get(axis, batch) == batch else 0 for axis, size in enumerate(array.shape)]
        past[feedback.input] = np.zeros(sizes, array.dtype)
    return past


def text_comparison(
    spec: PlannedSpec, texts: Array, logits: Array, *, exact: ExactArray, case: str, start: int
) -> Comparison:
    """Compares the tokens of texts, from `start` on, with the choices by PyTorch's logits."""
    # A token agrees if its logit is at most twice the allowed error below that of PyTorch's choice.
    dtype = spec.target.float_dtype or "float32"
    ordinary = np.abs(logits) < precision_of(dtype).largest_ordinary
    scale = Scale.of(logits[ordinary].astype(np.float64), precision_of(dtype))

    def error(of_logits: Array) -> Error:
        return margin_error(*_margins(texts, of_logits, start), scale.rms)

    def own(computed: Array, reference: Array) -> Error:
        return scale.error((computed - reference)[ordinary])

    if has_tolerance(spec):
        bound = (spec.check.atol or 0.0) * max(scale.rms, 1.0) / scale.rms + (spec.check.rtol or 0.0)
        by = f"PyTorch in {dtype}, by the tolerance of the spec"
        result = judged(error(logits), Norms(0.0, bound), scale.rms, by)
    else:
        result = verdict(Evidence(dtype, scale.rms, logits, error, own, exact))
    return margin_comparison(result, "greedy tokens", case, texts)


def margin_error(best: Array, chosen: Array, rms: float) -> Error:
    """Half of the largest difference of logits: the error of each of the two that explains another choice."""
    differences = best - chosen
    relative = differences / np.maximum(np.abs(best), rms)
    return Error(float(differences.max(initial=0.0)) / 2, Norms(0.0, float(relative.max(initial=0.0)) / 2))


def margin_comparison(judged: Comparison, output: str, case: str, texts: Array) -> Comparison:
    """The comparison of texts from that of a `margin_error`: its figures are those of the difference of two logits."""
    figures = {name: 2 * getattr(judged, name) for name in ("max_abs", "max_rel", "tolerance")}
    return evolve(judged, output=output, case=case, shape=texts.shape, **figures)


def _margins(texts: Array, logits: Array, start: int) -> tuple[Array, Array]:
    """The logits of PyTorch's choices, and those of the tokens of texts, `[batch, new]`."""
    values, steps = logits.astype(np.float64), range(start, texts.shape[1])
    choices = [most_likely_unused_token(values[:, step - 1], texts[:, :step]) for step in steps]
    tokens = np.stack([np.stack(choices, axis=1), texts[:, start:]], axis=-1)
    chosen = np.take_along_axis(values[:, start - 1 : -1], tokens, axis=-1)
    return chosen[..., 0], chosen[..., 1]
