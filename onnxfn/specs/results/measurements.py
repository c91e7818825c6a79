"""Comparisons of files with PyTorch, measurements of accuracy, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Any, Literal, get_args

from attrs import asdict, fields_dict

from onnxfn.specs.errors import InvalidSpec, refuse_unknown
from onnxfn.specs.record import record
from onnxfn.specs.short_repr import grouped_row, layer_groups

CheckMode = Literal["whole", "sections", "none"]
"""`whole`: each file as a whole. `sections`: one layer at a time, for models larger than memory. `none`: no check."""


def check_mode(check: bool | CheckMode) -> CheckMode:  # noqa: FBT001 - the only argument
    """The word for a check; True is `whole`, and False is `none`. UnknownName for another word."""
    if isinstance(check, bool):
        return "whole" if check else "none"
    refuse_unknown("check", check, get_args(CheckMode))
    return check


@record
class Floors:
    """The floors of a quantized or 16-bit variant, one per measure; None is the default for its dtype.

    `check/variants/measures.py` has the defaults and their reasons.

    Attributes:
        agreement: The share of positions with the same likeliest token or class in the file and PyTorch in float32.
        kl: The mean KL divergence of the file's distribution over tokens from PyTorch's. This floor is an upper bound.
        cosine: The cosine of an output and PyTorch's.
        iou: The mean overlap of the boxes with the highest scores and the file's: intersection over union.
        cases: The cosine of an output and PyTorch's in the worst case of the check: of a part that reads no text, with
            an adapter, and of all files of a model that sees or hears, one after the other.
        weights: The cosine of a weight of the file and the model's own, for the worst weight.

    >>> Floors(agreement=0.9)
    Floors(agreement=0.9)
    """

    agreement: float | None = None
    kl: float | None = None
    cosine: float | None = None
    iou: float | None = None
    cases: float | None = None
    weights: float | None = None


@record
class Measurement:
    """The accuracy of an output of a quantized or 16-bit file, against PyTorch in float32.

    Attributes:
        part: The stem of the ONNX file.
        output: The name of the output; of a measure of weights, the name of the worst weight.
        measure: `agreement`, `kl`, `cosine`, `iou`, `cases` or `weights`: see `Floors`.
        value: The value over all of `cases`.
        floor: The least value that passes; for `kl`, the largest. None: the value is for information.
        cases: The inputs of the measurement: `300 tokens of text`, `7 cases`.
        passed: Whether the value reaches the floor.
    """

    part: str
    output: str
    measure: str
    value: float
    floor: float | None
    cases: str
    passed: bool


DEFAULT_FLOORS = Floors()

MEASURE_NAMES: tuple[str, ...] = tuple(fields_dict(Floors))


def stated_floors(floors: Floors) -> dict[str, float]:
    """The floors that a caller stated, by measure."""
    return {name: value for name, value in asdict(floors).items() if value is not None}


def parsed_floors(flag: str, values: Iterable[str]) -> Floors:
    """The floors in the values of a flag. UnknownName for another measure, InvalidSpec unless it is NAME=NUMBER."""
    return Floors(**dict(_parsed(flag, *value.partition("=")[::2]) for value in values))


def _parsed(flag: str, name: str, text: str) -> tuple[str, float]:
    refuse_unknown("measure", name, MEASURE_NAMES, of=flag)
    try:
        return name, float(text)
    except ValueError:
        raise InvalidSpec(f"{flag} {name}={text} has no number; write {flag} {name}=0.9") from None


STATUS: Mapping[bool, str] = MappingProxyType({True: "ok", False: "FAILED"})

WORDS = ("good", "usable", "poor")
"""The words for the quality of a quantized or 16-bit file, the best first."""

# The agreement and the KL divergence of SmolLM2: 0.954 and 0.006 in q8, 0.754 and 0.146 in q4c, 0.598 and 0.404 in q4.
# In q4 it goes on after "The capital of France is" with "capital of France".
QUALITY: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"agreement": (0.9, 0.7), "kl": (0.05, 0.25), "cosine": (0.99, 0.95), "iou": (0.9, 0.8)}
)
"""A measure -> the values from which a file is good, and from which it is usable."""


def quality(measurements: Iterable[Measurement]) -> str:
    """The word for the worst of some measurements; an empty text if none has a word."""
    graded = [each for each in measurements if each.floor is not None and each.measure in QUALITY]
    return max((_word(each.value, *QUALITY[each.measure]) for each in graded), key=WORDS.index, default="")


def _word(value: float, good: float, usable: float) -> str:
    sign = 1 if good > usable else -1
    reached = [word for word, limit in (("good", good), ("usable", usable)) if sign * (value - limit) >= 0]
    return reached[0] if reached else "poor"


def status(passed: bool, measurements: Iterable[Measurement] = ()) -> str:  # noqa: FBT001 - as `STATUS[passed]`
    """The status of a file or of an output: `FAILED`, the word for its quality, or `ok`."""
    return (passed and quality(measurements)) or STATUS[passed]


def multiple(error: float, bound: float) -> float:
    """An error as a multiple of what is allowed: 1 is the limit, and any error is infinite where none is allowed."""
    return error / bound if bound else (inf if error else 0.0)


Rows = Sequence[Sequence[str]]


def measured_rows(measurements: Sequence[Measurement]) -> Rows:
    """The measurements of a report below heads; outputs of layers are one row, with the least value."""
    head = ("output", "measure", "value", "floor", "status", "over")
    names = [
        (f"{each.part}: {each.output}", each.measure, rounded(each.floor), status(each.passed, [each]), each.cases)
        for each in measurements
    ]
    rows = []
    for group in layer_groups(names):
        name, measure, floor, *others = grouped_row([names[index] for index in group])
        rows.append((name, measure, rounded(min(measurements[index].value for index in group)), floor, *others))
    return with_heads(head, rows)


def rounded(value: float | None) -> str:
    """A figure with four digits; empty for None."""
    if value is None:
        return ""
    return f"{value:.4g}" if abs(1 - value) > 1e-4 else f"{value:.8g}"  # noqa: PLR2004 - a cosine near 1


def with_heads(head: Sequence[str], rows: Rows) -> Rows:
    """Rows below the heads of their columns, without the columns that are empty; nothing without rows."""
    return list(zip(*(column for column in zip(head, *rows, strict=True) if any(column[1:])), strict=True))


@record
class SectionError:
    """The error of a section of a graph against PyTorch, over all cases of a check by sections.

    Attributes:
        part: The stem of the ONNX file.
        section: `embedding`, the path of a layer in the model, or `head`.
        output: The value with the largest error relative to what is allowed: hidden states, or an output of the graph.
        max_abs: The largest error of this section alone: its inputs are PyTorch's hidden states.
        tolerance: The error that is allowed there.
        worst_case: The name of the case with this error, and its sizes.
        passed: Whether the section agrees in every case.
        handed_on: The largest error of its hidden states with those of the sections before as inputs: all errors
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


