"""The first tensor that differs between an ONNX file and PyTorch, and the path of its module.

ONNX Runtime computes all values of the file, and PyTorch the tensors of all modules, in the first case that fails.
A tensor of a module is right if a value of the graph equals it within the tolerance. A tensor without an equal value is
wrong, or a fusion removed it from the graph, or the graph has it in another layout.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from toolz import groupby

from onnxfn.check.cases.references import CheckCase, Reference, case_reference
from onnxfn.check.cuts.graph_values import GraphValues, graph_values
from onnxfn.check.cuts.recorded_tensors import RecordedTensor, recorded_tensors
from onnxfn.check.verdict.case_comparisons import CheckedFile, output_comparisons
from onnxfn.check.verdict.compare import Exact, Select, compare, token_features, valid_elements
from onnxfn.check.verdict.verdict import Comparison, NoReference, no_casts_below, no_reference
from onnxfn.graphs.capture.capture import parameter_names
from onnxfn.models.dtypes import in_dtype_if_small
from onnxfn.run.sessions import open_check_session, run_session
from onnxfn.specs.algebra.dummies import Array, known_sizes, sized
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import terms
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import unknown
from onnxfn.specs.plan.check_cases import with_dummies
from onnxfn.specs.record import typed_fields
from onnxfn.specs.short_repr import short_repr

Rows = Mapping[int, tuple[Sequence[str], Array]]
"""From a number of elements to the names of the values that have as many, and a matrix with a row for each."""


@frozen(field_transformer=typed_fields)
class TensorPair:
    """A tensor of PyTorch and the value of the graph that stands for it.

    Attributes:
        module: The path of the module whose code returns the tensor, or passes it to another; empty for the model.
        value: The name of the value; None if the graph has none, because a fusion removed it.
        max_abs: The largest absolute difference; infinite without a value.

    >>> print(TensorPair("encoder.layer.0.output", "add_7", 0.25))
    encoder.layer.0.output (value 'add_7' of the graph, 2.5e-01 away)
    """

    module: str
    value: str | None
    max_abs: float

    __repr__ = short_repr

    def __str__(self) -> str:
        value = "no value of the graph" if self.value is None else f"value {self.value!r} of the graph"
        distance = "" if self.value is None else f", {self.max_abs:.1e} away"
        return f"{self.module or 'the model itself'} ({value}{distance})"


@frozen(eq=False)
class MatchedTensor:
    """A recorded tensor and the graph's value that equals it, with their `max_abs`; its module's `weights`.

    `behind`: weights from which the value of the tensor is computed.
    """

    tensor: RecordedTensor
    exact: Exact
    value: str | None
    max_abs: float
    weights: frozenset[str]
    behind: frozenset[str]


def matched_tensors(checked: CheckedFile, values: GraphValues, inputs: Mapping[str, Array]) -> list[MatchedTensor]:
    """The tensors of a run, each with the closest value of the graph if that equals it; an output has its own value."""
    model, spec = checked.model, checked.part.spec
    outputs = {output.name: values.arrays[output.name] for output in spec.outputs}  # first: of equal values, the last
    rows, weights = rows_by_size({**outputs, **values.arrays}), _weights_of(model, values)
    tensors = recorded_tensors(model, checked.part, inputs)
    calls = groupby(lambda tensor: (tensor.call, tensor.is_result), tensors)
    matched = []
    for tensor, exact in zip(tensors, _exact(checked, inputs, len(tensors)), strict=True):
        select = elements_of_tokens(spec, tensor, inputs)
        own = weights(tensor.module)
        is_alone = len(calls[tensor.call, tensor.is_result]) == 1
        behind = _weights_behind(tensor, own, values, is_alone=is_alone)
        value, distance = closest_value(tensor.array, rows, select, partial(_may_equal, tensor, behind, values))
        actual = None if value is None else values.arrays[value].reshape(tensor.array.shape)
        equal = actual is not None and compare(spec, "", "", actual, tensor.array, select, exact).passed
        value, distance = (value, distance) if equal else (None, np.inf)
        matched.append(MatchedTensor(tensor, exact, value, distance, own, behind))
    return matched


def _exact(checked: CheckedFile, inputs: Mapping[str, Array], count: int) -> Sequence[Exact]:
    """The tensors of a run in float64, for the rule of `verdict.py`; none of them is known where that fails."""
    import torch

    try:
        with no_reference("float64"), no_casts_below(torch.float64):
            wider = in_dtype_if_small(checked.model, "float64")
            exact = [each.array for each in recorded_tensors(wider, checked.part, inputs, torch.float64)]
    except NoReference:
        exact = []
    return [Exact(partial(_named, "float64", each)) for each in exact] if len(exact) == count else [Exact()] * count


def _named(dtype: str, array: Array) -> tuple[str, Array]:
    return dtype, array


def counterpart(
    spec: PlannedSpec,
    values: GraphValues,
    inputs: Mapping[str, Array],
    used: Container[str | None],
    each: MatchedTensor,
) -> TensorPair:
    """A tensor without an equal value, and its counterpart: the closest value that no other tensor equals (`used`)."""
    # For the result of a leaf it is the first value that depends on all weights of the leaf.
    tensor, own = each.tensor, each.weights

    def may_stand(name: str, array: Array) -> bool:
        weights = values.weights.get(name, frozenset())
        is_behind = own <= weights if tensor.is_result else each.behind <= weights and not own & weights
        return is_behind and (tensor.is_result or array.shape == tensor.array.shape)

    arrays = {name: array for name, array in values.arrays.items() if array.size == tensor.array.size}
    if tensor.output:
        arrays = {name: array for name, array in arrays.items() if name == tensor.output}
    else:
        names = [name for name, array in arrays.items() if may_stand(name, array)]
        names = names[:1] if tensor.is_of_leaf and tensor.is_result else names
        arrays = {name: arrays[name] for name in names if name not in used}
    select = elements_of_tokens(spec, tensor, inputs)
    return TensorPair(tensor.computed_by, *closest_value(tensor.array, rows_by_size(arrays), select))


def rows_by_size(arrays: Mapping[str, Array]) -> Rows:
    """The values of a graph, grouped by their number of elements."""
    names = groupby(lambda name: arrays[name].size, arrays)
    return {size: (group, np.stack([arrays[name].reshape(-1) for name in group])) for size, group in names.items()}


def closest_value(
    array: Array, rows: Rows, select: Select, is_allowed: Callable[[str], bool] = bool
) -> tuple[str | None, float]:
    """The name of the allowed value closest to an array of as many elements, and the difference; None without any."""
    names, matrix = rows.get(array.size, ((), np.zeros((0, array.size))))
    allowed = [index for index, name in enumerate(names) if is_allowed(name)]
    if not allowed:
        return None, float("inf")
    selected = select(np.arange(array.size).reshape(array.shape)).reshape(-1)
    left, right = matrix[allowed][:, selected], array.reshape(-1)[selected]
    with np.errstate(invalid="ignore"):
        differences = np.where(left == right, 0.0, np.abs(left - right))
    distances = np.where(np.isnan(differences), np.inf, differences).max(axis=1, initial=0.0)
    best = int(np.flatnonzero(distances == distances.min())[-1])  # the last: with a bias of 0, it was added
    return names[allowed[best]], float(distances[best])


def elements_of_tokens(spec: PlannedSpec, tensor: RecordedTensor, inputs: Mapping[str, Array]) -> Select:
    """Selects the elements of a tensor that are compared: those of tokens, not of padding."""
    if tensor.output:
        return valid_elements(spec, spec.outputs[tensor.output], inputs)
    return token_features(spec, tensor.array.shape, inputs)


def _weights_behind(
    tensor: RecordedTensor, own: frozenset[str], values: GraphValues, *, is_alone: bool
) -> frozenset[str]:
    """Weights from which the value of a leaf's tensor is computed: its own ones (`own`) if it is the result.

    A single argument is computed from what stands beside a weight of the leaf in the node that reads it.
    """
    # A product before its bias is added could else match a layer without its bias, or a value before it is scaled by 1.
    if not tensor.is_of_leaf or not (tensor.is_result or is_alone):
        return frozenset()
    siblings = (values.sibling_weights[name] - own for name in own if name in values.sibling_weights)
    return own if tensor.is_result else min(siblings, key=len, default=frozenset())


def _may_equal(tensor: RecordedTensor, weights: frozenset[str], values: GraphValues, value: str) -> bool:
    """Whether a value may stand for a tensor: a planned output has its own, others are computed from its weights."""
    return value == tensor.output if tensor.output else weights <= values.weights.get(value, frozenset())


def _weights_of(model: Any, values: GraphValues) -> Callable[[str], frozenset[str]]:
    """A function from the path of a module to the names of its weights in the graph."""
    name_of = parameter_names(model)
    names = {path: name_of(tensor) for path, tensor in model.state_dict(keep_vars=True).items()}
    in_graph = frozenset[str]().union(*values.weights.values())
    return lambda module: frozenset(
        name for path, name in names.items() if name in in_graph and path.startswith(f"{module}." if module else "")
    )


NOT_BISECTED = "bisect compares single runs; validate compares each weight, too, and the texts that a decoder generates"


@frozen(field_transformer=typed_fields)
class Divergence:
    """The first difference between ONNX files and PyTorch. It prints as a few lines.

    Attributes:
        file: The name of the ONNX file; of all files if none differs.
        first: The first tensor that differs; None if no output differs in any of the cases that run.
        before: The last tensor before it that is right; None if there is none.
        after: The next tensor after it that has a value in the graph; None if there is none.
        case: The name of the first case that fails; empty if none does.
        sizes: For each dynamic axis its symbol, and its size in that case.
        tolerance: The absolute tolerance of the output that differs most.

    >>> print(Divergence("model.onnx"))
    model.onnx: in the cases that run no output differs from PyTorch's
      bisect compares single runs; validate compares each weight, too, and the texts that a decoder generates
    """

    file: str
    first: TensorPair | None = None
    before: TensorPair | None = None
    after: TensorPair | None = None
    case: str = ""
    sizes: tuple[tuple[str, int], ...] = field(default=(), converter=as_tuple)
    tolerance: float = 0.0

    __repr__ = short_repr

    @property
    def module(self) -> str | None:
        """The path of the module that computes the first tensor that differs; None if nothing differs."""
        return None if self.first is None else self.first.module

    def __str__(self) -> str:
        if self.first is None:
            return f"{self.file}: in the cases that run no output differs from PyTorch's\n  {NOT_BISECTED}"
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes)
        lines = (
            f"{self.file}: the first wrong tensor is of {self.first}",
            f"  right before it: {self.before}" if self.before else "",
            f"  wrong after it: {self.after}" if self.after else "",
            f"  first case that fails: {self.case}" + (f", {sizes}" if sizes else ""),
            f"  absolute tolerance: {self.tolerance:.1e}",
        )
        return "\n".join(filter(None, lines))


def divergence(checked: CheckedFile, cases: Sequence[CheckCase]) -> Divergence | None:
    """The first difference of a file from PyTorch in the first failing case; CheckFailed if the file cannot run."""
    failing = next(_failing_cases(checked, open_check_session(checked.file, content=checked.content), cases), None)
    if failing is None:
        return None
    case, reference, worst = failing
    dynamic = {name for axes in checked.part.inputs.values() for symbol in axes.values() for name in terms(symbol)}
    known = known_sizes(case.spec, {}).items()
    sizes = [(name, size) for name, size in known if name in dynamic and name not in fixed_sizes(case.spec)]
    difference = _first_difference(checked, reference.inputs, worst)
    return evolve(difference, case=case.name, sizes=sizes, tolerance=worst.tolerance)


def _first_difference(checked: CheckedFile, inputs: Mapping[str, Array], worst: Comparison) -> Divergence:
    """The first tensor that differs in a case, and those before and after it."""
    spec, file = checked.part.spec, checked.file
    values = graph_values(file, inputs, checked.content)
    tensors = matched_tensors(checked, values, inputs)
    pair = partial(counterpart, spec, values, inputs, {each.value for each in tensors})
    index = first_wrong(spec, tensors, values, pair)
    if index is None:  # ONNX Runtime itself is wrong where it may fuse operators: then no value is an output
        return Divergence(file.name, TensorPair("", worst.output, worst.max_abs))
    right = [TensorPair(each.tensor.computed_by, each.value, each.max_abs) for each in tensors[:index] if each.value]
    first = _with_distance(pair(tensors[index]), spec, [each.tensor for each in tensors[index:]], values, inputs)
    later = (pair(each) for each in tensors[index + 1 :] if each.value is None)
    after = None if first.value else next((each for each in later if each.value), None)
    return Divergence(file.name, first, right[-1] if right else None, after)


def _with_distance(
    pair: TensorPair,
    spec: PlannedSpec,
    tensors: Sequence[RecordedTensor],
    values: GraphValues,
    inputs: Mapping[str, Array],
) -> TensorPair:
    """A pair with the distance of its value from the closest of these tensors: a graph may add in another order."""
    if pair.value is None:
        return pair
    rows = rows_by_size({pair.value: values.arrays[pair.value]})
    distances = [closest_value(each.array, rows, elements_of_tokens(spec, each, inputs))[1] for each in tensors]
    return evolve(pair, max_abs=min(distances))


def selected_cases(
    cases: tuple[CheckCase, ...], part: Part, name: str | None, sizes: dict[str, int]
) -> tuple[CheckCase, ...]:
    """The cases of a part, with these sizes; with a name, only the case of this name. UnknownName if there is none."""
    named = [case for case in cases if name in (None, case.name)]
    if not named:
        raise unknown("case", str(name), [case.name for case in cases], of=part.name)
    resized = (evolve(case, spec=with_dummies(case.spec, sized(**sizes))) for case in named)
    return tuple(case if case.real_inputs is not None else other for case, other in zip(named, resized, strict=True))


def _failing_cases(
    checked: CheckedFile, session: Any, cases: Sequence[CheckCase]
) -> Iterator[tuple[CheckCase, Reference, Comparison]]:
    """Each case in which an output differs from PyTorch's, with the comparison of the output that differs most."""
    part = checked.part
    for case in cases:
        reference = case_reference(checked.model, part, case, checked.dtype)
        names = [output.name for output in part.spec.outputs]
        outputs = run_session(session, names, reference.inputs, checked.file.name)
        comparisons = output_comparisons(checked, reference, outputs)
        differing = [comparison for comparison in comparisons if not comparison.passed]
        if differing:
            yield case, reference, max(differing, key=lambda comparison: comparison.max_rel)


