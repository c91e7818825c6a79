"""The references of a check: the inputs of each case, and PyTorch's outputs for them.

How the past of a case is computed. A decoder with past takes its KV cache as inputs. Random numbers are no useful
values for them: a trained model never has such a cache, and its logits for it depend on the order of summation.
Therefore PyTorch computes the past of a case from a prompt of that length:

1. `_shared_prompt_outputs` runs PyTorch once, on a prompt without padding. Its length is the longest past of all cases,
   its batch the largest.
2. `_past_from_shared_prompt` cuts the past of a case out of these outputs: the first rows of the batch, the first
   tokens of the length.
3. `_past_from_own_prompt` runs PyTorch on a prompt of its own for a case that cannot use the shared one. Its past may
   contain padding: the tokens of the shared prompt attended to each other, so its cache does not fit a mask that hides
   some of them. Or its shapes differ in more than batch and length.

There is no shared prompt if fewer than two cases have a past, or if another size than batch and length differs. The
past of the case `long past` is cut out of the outputs for the case `long text`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.check.cases import NO_LIMITS, CheckCase, check_cases, longest_text
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.axes import names, symbols
from onnxfn.specs.dummies import Array, dummies, known_sizes, padded
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.check_cases import past_lengths, with_dummies
from onnxfn.specs.plan.text_cases import LONG_PAST, LONG_TEXT
from onnxfn.specs.planned import Part, PlannedSpec
from onnxfn.specs.reports import CheckFailed, Tick, no_tick

SEEDS = 1000
"""The distance of the seeds of other dummy inputs: greater than the number of cases."""

OutputArrays = tuple[Array, ...]
"""One array for each output of a part, in the order of the plan."""


@frozen
class Reference:
    """The inputs of a case, and PyTorch's outputs for them.

    Attributes:
        case: The name of the case, with its sizes.
        inputs: The arrays of the inputs.
        outputs: PyTorch's arrays of the outputs.
        other: From a number to the reference for other dummy inputs of the same sizes. None: the inputs are real.
    """

    case: str
    inputs: Mapping[str, Array]
    outputs: OutputArrays
    other: Callable[[int], Reference] | None = field(default=None, eq=False, repr=False)


def references(
    model: Any,
    part: Part,
    real_inputs: Mapping[str, Array] | None = None,
    *,
    largest: Mapping[str, int] = NO_LIMITS,
    tick: Tick = no_tick,
) -> Iterator[Reference]:
    """The reference of each case of a part, computed one by one. `largest`: see `largest_sizes`.

    `tick` is called with the number of cases that are ready, and of all.
    """
    every_case = check_cases(part, real_inputs, longest=longest_text(model), largest=largest)
    with_past = [
        case for case in every_case if not case.real_inputs and case.name != LONG_PAST and _has_past(case.spec)
    ]
    shared, long_text = _shared_prompt_outputs(model, part, with_past), None
    for number, case in enumerate(every_case):
        tick(number, len(every_case))
        reference = case_reference(model, part, case, long_text if case.name == LONG_PAST else shared)
        long_text = reference.outputs if case.name == LONG_TEXT else long_text
        yield reference


def case_reference(model: Any, part: Part, case: CheckCase, shared: OutputArrays | None = None) -> Reference:
    """The reference of one case. `shared` are PyTorch's outputs for the shared prompt, if there is one."""
    inputs, other = case.real_inputs, None
    if inputs is None:
        inputs = case_inputs(model, part, case.spec, seed=case.seed, shared=shared)
        of_seed = partial(case_reference, model, part, shared=shared)
        other = cache(lambda number: of_seed(evolve(case, seed=case.seed + SEEDS * number)))
    return Reference(_case_label(part.spec, case.name, inputs), inputs, _torch_outputs(model, part, inputs), other)


def _torch_outputs(model: Any, part: Part, inputs: Mapping[str, Array]) -> OutputArrays:
    """PyTorch's outputs. CheckFailed if it cannot run a model in half precision: its CPU kernels lack some types."""
    try:
        return torch_outputs(model, part, inputs)
    except CaptureFailed as error:
        if part.spec.target.float_dtype in (None, "float32") or not isinstance(error.__cause__, RuntimeError):
            raise
        raise CheckFailed(f'{error}; export in float32: with_dtypes(spec, float="float32")') from error


def case_inputs(
    model: Any, part: Part, spec: PlannedSpec, *, seed: int = 0, shared: OutputArrays | None = None
) -> dict[str, Array]:
    """The dummy inputs of a case; the past, if it is not empty, is computed by PyTorch."""
    inputs = dummies(spec, {}, seed=seed)
    if not _has_past(spec):
        return inputs
    past = None
    if shared is not None and not _has_padding_in_past(spec, inputs):
        past = _past_from_shared_prompt(spec, inputs, shared)
    return inputs | (past or _past_from_own_prompt(model, part, spec, inputs, seed))