def section_rows(sections: Sequence[SectionError]) -> Rows:
    """A row for each section: its place, its own error and the allowed error, and the error that it hands on."""
    head = ("section", "error alone", "bound", "error/bound", "handed on", "status", "worst at")
    rows = [
        (
            f"{each.part}: {each.section}",
            f"{each.max_abs:.1e}",
            "" if each.tolerance is None else f"{each.tolerance:.1e}",
            "" if each.tolerance is None else f"{multiple(each.max_abs, each.tolerance):.2g}",
            "" if each.handed_on is None else f"{each.handed_on:.1e}",
            STATUS[each.passed],
            each.worst_case,
        )
        for each in sections
    ]
    return with_heads(head, rows)


def is_first_variant(part: Any, plan: Any) -> bool:
    """Whether a part is of the first dtype of a plan; those of the others have the same inputs, outputs and axes."""
    return bool(part.dtype == plan.parts[0].dtype)


def variant_rows(report: Any) -> Rows:
    """A row for each file below the heads: the error nearest to its bound, and the worst value of each measure."""
    parts = [each.part for each in (*report.differences, *report.measurements)]
    measures = tuple(dict.fromkeys(map(_column, report.measurements)))
    rows = [_row(report, part, measures) for part in dict.fromkeys(parts)]
    return with_heads(("file", "status", "error/bound", *measures), rows)


def _row(report: Any, part: str, measures: Sequence[str]) -> tuple[str, ...]:
    differences = [each for each in report.differences if each.part == part]
    measured = [each for each in report.measurements if each.part == part]
    passed = all(each.passed for each in (*differences, *measured))
    error = f"{max(each.of_bound for each in differences):.2g}" if differences else ""
    values = []  # the worst of each measure; empty without values
    for name in measures:
        of_column = [each for each in measured if _column(each) == name]
        worst = max if any(each.measure == "kl" for each in of_column) else min
        values.append(rounded(worst((each.value for each in of_column), default=None)))
    return (f"{part}.onnx", status(passed, measured), error, *values)


def _column(measurement: Measurement) -> str:
    """The measure of a measurement; greedy tokens have a separate column, because they have no floor."""
    return measurement.output if measurement.floor is None else measurement.measure