def first_wrong(
    spec: PlannedSpec,
    tensors: Sequence[MatchedTensor],
    values: GraphValues,
    pair: Callable[[MatchedTensor], TensorPair],
) -> int | None:
    """The index of the first tensor that is wrong; None if all are right.

    A leaf (a module without inner modules) is wrong if its inputs are right and its result is not. The result is wrong
    if its value in the graph has other elements, or if no later right tensor is computed from it. Without a wrong leaf,
    the first tensor is wrong from which no later right tensor is computed.
    """
    unused = _unused(tensors, values)
    wrong_calls = {each.tensor.call for each in tensors if each.value is None and not each.tensor.is_result}
    for index, each in enumerate(tensors):
        is_result_of_leaf = each.value is None and each.tensor.is_result and each.tensor.is_of_leaf
        has_right_inputs = bool(each.weights) and each.tensor.call not in wrong_calls
        if is_result_of_leaf and has_right_inputs and (index in unused or _is_another(spec, each, values, pair)):
            return index
    return _source(tensors, min(unused)) if unused else None


def _unused(tensors: Sequence[MatchedTensor], values: GraphValues) -> set[int]:
    """The indices of tensors without an equal value and without a later right value that is computed from them."""
    unused = set()
    later = frozenset[str]()
    for index, each in reversed(list(enumerate(tensors))):
        own = each.weights
        if each.value is not None:
            later |= values.weights.get(each.value, frozenset())
        # The input of a module counts with any weight of the module, its result with all of them.
        elif each.tensor.output or (own and not (own <= later if each.tensor.is_result else own & later)):
            unused.add(index)
    return unused


