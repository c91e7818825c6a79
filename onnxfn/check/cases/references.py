"""The cases of a part: their sizes and inputs, PyTorch's outputs for them, and ONNX Runtime's.

A decoder takes its KV cache as inputs. A trained model never has a random cache, and its logits for one depend on the
order of summation. Therefore PyTorch computes the past of a case from a prompt of that length.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import CDLL
from itertools import accumulate, pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.models.dtypes import torch_dtype
from onnxfn.models.forward import torch_outputs
from onnxfn.run.sessions import run_session
from onnxfn.specs.algebra.dummies import Array, dummies, known_sizes, padded, size_inputs
from onnxfn.specs.algebra.planned import Case, Part, PlannedSpec
from onnxfn.specs.axes import names, symbols, terms
from onnxfn.specs.axis_symbols import fixed_sizes, ranges, traced_sizes
from onnxfn.specs.conditions import (
    COUNT,
    Condition,
    as_ranges,
    is_equality,
    is_range,
    is_true,
    read_conditions,
    symbols_of,
)
from onnxfn.specs.errors import CaptureFailed, InvalidSpec
from onnxfn.specs.plan.check_cases import (
    FAR_PAST,
    cases,
    in_case,
    is_affordable,
    is_far,
    past_lengths,
    range_ends,
    resized,
    with_dummies,
)
from onnxfn.specs.plan.real_inputs import position_ids
from onnxfn.specs.plan.size_cases import SizeCase, Sizes, other_sides, small_and_far_sizes, unreached, within
from onnxfn.specs.plan.text_cases import LONG_PAST, LONG_TEXT, LONGEST, SHORTEST
from onnxfn.specs.stored.reports import CheckFailed, Tick, no_tick
from onnxfn.weights.onnx_files import metadata

LONG_TEXT_BUDGET = 800_000_000
"""The limit of parameters times tokens for a long text."""

FAR_TEXT_BUDGET = 2_000_000_000
"""The limit of all parameters times tokens up to which a whole model reads a far text."""

LONGEST_RUN = 4105
"""The most tokens of a far text in one run: 32 heads have 2 GB of scores for them, and take 5 GB of memory."""


@frozen
class CheckCase:
    """A case: the spec of its dummy inputs and their seed, or real inputs; left out if PyTorch refuses it and may."""

    name: str
    spec: PlannedSpec
    seed: int = 0
    real_inputs: Mapping[str, Array] | None = None
    tokens: int = 0
    may_be_refused: bool = False


def longest_text(model: Any) -> int:
    """The largest length of the long text of a check, so that it costs little compared with the other cases."""
    import torch

    # The cost of a token is the number of weights it is multiplied with: all matrices except embedding tables.
    tables = {module.weight for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    matrices = (parameter for parameter in model.parameters() if parameter.dim() > 1)
    multiplied: int = sum(parameter.numel() for parameter in matrices if parameter not in tables)
    return max(SHORTEST, LONG_TEXT_BUDGET // max(1, multiplied))


def farthest_text(model: Any) -> int:
    """The largest length of the far text that a whole model reads; layers of larger models do, see `far_texts.py`."""
    count: int = sum(parameter.numel() for parameter in model.parameters())
    return min(FAR_TEXT_BUDGET // max(1, count), LONGEST_RUN)


def stated_limits(file: Path) -> tuple[Condition, ...]:
    """The sizes for which a file says that its graph is valid."""
    every = read_conditions(metadata(file).get("onnxfn.limits", ""))
    # No axis of a single size: if the plan has others, the check has to find that the file lacks them.
    return tuple(each for each in every if not is_range(each) or " == " not in each.text)


def check_cases(
    part: Part,
    real_inputs: Mapping[str, Array] | None = None,
    *,
    longest: int = LONGEST,
    farthest: int = sys.maxsize,
    limits: Sequence[Condition] = (),
) -> tuple[CheckCase, ...]:
    """The cases of a part within limits, with texts up to `longest`, a far one to `farthest`; `real_inputs` last."""
    has_other_sizes = all(part.inputs.values())
    within = [_within_limits(part, case, longest, limits) for case in cases(part.spec)]
    affordable = {case.name.startswith(FAR_PAST): case for case, n in _far_texts(part, within) if n <= farthest}
    every_case = [*(case for case in within if not is_far(case)), *affordable.values()]
    planned = tuple(
        # An input without dynamic axes has the same size in all cases. Then each case gets other values.
        CheckCase(case.name, in_case(part.spec, case), seed=0 if has_other_sizes else number)
        for number, case in enumerate(every_case, start=1)
    )
    distinct = tuple(
        case
        for number, case in enumerate(planned)
        if not any(_has_equal_inputs(case, earlier) for earlier in planned[:number])
    )
    return (*distinct, CheckCase("preprocessed", part.spec, real_inputs=real_inputs)) if real_inputs else distinct


def _far_texts(part: Part, every_case: Sequence[Case]) -> Iterator[tuple[Case, int]]:
    """The far texts and pasts that are longer than all others, and their tokens."""
    grown, near = past_lengths(part.spec), [traced_sizes(case) for case in every_case if not is_far(case)]
    for case in filter(is_far, every_case):
        sizes = traced_sizes(case)
        longer = {name for name, size in sizes.items() if all(size > other.get(name, 0) for other in near)}
        if longer:
            both = (sizes.get(past, 0) + sizes.get(new, 0) for past, new in grown.items() if longer & {past, new})
            yield case, max(both, default=max(sizes[name] for name in longer))


def _has_equal_inputs(case: CheckCase, other: CheckCase) -> bool:
    """Whether two cases have the same inputs. With a cache they may not: PyTorch computes it from a prompt."""
    if case.spec.feedback or case.seed != other.seed or known_sizes(case.spec, {}) != known_sizes(other.spec, {}):
        return False
    pair = (dummies(each.spec, {}, seed=each.seed) for each in (case, other))
    return all(map(np.array_equal, *(arrays.values() for arrays in pair)))


def far_cases(model: Any, part: Part, file: Path) -> tuple[CheckCase, ...]:
    """The far texts that are within the limits of a file, and too long for the whole model."""
    every, farthest, limits = cases(part.spec), farthest_text(model), (longest_text(model), stated_limits(file))
    far = _far_texts(part, [_within_limits(part, case, *limits) for case in every])
    return tuple(CheckCase(case.name, in_case(part.spec, case), tokens=n) for case, n in far if n > farthest)


def affordable_cases(
    model: Any, part: Part, real_inputs: Mapping[str, Array] | None = None, limits: Sequence[Condition] = ()
) -> tuple[CheckCase, ...]:
    """The `check_cases` of a part for the lengths that a check of the whole model can afford."""
    return check_cases(part, real_inputs, longest=longest_text(model), farthest=farthest_text(model), limits=limits)


def _within_limits(part: Part, case: Case, longest: int, limits: Sequence[Condition]) -> Case:
    """A case with sizes within the limits; one for long texts also with at most `longest` tokens."""
    most = longest if case.name in (LONG_TEXT, LONG_PAST) else sys.maxsize
    # A size above LONGEST is not a number of tokens: a waveform next to a long text keeps its length.
    sizes = {name: min(size, most) if size <= LONGEST else size for name, size in traced_sizes(case).items()}
    if limits:  # a limit may name axes whose size is that of the trace in this case
        base = known_sizes(part.spec, {})
        moved = within({**base, **sizes}, limits)
        sizes = {name: size for name, size in moved.items() if name in sizes or size != base[name]}
    return resized(case, sizes)


def trace_conditions(file: Path) -> tuple[Condition, ...]:
    """What was true of the sizes in the trace of a file, as the model's own code evaluated it."""
    return read_conditions(metadata(file).get("onnxfn.conditions", ""))


