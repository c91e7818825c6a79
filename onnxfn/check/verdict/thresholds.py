"""Values that a model compares with a number, where PyTorch's own answer is a matter of rounding.

A segmenter hides positions from attention where a mask is below 0.5. Where a value equals 0.5 but for rounding, PyTorch
and ONNX Runtime may answer differently, and all outputs then differ. So outputs that differ are compared once more:
PyTorch gives ONNX Runtime's answers, but only where its own values equal the number but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np

from onnxfn.check.cuts.runs import WrittenGraph
from onnxfn.check.verdict.verdict import Precision, allowed_by_scale
from onnxfn.models.torch_modes import torch_functions
from onnxfn.specs.algebra.dummies import Array

OPERATORS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
"""The operators of ONNX that compare."""

COMPARISONS = ("lt", "le", "gt", "ge", "less", "less_equal", "greater", "greater_equal")
"""The names of the functions of torch that compare, those of the operators of Python included."""

Answers = Mapping[int, Array]
"""From the number of a comparison in a run of PyTorch to its answers."""

OfComparison = Callable[[int, Any, Any, Any], Any]
"""From the number of a comparison, the tensor, the number it is compared with, and PyTorch's answers to the answers."""


def compared_values(written: WrittenGraph) -> tuple[str, ...]:
    """The answers of a file: the outputs of nodes that compare real numbers with a constant."""
    from onnx import TensorProto

    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    graph = written.model.graph
    constants = {*written.initializers, *(node.output[0] for node in graph.node if node.op_type == "Constant")}
    return tuple(
        node.output[0]
        for node in graph.node
        if node.op_type in OPERATORS
        and len(constants.intersection(node.input)) == 1
        and any(written.types.get(name) in floats for name in node.input)
    )


@contextmanager
def with_answers(answers: Sequence[Array], precision: Precision) -> Iterator[Answers]:
    """A context in which comparisons of this thread have these answers, where PyTorch's own are a matter of rounding.

    Answers belong to the first comparison of their shape that differs from them by rounding alone. It yields the
    answers so far that differ from PyTorch's.
    """
    remaining, used = [*answers], dict[int, Array]()

    def of_comparison(number: int, values: Any, threshold: Any, own: Any) -> Any:
        import torch

        for index, array in enumerate(remaining):
            differ = array != own.numpy() if array.shape == tuple(own.shape) else None
            if differ is not None and _is_rounding(values, threshold, differ, precision):
                del remaining[index]
                if differ.any():
                    used[number] = array
                return torch.from_numpy(array)
        return own

    with _comparisons(of_comparison):
        yield used


@contextmanager
def with_same_answers(answers: Answers) -> Iterator[None]:
    """A context in which comparisons of this thread have the answers of an earlier run."""

    def of_comparison(number: int, _: Any, __: Any, own: Any) -> Any:
        import torch

        array = answers.get(number)
        return own if array is None or array.shape != tuple(own.shape) else torch.from_numpy(array)

    with _comparisons(of_comparison):
        yield


@contextmanager
def _comparisons(of_comparison: OfComparison) -> Iterator[None]:
    """A context in which torch compares tensors of real numbers with a number by a function, in this thread."""
    import torch

    numbers = count()

    def run(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        own = function(*arguments, **named)
        if getattr(function, "__name__", "").strip("_") not in COMPARISONS:
            return own
        values, threshold = (*arguments, *named.values())[:2]
        is_threshold = isinstance(values, torch.Tensor) and values.is_floating_point() and _is_number(threshold)
        return of_comparison(next(numbers), values, threshold, own) if is_threshold else own

    with torch_functions(run):
        yield


def _is_number(threshold: Any) -> bool:
    return isinstance(threshold, (int, float)) and not isinstance(threshold, bool)


def _is_rounding(values: Any, threshold: float, differ: Array, precision: Precision) -> bool:
    """Whether values equal the number but for rounding wherever answers differ.

    The median of their sizes is the scale: values that stand for infinity do not change it.
    """
    if not differ.any():
        return True
    array = values.detach().double().numpy()
    distances = np.abs(array - threshold)[differ]
    return bool(distances.max() <= allowed_by_scale(precision).rms * np.median(np.abs(array)))
