"""Choices of a model that rounding can change: positions that it picks, and answers of comparisons.

A detector decodes the positions with the best scores; a segmenter hides positions where a mask is below 0.5. Where
scores, or a value and 0.5, are equal up to rounding, PyTorch and ONNX Runtime may choose differently. All outputs then
differ. So PyTorch makes the choices of ONNX Runtime, and the outputs are compared once more. The choices must be as
good: up to rounding, the scores are PyTorch's best, and the values equal the number that they are compared with.

The choices are read in a run of the file with these values as outputs. ONNX Runtime may optimize this file differently,
and choose differently. So the outputs of this run are compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
import torch

from onnxfn.check.cuts.runs import WrittenGraph
from onnxfn.check.cuts.vertices import is_float
from onnxfn.check.verdict.verdict import Precision, Scale, allowed_by_scale
from onnxfn.models.torch_modes import torch_functions
from onnxfn.specs.algebra.dummies import Array

PICKED = "which picks what ONNX Runtime picks, since the scores are equal but for rounding"
"""The end of the text about what outputs were compared with."""

ANSWERED = "which answers as ONNX Runtime does where a value equals a threshold but for rounding"
"""The end of the text about what outputs were compared with."""

Chosen = Mapping[int, tuple[str, Array]]
"""From the number of a choice in a run of PyTorch to `PICKED` or `ANSWERED`, and to its positions or answers."""

OfChoice = Callable[[int, Any, Any, Any], Any]
"""From the number of a choice, the tensor it depends on, the axis or the threshold, and PyTorch's choice to another."""


class WorseChoice(Exception):
    """The positions that ONNX Runtime picked are worse than PyTorch's, or not comparable with them."""


def picked_positions(written: WrittenGraph) -> tuple[str, ...]:
    """The positions that a file picks: the outputs of TopK."""
    return tuple(node.output[1] for node in written.model.graph.node if node.op_type == "TopK")


def compared_values(written: WrittenGraph) -> tuple[str, ...]:
    """The answers of a file: the outputs of nodes that compare real numbers with a constant."""
    graph = written.model.graph
    constants = {*written.initializers, *(node.output[0] for node in graph.node if node.op_type == "Constant")}
    return tuple(
        node.output[0]
        for node in graph.node
        if node.op_type in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
        and len(constants.intersection(node.input)) == 1
        and any(is_float(written.types.get(name)) for name in node.input)
    )


@contextmanager
def choosing_as_file(picks: Sequence[Array], answers: Sequence[Array], precision: Precision) -> Iterator[Chosen]:
    """A context in which PyTorch, in this thread, makes the choices of a file, if they differ from its own by rounding.

    The n-th call that picks positions gets the n-th item of `picks`, if there are any; WorseChoice if they are worse
    than its own. Each ONNX answer is matched to the first PyTorch comparison of the same shape whose result it equals
    up to rounding. Yields the positions so far, and the answers that differ from PyTorch's.
    """
    unpicked, unanswered, chosen = [*picks], [*answers], dict[int, tuple[str, Array]]()

    def of_pick(number: int, scores: Any, dim: int, own: Any) -> Any:
        is_of_file = bool(unpicked) and unpicked[0].shape == tuple(own.shape)
        # The order of integers is exact: the file need not compute it, as that of tokens by their experts.
        if not picks or not (is_of_file or scores.is_floating_point()):
            return own
        positions = torch.from_numpy(unpicked.pop(0) if unpicked else np.empty(0, np.int64))
        _check_positions(scores, dim, positions, own, precision)
        chosen[number] = PICKED, positions.numpy()
        return positions

    def of_comparison(number: int, values: Any, threshold: float, own: Any) -> Any:
        for index, array in enumerate(unanswered):
            differ = array != own.numpy() if array.shape == tuple(own.shape) else None
            if differ is not None and _is_rounding(values, threshold, differ, precision):
                del unanswered[index]
                if differ.any():
                    chosen[number] = ANSWERED, array
                return torch.from_numpy(array)
        return own

    with _choosing(of_pick, of_comparison):
        yield chosen
    if unpicked:
        raise WorseChoice("the graph picks more often than PyTorch")


@contextmanager
def choosing_again(chosen: Chosen) -> Iterator[None]:
    """A context in which PyTorch, in this thread, repeats its choices of an earlier run."""

    def same(number: int, _: Any, __: Any, own: Any) -> Any:
        _, array = chosen.get(number, ("", np.empty(0)))
        return torch.from_numpy(array) if number in chosen and array.shape == tuple(own.shape) else own

    with _choosing(same, same):
        yield


@contextmanager
def _choosing(of_pick: OfChoice, of_comparison: OfChoice) -> Iterator[None]:
    """A context in which torch picks positions, and compares real numbers with a number, by two functions."""
    numbers = count()

    def run(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        own, name = function(*arguments, **named), getattr(function, "__name__", "").strip("_")
        if name in ("topk", "sort", "argsort"):
            scores, *options = arguments
            dim = named.get("dim", (*options[name == "topk" :], -1)[0])
            own_positions = own if name == "argsort" else own.indices
            positions = of_pick(next(numbers), scores, dim, own_positions)
            if positions is own_positions:
                return own
            return positions if name == "argsort" else type(own)((scores.gather(dim, positions), positions))
        # Functions of torch, and Python's operators.
        if name in ("lt", "le", "gt", "ge", "less", "less_equal", "greater", "greater_equal"):
            values, threshold = (*arguments, *named.values())[:2]
            is_number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
            if isinstance(values, torch.Tensor) and values.is_floating_point() and is_number:
                return of_comparison(next(numbers), values, threshold, own)
        return own

    with torch_functions(run):
        yield


def _check_positions(scores: Any, dim: int, positions: Any, own: Any, precision: Precision) -> None:
    """Raises WorseChoice unless the scores at positions are those at PyTorch's own but for rounding."""
    if positions.shape != own.shape:
        raise WorseChoice(f"ONNX Runtime picks {list(positions.shape)} of {list(scores.shape)}")
    # Unsorted, the same scores may stand in another order.
    values, best = (np.sort(scores.gather(dim, each).double().numpy(), axis=dim) for each in (positions, own))
    finite, differ = np.isfinite(best), values != best
    error = Scale.of(best[finite], precision).error(np.where(differ, values - best, 0.0)[finite])
    if differ[~finite].any() or not error.norms <= allowed_by_scale(precision):
        raise WorseChoice("ONNX Runtime picks positions with other scores")
    if bool((positions.sort(dim=dim).values.diff(dim=dim) == 0).any()):
        raise WorseChoice("ONNX Runtime picks a position twice")


def _is_rounding(values: Any, threshold: float, differ: Array, precision: Precision) -> bool:
    """Whether values equal the number but for rounding wherever answers differ."""
    if not differ.any():
        return True
    array = values.detach().double().numpy()
    distances = np.abs(array - threshold)[differ]
    # The median of their sizes is the scale: values that stand for infinity do not change it.
    return bool(distances.max() <= allowed_by_scale(precision).rms * np.median(np.abs(array)))