@frozen
class _Moves:
    """How the sizes of a file move: from `base`, where `allowed` says so; `planned` sizes are those of other cases."""

    base: Sizes
    conditions: tuple[Condition, ...]
    allowed: Callable[[Sizes], bool]
    planned: tuple[Sizes, ...]


def _moves(part: Part, conditions: Sequence[Condition], limits: Sequence[Condition]) -> _Moves:
    spec, moved, known = part.spec, ranges(part.spec), known_sizes(part.spec, {})
    conditions = tuple(each for each in conditions if known.keys() >= {*symbols_of(each.text)})
    planned = tuple(known_sizes(case.spec, {}) for case in check_cases(part, limits=limits))
    alike = [sizes for sizes in (known, *planned) if all(is_true(each.text, sizes) for each in conditions)]
    smallest = min(alike, key=lambda sizes: prod(sizes.values()), default=known)
    base = {name: size for name, size in smallest.items() if name not in fixed_sizes(spec)}

    def allowed(sizes: Sizes) -> bool:
        in_ranges = all(low <= sizes.get(name, low) <= high for name, (low, high) in moved.items())
        return in_ranges and all(is_true(each.text, known | dict(sizes)) for each in limits)

    return _Moves(base, conditions, allowed, planned)


def unreached_sides(part: Part, conditions: Sequence[Condition], limits: Sequence[Condition]) -> list[Condition]:
    """The conditions of a trace whose other side is within the limits, but only at sizes too large for a case."""
    if not conditions:  # the cases take time
        return []
    moves = _moves(part, conditions, limits)
    never_turned = [each for each in moves.conditions if all(is_true(each.text, sizes) for sizes in moves.planned)]
    return [end for each in unreached(moves.base, never_turned, moves.allowed) for end in as_ranges(each)]


