"""How files are compared with PyTorch, and what is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, get_args

from attrs import asdict, fields_dict

from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.record import record
from onnxfn.specs.short_repr import grouped_row, layer_groups

CheckMode = Literal["whole", "sections", "none"]
"""`whole`: each file as it is. `sections`: one layer at a time, for models larger than memory. `none`: not at all."""


def check_mode(check: bool | CheckMode) -> CheckMode:  # noqa: FBT001 - the only argument
    """The word for a check; True is `whole`, and False is `none`. UnknownName for another word.

    >>> check_mode(True), check_mode("sections"), check_mode(False)
    ('whole', 'sections', 'none')
    """
    if isinstance(check, bool):
        return "whole" if check else "none"
    if check not in get_args(CheckMode):
        raise unknown("check", check, get_args(CheckMode))
    return check


def comparing_mode(check: bool | CheckMode) -> CheckMode:  # noqa: FBT001 - the only argument
    """The word for a check of files that are there. InvalidSpec for `none`, which compares nothing.

    >>> comparing_mode("sections")
    'sections'
    """
    mode = check_mode(check)
    if mode == "none":
        raise InvalidSpec(f"validate compares files, and check={check!r} compares none; known are 'whole', 'sections'")
    return mode


@record
class Floors:
    """What a quantized or 16-bit variant must reach in each measure; None is the default for its dtype.

    `check/variants/measures.py` has the defaults and their reasons.

    Attributes:
        agreement: The share of positions at which the file and PyTorch in float32 have the same likeliest token or
            class.
        kl: The mean KL divergence of the file's distribution over tokens from PyTorch's. This floor is an upper bound.
        cosine: The cosine of an output and PyTorch's.
        iou: The mean overlap of the boxes with the highest scores and the file's: intersection over union.
        cases: The cosine of an output and PyTorch's in the worst case of the check. Its inputs are random tokens and a
            cache, so it shows a fault rather than a quality.
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
        floor: What the value must reach; of `kl`, what it may be at most. None: the value is for information.
        cases: What was measured: `300 tokens of text`, `7 cases`.
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

AT_MOST = ("kl",)
"""The measures of which less is better."""


def stated_floors(floors: Floors) -> dict[str, float]:
    """The floors that a caller stated, by measure.

    >>> stated_floors(Floors(kl=0.5))
    {'kl': 0.5}
    """
    return {name: value for name, value in asdict(floors).items() if value is not None}


def parsed_floors(flag: str, values: Iterable[str]) -> Floors:
    """The floors in the values of a flag; UnknownName for another measure, InvalidSpec if a value is not NAME=NUMBER.

    >>> parsed_floors("--floor", ["agreement=0.9", "kl=0.05"])
    Floors(agreement=0.9, kl=0.05)
    """
    return Floors(**dict(_parsed(flag, *value.partition("=")[::2]) for value in values))


def _parsed(flag: str, name: str, text: str) -> tuple[str, float]:
    if name not in MEASURE_NAMES:
        raise unknown("measure", name, MEASURE_NAMES, of=flag)
    try:
        return name, float(text)
    except ValueError:
        raise InvalidSpec(f"{flag} {name}={text} has no number; write {flag} {name}=0.9") from None


STATUS: Mapping[bool, str] = MappingProxyType({True: "ok", False: "FAILED"})

Rows = Sequence[Sequence[str]]


def measured_rows(measurements: Sequence[Measurement]) -> Rows:
    """The measurements of a report below the heads of their columns; no rows without any.

    Those of outputs that differ in the layer alone are one row, with the least value.
    """
    head = ("output", "measure", "value", "floor", "status", "over")
    names = [
        (f"{each.part}: {each.output}", each.measure, rounded(each.floor), STATUS[each.passed], each.cases)
        for each in measurements
    ]
    rows = []
    for group in layer_groups(names):
        name, measure, floor, *others = grouped_row([names[index] for index in group])
        rows.append((name, measure, rounded(min(measurements[index].value for index in group)), floor, *others))
    return with_heads(head, rows) if rows else ()


def rounded(value: float | None) -> str:
    """A figure with four digits; empty for None.

    >>> rounded(0.98765432), rounded(0.999999), rounded(1.0), rounded(None)
    ('0.9877', '0.999999', '1', '')
    """
    if value is None:
        return ""
    return f"{value:.4g}" if abs(1 - value) > 1e-4 else f"{value:.8g}"  # noqa: PLR2004 - a cosine near 1


def with_heads(head: Sequence[str], rows: Rows) -> Rows:
    """Rows below the heads of their columns, without the columns that are empty.

    >>> with_heads(("output", "PyTorch's own", "status"), [("logits", "", "ok")])
    [('output', 'status'), ('logits', 'ok')]
    """
    columns = [column for column in zip(head, *rows, strict=True) if any(column[1:])]
    return list(zip(*columns, strict=True)) if columns else [head]
