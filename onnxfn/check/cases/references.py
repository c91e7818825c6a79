"""The references of a check: the inputs of each case, and PyTorch's outputs for them.

A decoder with past takes its KV cache as inputs. Random numbers are no useful values for them: a trained model never
has such a cache, and its logits for it depend on the order of summation. Therefore PyTorch computes the past of a case
from a prompt of that length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.check.cases.cases import NO_LIMITS, CheckCase, check_cases, longest_text
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import Array, dummies, known_sizes, padded
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import names, symbols
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.check_cases import past_lengths, with_dummies
from onnxfn.specs.stored.reports import CheckFailed, Tick, no_tick

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
    for number, case in enumerate(every_case):
        tick(number, len(every_case))
        yield case_reference(model, part, case)


def case_reference(model: Any, part: Part, case: CheckCase) -> Reference:
    """The reference of one case."""
    inputs, other = case.real_inputs, None
    if inputs is None:
        inputs = case_inputs(model, part, case.spec, seed=case.seed)
        other = cache(lambda number: case_reference(model, part, evolve(case, seed=case.seed + SEEDS * number)))
    return Reference(_case_label(part.spec, case.name, inputs), inputs, _torch_outputs(model, part, inputs), other)


def _torch_outputs(model: Any, part: Part, inputs: Mapping[str, Array]) -> OutputArrays:
    """PyTorch's outputs. CheckFailed if it cannot run a model in half precision: its CPU kernels lack some types."""
    try:
        return torch_outputs(model, part, inputs)
    except CaptureFailed as error:
        if part.spec.target.float_dtype in (None, "float32") or not isinstance(error.__cause__, RuntimeError):
            raise
        raise CheckFailed(f'{error}; export in float32: with_dtypes(spec, float="float32")') from error


def case_inputs(model: Any, part: Part, spec: PlannedSpec, *, seed: int = 0) -> dict[str, Array]:
    """The dummy inputs of a case; the past, if it is not empty, is computed by PyTorch from a prompt of its length.

    The prompt has padding only where the mask of the case hides tokens of the past: the state of a recurrent layer
    after padding is not the state of a text.
    """
    inputs = dummies(spec, {}, seed=seed)
    if not _has_past(spec):
        return inputs
    of_prompt = spec if _has_padding_in_past(spec, inputs) else with_dummies(spec, padded("none"))
    prompt = dummies(of_prompt, _prompt_sizes(known_sizes(spec, {}), past_lengths(spec)), seed=seed)
    outputs = dict(zip((output.name for output in spec.outputs), _torch_outputs(model, part, prompt), strict=True))
    past = {each.input: outputs[each.output].astype(inputs[each.input].dtype) for each in spec.feedback}
    return inputs | past


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