def _has_past(spec: PlannedSpec) -> bool:
    """Whether the past of a case is longer than 0."""
    sizes = known_sizes(spec, {})
    return any(sizes[past] for past in past_lengths(spec))


def _has_padding_in_past(spec: PlannedSpec, inputs: Mapping[str, Array]) -> bool:
    """Whether the padding mask of a case is 0 for a token of the past."""
    masks = [input_ for input_ in spec.inputs if input_.name == spec.check.mask_input]
    sizes = known_sizes(spec, {})
    pasts = [(mask.name, sizes[past]) for mask in masks for past in past_lengths(spec) if past in names(mask.axes)]
    return any(not inputs[mask][:, :length].all() for mask, length in pasts)


def _shared_prompt_outputs(model: Any, part: Part, with_past: Sequence[CheckCase]) -> OutputArrays | None:
    """PyTorch's outputs for the prompt that cases with a past share; None if they cannot share one.

    The prompt has no padding: the state of a recurrent layer after padding is not the state of a text.
    """
    lengths = past_lengths(part.spec)
    may_differ = {part.spec.batch, *lengths, *lengths.values()}
    sizes = [known_sizes(case.spec, {}) for case in with_past]
    others = [{name: size for name, size in own.items() if name not in may_differ} for own in sizes]
    if len(with_past) < 2 or any(own != others[0] for own in others):  # noqa: PLR2004 - one case shares nothing
        return None
    largest = {name: max(own[name] for own in sizes) for name in sizes[0]}
    prompt = dummies(with_dummies(with_past[0].spec, padded("none")), _prompt_sizes(largest, lengths))
    return _torch_outputs(model, part, prompt)


def _past_from_shared_prompt(
    spec: PlannedSpec, inputs: Mapping[str, Array], shared: OutputArrays
) -> dict[str, Array] | None:
    """The past inputs of a case, cut out of the outputs for the shared prompt; None if a shape does not fit."""
    outputs = dict(zip((output.name for output in spec.outputs), shared, strict=True))
    axes = {input_.name: input_.axes for input_ in spec.inputs}
    may_be_cut = {spec.batch, *past_lengths(spec)}
    past: dict[str, Array] = {}
    for feedback in spec.feedback:
        dummy = inputs[feedback.input]
        cut_axes = [axis for axis, symbol in symbols(axes[feedback.input]).items() if symbol in may_be_cut]
        beginning = _beginning(outputs[feedback.output], dummy.shape, cut_axes)
        if beginning is None:
            return None
        past[feedback.input] = beginning.astype(dummy.dtype)
    return past


def _beginning(array: Array, shape: tuple[int, ...], axes: Container[int]) -> Array | None:
    """The first elements of an array along these axes, so that it has this shape; None if that is not possible."""
    if array.ndim != len(shape):
        return None
    surplus = [actual - wanted for actual, wanted in zip(array.shape, shape, strict=True)]
    if any(more < 0 or (more and axis not in axes) for axis, more in enumerate(surplus)):
        return None
    return array[tuple(map(slice, shape))]


def _past_from_own_prompt(
    model: Any, part: Part, spec: PlannedSpec, inputs: Mapping[str, Array], seed: int
) -> dict[str, Array]:
    """The past inputs of a case, from PyTorch's outputs for a prompt that is as long as the past."""
    prompt = dummies(spec, _prompt_sizes(known_sizes(spec, {}), past_lengths(spec)), seed=seed)
    outputs = dict(zip((output.name for output in spec.outputs), _torch_outputs(model, part, prompt), strict=True))
    return {feedback.input: outputs[feedback.output].astype(inputs[feedback.input].dtype) for feedback in spec.feedback}


def _prompt_sizes(sizes: Mapping[str, int], lengths: Mapping[str, str]) -> dict[str, int]:
    """The sizes of a prompt that leaves a past of these sizes: its own past is empty.

    >>> _prompt_sizes({"past_sequence_length": 9, "sequence_length": 1}, {"past_sequence_length": "sequence_length"})
    {'past_sequence_length': 0, 'sequence_length': 9}
    """
    return {**sizes, **dict.fromkeys(lengths, 0), **{new: sizes[past] for past, new in lengths.items()}}


def _case_label(spec: PlannedSpec, name: str, inputs: Mapping[str, Array]) -> str:
    """The name of a case with the sizes of its dynamic axes: `one (batch_size=1, sequence_length=7)`.

    The sum of two axes that have a size each is left out.
    """
    sizes: dict[str, int] = {}
    for input_ in spec.inputs:
        for axis, symbol in symbols(input_.axes).items():
            sizes.setdefault(symbol, inputs[input_.name].shape[axis])
    sums = {symbol for symbol in sizes if " + " in symbol and sizes.keys() >= set(symbol.split(" + "))}
    return f"{name} ({', '.join(f'{symbol}={size}' for symbol, size in sizes.items() if symbol not in sums)})"
