"""The first tensor that differs between an ONNX file and PyTorch, and the path of its module.

ONNX Runtime computes all values of the file, and PyTorch the tensors of all modules, in the first case that fails.
A tensor of a module is right if a value of the graph equals it within the tolerance. A tensor without an equal value is
wrong, or a fusion removed it from the graph, or the graph has it in another layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.check.bisect.matching import MatchedTensor, TensorPair, counterpart, matched_tensors
from onnxfn.check.cases.references import CheckCase, Reference, case_reference
from onnxfn.check.cuts.graph_values import GraphValues, graph_values
from onnxfn.check.cuts.recorded_tensors import recorded_tensors
from onnxfn.check.verdict.case_comparisons import CheckedFile, output_comparisons
from onnxfn.check.verdict.verdict import Comparison
from onnxfn.run.sessions import open_check_session
from onnxfn.specs.algebra.dummies import Array, known_sizes, sized
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axes import terms
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import unknown
from onnxfn.specs.plan.check_cases import with_dummies
from onnxfn.specs.record import typed_fields
from onnxfn.specs.short_repr import short_repr


@frozen(field_transformer=typed_fields)
class Divergence:
    """The first difference between ONNX files and PyTorch. It prints as a few lines.

    Attributes:
        file: The name of the ONNX file; of all files if none differs.
        first: The first tensor that differs; None if all files agree with PyTorch in all cases.
        before: The last tensor before it that is right; None if there is none.
        after: The next tensor after it that has a value in the graph; None if there is none.
        case: The name of the first case that fails; empty if none does.
        sizes: For each dynamic axis its symbol, and its size in that case.
        tolerance: The absolute tolerance of the output that differs most.

    >>> print(Divergence("model.onnx"))
    model.onnx: no output differs from PyTorch's
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
            return f"{self.file}: no output differs from PyTorch's"
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
    """The first difference of a file from PyTorch in the first failing case; None if no case fails.

    Raises:
        CheckFailed: ONNX Runtime cannot load or run the file.
    """
    session = open_check_session(checked.file, content=checked.content)
    failing = next(_failing_cases(checked, session, cases), None)
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
    model, part, file = checked.model, checked.part, checked.file
    values = graph_values(file, inputs, checked.content)
    tensors = matched_tensors(model, part.spec, recorded_tensors(model, part, inputs), values, inputs)
    pair = partial(counterpart, part.spec, values, inputs, {each.value for each in tensors})
    index = first_wrong(tensors, values, pair)
    if index is None:  # ONNX Runtime itself is wrong where it may fuse operators: then no value is an output
        return Divergence(file.name, TensorPair("", worst.output, worst.max_abs))
    right = [TensorPair(each.tensor.computed_by, each.value, each.max_abs) for each in tensors[:index] if each.value]
    first = pair(tensors[index])
    later = (pair(each) for each in tensors[index + 1 :] if each.value is None)
    after = None if first.value else next((each for each in later if each.value), None)
    return Divergence(file.name, first, right[-1] if right else None, after)


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
        outputs = session.run([output.name for output in part.spec.outputs], dict(reference.inputs))
        comparisons = output_comparisons(checked, reference, outputs)
        differing = [comparison for comparison in comparisons if not comparison.passed]
        if differing:
            yield case, reference, max(differing, key=lambda comparison: comparison.max_rel)


SAME_ELEMENTS = 1e-3
"""The difference, relative to the largest element, up to which two arrays have the same elements in another order."""


def first_wrong(
    tensors: Sequence[MatchedTensor], values: GraphValues, counterpart: Callable[[MatchedTensor], TensorPair]
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
        if is_result_of_leaf and has_right_inputs and (index in unused or _is_another(each, values, counterpart)):
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


def _is_another(each: MatchedTensor, values: GraphValues, counterpart: Callable[[MatchedTensor], TensorPair]) -> bool:
    """Whether the counterpart of a tensor has other elements; the same elements in another layout do not count."""
    value = counterpart(each).value
    if value is None:
        return False
    left, right = (np.sort(array, axis=None) for array in (values.arrays[value], each.tensor.array))
    tolerance = SAME_ELEMENTS * float(np.abs(right).max(initial=0.0))
    return not np.allclose(left, right, rtol=0.0, atol=tolerance)


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