def _is_another(
    spec: PlannedSpec, each: MatchedTensor, values: GraphValues, pair: Callable[[MatchedTensor], TensorPair]
) -> bool:
    """Whether the counterpart of a tensor has other elements; the same elements in another layout do not count."""
    value = pair(each).value
    if value is None:
        return False

    def exact() -> tuple[str, Array]:
        dtype, array = each.exact.array()
        return dtype, np.sort(array, axis=None)

    left, right = (np.sort(array, axis=None) for array in (values.arrays[value], each.tensor.array))
    return not compare(spec, "", "", left, right, exact=Exact(exact)).passed


def _source(tensors: Sequence[MatchedTensor], wrong: int) -> int:
    """The index of the first wrong result of a module without weights from which a wrong tensor is computed."""
    tensor = tensors[wrong].tensor
    call = max((each.tensor.call for each in tensors[:wrong] if each.tensor.module == tensor.computed_by), default=0)
    # The code that computes the tensor calls this module, or the module returns the tensor itself.
    for index, each in enumerate(tensors[:wrong]):
        is_called = each.tensor.call > call and each.tensor.module.rpartition(".")[0] == tensor.computed_by
        is_wrong = each.value is None and not each.weights and each.tensor.is_result
        if is_wrong and (is_called or np.array_equal(each.tensor.array, tensor.array)):
            return index
    return wrong
