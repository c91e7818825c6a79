"""Positions that a model picks by their scores, and thresholds, where PyTorch's own choice is a matter of rounding.

A detector decodes its best positions. Where scores are equal but for rounding, PyTorch picks others in float64 than in
float32, and ONNX Runtime may pick others again; all outputs then differ. So outputs that differ are compared once more:
PyTorch picks what ONNX Runtime picked. ONNX Runtime's choice must be as good: its scores are PyTorch's best but for
rounding. In the same way, it gives ONNX Runtime's answers at thresholds: see `thresholds.py`.

What ONNX Runtime picks is read in a run of the file with these values as outputs. ONNX Runtime may optimize the file in
another way there, and then rounds in another way and picks other positions than before. So the outputs that are
compared are those of the run with the positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.check.cases.references import OutputArrays, Reference
from onnxfn.check.cuts.graph_values import computed_values
from onnxfn.check.cuts.runs import WrittenGraph, written_graph
from onnxfn.check.verdict.thresholds import compared_values, with_answers, with_same_answers
from onnxfn.check.verdict.verdict import ExactOutputs, Precision, Scale, allowed_by_scale, precision_of
from onnxfn.models.forward import torch_outputs
from onnxfn.models.torch_modes import torch_functions
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import OnnxfnError

ANSWERED = "which answers as ONNX Runtime does where a value equals a threshold but for rounding"
"""The end of the text about what outputs were compared with."""

PICKED = "which picks what ONNX Runtime picks, since the scores are equal but for rounding"
"""The end of the text about what outputs were compared with."""


class WorseChoice(Exception):
    """The positions that ONNX Runtime picked are worse than PyTorch's, or not comparable with them."""


@frozen
class Choice:
    """What a file chooses in a case, and the outputs of both sides for it.

    Attributes:
        outputs: ONNX Runtime's outputs of the run that chose.
        reference: PyTorch's outputs for the same choice.
        exact: Computes PyTorch's exact outputs for it.
        text: What is the same on both sides, as the end of a text about what outputs were compared with.
    """

    outputs: OutputArrays
    reference: Reference
    exact: ExactOutputs
    text: str


def picked_positions(written: WrittenGraph) -> tuple[str, ...]:
    """The positions that a file picks: the outputs of TopK."""
    return tuple(node.output[1] for node in written.model.graph.node if node.op_type == "TopK")


def with_choices(model: Any, part: Part, file: Path, reference: Reference, exact: ExactOutputs) -> Choice | None:
    """The positions that the file picks in the case of a reference, and its answers at thresholds.

    None if the file chooses nothing, or if PyTorch's own choice is another by more than rounding.
    """
    written = written_graph(file)
    picked, compared = picked_positions(written), compared_values(written)
    if not picked and not compared:
        return None
    precision = precision_of(part.spec.target.float_dtype)
    try:
        values = computed_values(written, [*picked, *compared], reference.inputs)
        indices, answers = ([values[name] for name in names] for names in (picked, compared))
        with _picked(indices, precision), with_answers(answers, precision) as used:
            outputs = torch_outputs(model, part, reference.inputs)
    except (OnnxfnError, WorseChoice):
        return None
    if not picked and not used:
        return None

    def exact_outputs(part: Part, inputs: Mapping[str, Array]) -> tuple[str, OutputArrays]:
        with _picked(indices, None), with_same_answers(used):
            return exact(part, inputs)

    text = ", ".join([PICKED] * bool(picked) + [ANSWERED] * bool(used))
    of_file = tuple(values[output.name] for output in part.spec.outputs)
    return Choice(of_file, evolve(reference, outputs=outputs), exact_outputs, text)


@contextmanager
def _picked(indices: Iterable[Array], precision: Precision | None) -> Iterator[None]:
    """Lets `topk`, `sort` and `argsort` give these positions in this thread, one array in each call; if there are any.

    Raises WorseChoice if they are worse. With no precision they may be worse.
    """
    import torch

    indices = [*indices]
    if not indices:
        yield
        return

    remaining, topk = iter(indices), torch.topk

    def pick(scores: Any, k: Any, dim: int = -1, *options: Any, **named: Any) -> Any:
        best = topk(scores, k, dim, *options, **named)
        positions = torch.from_numpy(next(remaining, np.empty(0, np.int64)))
        if positions.shape != best.indices.shape:
            raise WorseChoice(f"ONNX Runtime picks {list(positions.shape)} of {list(scores.shape)}")
        values = scores.gather(dim, positions)
        if precision is not None and not _as_good(values.numpy(), best.values.numpy(), precision):
            raise WorseChoice("ONNX Runtime picks positions with other scores")
        if bool((topk(positions, positions.shape[dim], dim).values.diff(dim=dim) == 0).any()):
            raise WorseChoice("ONNX Runtime picks a position twice")
        return torch.return_types.topk((values, positions))

    def sort(scores: Any, dim: int = -1, *options: Any, **named: Any) -> Any:
        largest = (*options, named.get("descending", False))[0]
        return torch.return_types.sort((*pick(scores, scores.shape[dim], dim, largest=largest),))

    def argsort(*arguments: Any, **named: Any) -> Any:
        return sort(*arguments, **named).indices

    picking = {"topk": pick, "sort": sort, "argsort": argsort}

    def run(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        return picking.get(getattr(function, "__name__", ""), function)(*arguments, **named)

    with torch_functions(run):
        yield
    if next(remaining, None) is not None:
        raise WorseChoice("the graph picks more often than PyTorch")


def _as_good(values: Array, best: Array, precision: Precision) -> bool:
    """Whether scores are the best ones but for rounding."""
    equal = np.where(values == best, 0.0, values.astype(np.float64) - best)
    return Scale.of(best.astype(np.float64), precision).error(equal).norms <= allowed_by_scale(precision)
