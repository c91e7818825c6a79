"""How far the sections of a graph are from PyTorch, and as table rows."""

from __future__ import annotations

from collections.abc import Sequence

from onnxfn.specs.record import record
from onnxfn.specs.results.measurements import STATUS


@record
class SectionError:
    """How far a section of a graph is from PyTorch, over all cases of a check by sections.

    Attributes:
        part: The stem of the ONNX file.
        section: `embedding`, the path of a layer in the model, or `head`.
        output: The value with the largest error relative to what is allowed: hidden states, or an output of the graph.
        max_abs: Its largest error, where the section gets PyTorch's hidden states: that of this section alone.
        tolerance: The error that is allowed there; None for a quantized file, whose sections have no limit.
        worst_case: The name of the case with this error, and its sizes.
        passed: Whether the section agrees in every case.
        handed_on: The largest difference of its hidden states where it gets those of the sections before: their errors
            together. None for the head.
    """

    part: str
    section: str
    output: str
    max_abs: float
    tolerance: float | None
    worst_case: str
    passed: bool
    handed_on: float | None = None


def section_rows(sections: Sequence[SectionError]) -> list[tuple[str, ...]]:
    """A row for each section: where it is, its error alone and what is allowed, and the error that was handed on.

    >>> error = SectionError("model", "model.layers.3", "Add_31", 9.5e-07, 1e-05, "one (batch_size=1)", True, 2e-06)
    >>> section_rows([error])[1]
    ('model: model.layers.3', '9.5e-07', '1.0e-05', '2.0e-06', 'ok', 'one (batch_size=1)')
    """
    head = ("section", "error alone", "allowed", "handed on", "status", "worst at")
    rows = [
        (
            f"{each.part}: {each.section}",
            f"{each.max_abs:.1e}",
            "" if each.tolerance is None else f"{each.tolerance:.1e}",
            "" if each.handed_on is None else f"{each.handed_on:.1e}",
            STATUS[each.passed],
            each.worst_case,
        )
        for each in sections
    ]
    return [head, *rows] if rows else []
