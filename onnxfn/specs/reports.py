"""The records of what was done: events, what a model allows, the report of a check, the result of an export."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from attrs import field, frozen

from onnxfn.specs import printing
from onnxfn.specs.planned import Plan
from onnxfn.specs.records import as_tuple

SMALLEST_DYNAMIC_SIZE = 2
"""Where torch's own account of a size begins: it takes 0 and 1 apart, and says nothing of them."""


@frozen
class Event:
    """A step of an export, told to the function that the caller gave: seconds are None when it begins."""

    stage: str
    part: str
    seconds: float | None = None


@frozen
class Limit:
    """The sizes that a moving axis may have, both ends included, where the model's own branches allow no others."""

    name: str
    low: int
    high: int | None = None

    def __str__(self) -> str:
        ends = (
            f"from {self.low}" if self.low > SMALLEST_DYNAMIC_SIZE else "",
            "" if self.high is None else f"up to {self.high}",
        )
        return " ".join(word for word in (self.name, *ends) if word)


@frozen
class Fusion:
    """An operator that stands for many: how often it is in the graph, and how often it is expected there.

    Expected are calls of torch's own functions and modules of a kind; a table of angles counts once, whoever reads it.
    """

    operator: str
    expected: int
    actual: int

    def __str__(self) -> str:
        return f"{self.operator}: {self.actual}" + (f", at least {self.expected} expected" if self.expected else "")


@frozen
class Difference:
    """How far one output is from PyTorch's, over every case tried; `worst` names the case, with its sizes."""

    part: str
    output: str
    shapes: tuple[tuple[int, ...], ...]
    max_abs: float
    max_rel: float
    tolerance: float
    worst_case: str
    passed: bool


@frozen
class Report:
    """The verdict on an export: one difference an output."""

    differences: tuple[Difference, ...] = field(converter=as_tuple)
    cases: tuple[str, ...] = field(default=(), converter=as_tuple)

    @property
    def passed(self) -> bool:
        """Whether every output agrees; a report on nothing has not passed."""
        return bool(self.differences) and all(one.passed for one in self.differences)

    def __str__(self) -> str:
        return printing.text(printing.check_status(self), printing.report_sections(self))

    def _repr_html_(self) -> str:
        return printing.html(printing.check_status(self), printing.report_sections(self))


@frozen
class Exported:
    """What an export left behind: paths of every file, the plan, the report of the check, seconds per stage.

    `depths` tells which layers were traced for which, or why all were.
    `fusions` says of each part which operators stand for many, how many were expected and how many are there.
    """

    path: str
    files: tuple[str, ...] = field(converter=as_tuple)
    plan: Plan
    opset: int
    seconds: tuple[tuple[str, float], ...] = field(converter=as_tuple)
    report: Report | None = None
    limits: tuple[Limit, ...] = field(default=(), converter=as_tuple)
    repeats: tuple[str, ...] = field(default=(), converter=as_tuple)
    fusions: tuple[tuple[str, tuple[Fusion, ...]], ...] = field(default=(), converter=as_tuple)

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of what the first file takes."""
        return self.plan.parts[0].inputs

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """`{name: {axis: symbol}}` of what the first file gives."""
        return self.plan.parts[0].outputs

    def __str__(self) -> str:
        return printing.text(printing.exported_title(self), printing.exported_sections(self))

    def _repr_html_(self) -> str:
        return printing.html(printing.exported_title(self), printing.exported_sections(self))


StageTimer = Callable[[str, str], AbstractContextManager[None]]
"""What is told of a stage, and the part that it is of, while it lasts."""