def untried(part: Part, file: Path) -> list[str]:
    """The branches whose other side no case tries: no sizes of inputs decide them, or only sizes too large do."""
    conditions, known = trace_conditions(file), known_sizes(part.spec, {}).keys()
    of_values = [each for each in conditions if not known >= {*symbols_of(each.text)}]
    unknown = (*of_values, *(unreached_sides(part, conditions, stated_limits(file)) if conditions else ()))
    ends = [end for end in range_ends(part.spec, cases(part.spec)) if not is_affordable(part.spec, end)]
    far = (f"{end.name} ({', '.join(f'{name}={size}' for name, size in traced_sizes(end).items())})" for end in ends)
    sides = (f"other side of {side}".replace(f" != {COUNT}", ", as a key or a text") for side in unknown)  # a lookup
    return [f"{file.name}: {each}" for each in (*sides, *far)]


def other_sizes(part: Part, file: Path, more_limits: Sequence[Condition] = ()) -> tuple[CheckCase, ...]:
    """The cases on the other side of each condition of a file, within all limits; PyTorch may refuse them."""
    spec, conditions = part.spec, trace_conditions(file)
    moves, known = _moves(part, conditions, (*stated_limits(file), *more_limits)), known_sizes(spec, {})
    if not moves.conditions and (spec.derived is None or past_lengths(spec)):
        return ()
    tried = list(other_sides(moves.base, moves.conditions, moves.allowed))
    if spec.derived is not None:  # a trace takes no size for 1, and notes nothing that this decides: `batch_size > 1`
        others = {name: 1 if size > 1 else known[name] for name, size in moves.base.items()}
        unmoved = ((case, name) for case in tried for name, size in moves.base.items() if case.sizes[name] == size)
        tried += [evolve(case, sizes={**case.sizes, name: others[name]}) for case, name in unmoved]
        tried = [case for case in tried if moves.allowed(case.sizes)]
    if moves.base and spec.derived is not None and not past_lengths(spec):
        tried += small_and_far_sizes(moves.base, moves.allowed)
    if any(is_equality(each.text) for each in conditions):
        own = {name: known[name] for name in moves.base}
        equalities = [each for each in moves.conditions if is_equality(each.text)]
        tried += [SizeCase("sizes of the spec", own), *other_sides(own, equalities, moves.allowed)]
    distinct = {frozenset(case.sizes.items()): case for case in reversed(tried)}
    new = [case for case in reversed(distinct.values()) if known | dict(case.sizes) not in moves.planned]
    return tuple(CheckCase(case.reason, resized(spec, case.sizes), seed=1, may_be_refused=True) for case in new)


