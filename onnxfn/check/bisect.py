"""Where an ONNX file and PyTorch part: the first tensor that differs, by the path of the module that computes it.

ONNX Runtime computes all values of the file, and PyTorch the tensors of all modules, in the smallest case that fails.
A tensor of a module is right if a value of the graph equals it within the tolerance. Some tensors have no value in the
graph, since fusions removed them. Such a tensor counts as right if a later one is right that the graph computes from
weights of the same module.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.check.exact_outputs import ExactOutputs
from onnxfn.check.graph_values import GraphValues, graph_values
from onnxfn.check.matching import MatchedTensor, closest_value, elements_of_tokens, matched_tensors, rows_by_size
from onnxfn.check.recorded_tensors import recorded_tensors
from onnxfn.check.references import CheckCase
from onnxfn.check.sessions import open_check_session
from onnxfn.check.smallest_case import FailingCase, Sizes, case_sizes, failing_case, smallest_failing_case
from onnxfn.specs.dummies import Array
from onnxfn.specs.planned import Part
from onnxfn.specs.records import as_tuple


@frozen
class TensorPair:
    """A tensor of PyTorch and the value of the graph that stands for it.

    Attributes:
        module: The path of the module that computes the tensor; empty for the model itself.
        value: The name of the value; None if the graph has none, because a fusion removed it.
        max_abs: The largest absolute difference; infinite without a value.

    >>> print(TensorPair("encoder.layer.0.output", "add_7", 0.25))
    encoder.layer.0.output (value 'add_7' of the graph, 2.5e-01 away)
    """

    module: str
    value: str | None
    max_abs: float

    def __str__(self) -> str:
        value = "no value of the graph" if self.value is None else f"value {self.value!r} of the graph"
        distance = "" if self.value is None else f", {self.max_abs:.1e} away"
        return f"{self.module or 'the model itself'} ({value}{distance})"


@frozen
class Divergence:
    """Where ONNX files and PyTorch part. It prints as a few lines.

    Attributes:
        file: The name of the ONNX file; of all files if none differs.
        first: The first tensor that differs; None if all files agree with PyTorch in all cases.
        before: The last tensor before it that is right; None if there is none.
        after: The next tensor after it that has a value in the graph; None if there is none.
        case: The name of the smallest case that fails; empty if none does.
        sizes: For each dynamic axis its symbol, its size in that case, and its size before it was reduced.
        tolerance: The absolute tolerance of the output that differs most.
        snippet: Two lines of Python that repeat the comparison in that case.

    >>> print(Divergence("model.onnx"))
    model.onnx: no output differs from PyTorch's
    """

    file: str
    first: TensorPair | None = None
    before: TensorPair | None = None
    after: TensorPair | None = None
    case: str = ""
    sizes: tuple[tuple[str, int, int], ...] = field(default=(), converter=as_tuple)
    tolerance: float = 0.0
    snippet: str = ""

    @property
    def module(self) -> str | None:
        """The path of the module that computes the first tensor that differs; None if nothing differs."""
        return None if self.first is None else self.first.module

    def __str__(self) -> str:
        if self.first is None:
            return f"{self.file}: no output differs from PyTorch's"
        sizes = ", ".join(
            f"{name}={size}" + (f" (was {before})" if before != size else "") for name, size, before in self.sizes
        )
        lines = (
            f"{self.file}: the first wrong tensor is of {self.first}",
            f"  right before it: {self.before}" if self.before else "",
            f"  wrong after it: {self.after}" if self.after else "",
            f"  smallest case that fails: {self.case}" + (f", {sizes}" if sizes else ""),
            f"  absolute tolerance: {self.tolerance:.1e}",
            self.snippet,
        )
        return "\n".join(filter(None, lines))


def divergence(
    model: Any, part: Part, file: Path, cases: Sequence[CheckCase], exact: ExactOutputs
) -> Divergence | None:
    """Where a file and PyTorch part in the first of these cases that fails, without a snippet; None if none fails.

    `model` has the float dtype of the part; `exact` computes PyTorch's outputs in a wider one.

    Raises:
        CheckFailed: ONNX Runtime cannot load or run the file.
    """
    session = open_check_session(file)
    failing = next(filter(None, (failing_case(model, part, session, case, exact) for case in cases)), None)
    if failing is None:
        return None
    smallest = smallest_failing_case(model, part, session, failing, exact)
    sizes, originals = case_sizes(part, smallest.case), case_sizes(part, failing.case)
    return evolve(
        _first_difference(model, part, file, smallest),
        case=smallest.case.name,
        sizes=[(name, size, originals[name]) for name, size in sizes.items()],
        tolerance=smallest.worst.tolerance,
    )


def snippet(case: str, sizes: Sequence[tuple[str, int, int]], path: str) -> str:
    """Two lines of Python that compare an export with PyTorch in one case at these sizes.

    >>> print(snippet("one", [("batch_size", 1, 3)], "out"))
    sizes = {'batch_size': 1}
    print(onnxfn.bisect(spec, model, 'out', case='one', sizes=sizes))
    """
    values: Sizes = {name: size for name, size, _ in sizes}
    return f"sizes = {values!r}\nprint(onnxfn.bisect(spec, model, {path!r}, case={case!r}, sizes=sizes))"


def _first_difference(model: Any, part: Part, file: Path, failing: FailingCase) -> Divergence:
    """The first tensor that differs in a case, and those before and after it."""
    inputs = failing.reference.inputs
    values = graph_values(file, inputs)
    tensors = matched_tensors(model, part.spec, recorded_tensors(model, part, inputs), values, inputs)
    index = first_wrong(tensors, values)
    if index is None:  # ONNX Runtime itself is wrong where it may fuse operators: then no value is an output
        return Divergence(file.name, TensorPair("", failing.worst.output, failing.worst.max_abs))
    pair = partial(_wrong_pair, part, values, inputs, {each.value for each in tensors})
    right = [TensorPair(each.tensor.computed_by, each.value, each.max_abs) for each in tensors[:index] if each.value]
    first = pair(tensors[index])
    later = (pair(each) for each in tensors[index + 1 :] if each.value is None)
    after = None if first.value else next((each for each in later if each.value), None)
    return Divergence(file.name, first, right[-1] if right else None, after)


def first_wrong(tensors: Sequence[MatchedTensor], values: GraphValues) -> int | None:
    """The index of the first tensor that is wrong; None if all are right.

    A tensor without an equal value is wrong if no later right value is computed from weights of its module. A tensor
    of a module without weights is wrong if it comes directly before a wrong one.
    """
    wrong = None
    later = frozenset[str]()
    for index, each in reversed(list(enumerate(tensors))):
        if each.value is not None:
            later |= values.weights.get(each.value, frozenset())
        elif each.tensor.output or (each.weights and not _was_used(each, later)):
            wrong = index
    return wrong and _first_without_weights(tensors, wrong)


def _was_used(each: MatchedTensor, later: frozenset[str]) -> bool:
    """Whether right values are computed from a tensor, by the weights that they are computed from.

    A value that a module's first weights are in is computed from its input; one with all of them, from its result.
    """
    return each.weights <= later if each.tensor.is_result else bool(each.weights & later)


def _first_without_weights(tensors: Sequence[MatchedTensor], wrong: int) -> int:
    """The index of the first wrong tensor of modules without weights that a wrong tensor is computed from."""
    first, inside = wrong, f"{tensors[wrong].tensor.computed_by}."
    for index in range(wrong - 1, -1, -1):
        each = tensors[index]
        is_wrong = each.value is None and not each.weights
        if is_wrong:
            first = index
        elif not each.tensor.module.startswith(inside):
            break
    return first


def _wrong_pair(
    part: Part, values: GraphValues, inputs: Mapping[str, Array], used: Container[str | None], each: MatchedTensor
) -> TensorPair:
    """A wrong tensor and the value of the graph that stands for it.

    That is the first value that is computed from all weights of a leaf which returns the tensor. For another tensor it
    is the closest value that equals no tensor, and is computed from weights of the module if the module returns it.
    """
    tensor, own = each.tensor, each.weights

    def is_allowed(name: str) -> bool:
        weights = values.weights.get(name, frozenset())
        if tensor.output:
            return name == tensor.output
        return name not in used and (own <= weights if tensor.is_result else not own & weights)

    arrays = {
        name: array for name, array in values.arrays.items() if is_allowed(name) and array.size == tensor.array.size
    }
    nearest = list(arrays)[:1] if tensor.is_of_leaf and tensor.is_result else list(arrays)
    select = elements_of_tokens(part.spec, tensor, inputs)
    return TensorPair(
        tensor.computed_by, *closest_value(tensor.array, rows_by_size(arrays), select, lambda name: name in nearest)
    )