OutputArrays = tuple[Array, ...]
"""One array for each output of a part, in the order of the plan."""


@frozen
class Reference:
    """The inputs of a case, and PyTorch's outputs for them; `is_of_other_sizes`: not those of the spec."""

    case: str
    inputs: Mapping[str, Array]
    outputs: OutputArrays
    is_of_other_sizes: bool = False
    drawn: CheckCase | None = None


def references(
    model: Any,
    part: Part,
    real_inputs: Mapping[str, Array] | None = None,
    *,
    limits: Sequence[Condition] = (),
    others: Sequence[CheckCase] = (),
    dtype: str | None = None,
    tick: Tick = no_tick,
) -> Iterator[Reference]:
    """The reference of each case of a part within limits, computed one by one in `dtype`; then those of other cases."""
    every_case = (*affordable_cases(model, part, real_inputs, limits), *others)
    return_memory = getattr(CDLL(None), "malloc_trim", int) if sys.platform == "linux" else int
    elements = [prod(max(1, size) for size in known_sizes(case.spec, {}).values()) for case in every_case]
    work = [0, *accumulate(elements)]
    ready = [0.0, *((before + after) / 2 * len(every_case) / work[-1] for before, after in pairwise(work))]
    for number, case in enumerate(every_case):
        tick(ready[number], len(every_case), ready[number + 1])
        if reference := possible_reference(model, part, case, dtype):
            yield reference
        return_memory(0)  # glibc keeps what is free: weights that are converted one by one leave 1 GB


def possible_reference(model: Any, part: Part, case: CheckCase, dtype: str | None = None) -> Reference | None:
    """The reference of one case; None if it may be refused, and PyTorch cannot run it."""
    try:
        return case_reference(model, part, case, dtype)
    except (CaptureFailed, CheckFailed, InvalidSpec):
        if case.may_be_refused:
            return None
        raise


def case_reference(model: Any, part: Part, case: CheckCase, dtype: str | None = None) -> Reference:
    """The reference of one case. PyTorch computes in `dtype`; None is that of the part."""
    real = case.real_inputs
    inputs = case_inputs(model, part, case.spec, dtype, seed=case.seed) if real is None else real
    label = case_label(part.spec, case.name, inputs)
    outputs = _torch_outputs(model, part, inputs, dtype, label)
    return Reference(label, inputs, outputs, case.may_be_refused, case if real is None else None)


def _torch_outputs(model: Any, part: Part, inputs: Mapping[str, Array], dtype: str | None, case: str) -> OutputArrays:
    """PyTorch's outputs. CheckFailed if it cannot run a model in half precision: its CPU kernels lack some types."""
    try:
        return torch_outputs(model, part, inputs, torch_dtype(dtype), case)
    except CaptureFailed as error:
        if part.spec.target.float_dtype in (None, "float32") or not isinstance(error.__cause__, RuntimeError):
            raise
        raise CheckFailed(f'{error}; export in float32: with_dtypes(spec, float="float32")') from error


def case_inputs(
    model: Any, part: Part, spec: PlannedSpec, dtype: str | None = None, *, seed: int = 0
) -> dict[str, Array]:
    """The dummy inputs of a case; PyTorch computes a past that is not empty from a prompt with the mask of the case."""
    inputs = dummies(spec, {}, seed=seed)
    sizes, pasts = known_sizes(spec, {}), past_lengths(spec)
    if not any(sizes[past] for past in pasts):
        return inputs
    # With padding only where the mask hides tokens of the past: a recurrent layer has another state after padding.
    in_buffers = {each.name for each in spec.dummies.generators if each.function == "in_buffer"}
    masks = [input_ for input_ in spec.inputs if input_.name == spec.check.mask_input]
    covering = [mask for mask in masks if mask.generator in in_buffers or {*pasts} & {*names(mask.axes)}]
    in_past = {mask.name: inputs[mask.name][:, : sizes[next(iter(pasts))]] for mask in covering}
    of_prompt = with_dummies(spec, padded("none")) if all(mask.all() for mask in in_past.values()) else spec
    of_pasts = {new: sizes[past] for past, new in pasts.items()}
    prompt = dummies(of_prompt, {**sizes, **dict.fromkeys(pasts, 0), **of_pasts}, seed=seed)
    for name, mask in in_past.items():  # it hides the same tokens then: a text may depend on its first one
        after = prompt[name].shape[1] - mask.shape[1]
        if mask.any(axis=1).all() and after >= 0:
            prompt |= {name: np.pad(mask, ((0, 0), (0, after))), **position_ids(spec, prompt, mask)}
    arrays = _torch_outputs(model, part, prompt, dtype, "a prompt")
    outputs = dict(zip((output.name for output in spec.outputs), arrays, strict=True))
    past = {each.input: outputs[each.output].astype(inputs[each.input].dtype) for each in spec.feedback}
    return inputs | past


def symbol_sizes(spec: PlannedSpec, inputs: Mapping[str, Array]) -> dict[str, int]:
    """The size of each symbol of the inputs in a case; the largest, since a past may be empty."""
    sizes: dict[str, int] = {}
    for input_ in spec.inputs:
        for axis, symbol in symbols(input_.axes).items():
            sizes[symbol] = max(sizes.get(symbol, 0), inputs[input_.name].shape[axis])
    numbers = {name: symbols(axes) for name, axes in size_inputs(spec).items()}
    return sizes | {symbol: inputs[name].item() for name, of in numbers.items() for symbol in of.values()}


def case_label(spec: PlannedSpec, name: str, inputs: Mapping[str, Array]) -> str:
    """The name of a case with the sizes of its dynamic axes: `one (batch_size=1, sequence_length=7)`."""
    sizes = symbol_sizes(spec, inputs)
    # A formula of axes that have a size each is left out.
    formulas = {symbol for symbol in sizes if terms(symbol) != (symbol,) and sizes.keys() >= {*terms(symbol)}}
    shown = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items() if symbol not in formulas)
    return f"{name} ({shown})" if shown else name


SAME = 1e-4
"""The largest difference, relative to the largest number, that order of summation makes; random numbers exceed it."""


def random_findings(model: Any, part: Part, reference: Reference, dtype: str | None = None) -> tuple[str, ...]:
    """The finding for a model whose outputs differ from call to call; empty for any other model."""
    again = torch_outputs(model, part, reference.inputs, torch_dtype(dtype))
    pairs = zip(part.spec.outputs, reference.outputs, again, strict=True)

    def agree(first: Array, second: Array) -> bool:
        largest = float(np.abs(first[np.isfinite(first)]).max(initial=0.0))
        return np.allclose(first, second, rtol=SAME, atol=SAME * largest, equal_nan=True)

    different = [each.name for each, first, second in pairs if first.shape != second.shape or not agree(first, second)]
    draws = "the model draws random numbers; take these as an input, or export with check=False"
    return tuple(f"PyTorch itself returns other values of {name!r} at the next call: {draws}" for name in different[:1])


def with_outputs(
    session_of_file: Callable[[], Any], run_options: Any, file: Path, part: Part, reference: Reference
) -> tuple[Reference, OutputArrays | None]:
    """A reference, and ONNX Runtime's outputs, None if other sizes need too much memory; CheckFailed if it fails."""
    names, what = [output.name for output in part.spec.outputs], f"{file.name} at {reference.case}"
    try:
        return reference, run_session(session_of_file(), names, reference.inputs, what, run_options)
    except MemoryError:
        if reference.is_of_other_sizes:
            return reference, None
        raise
