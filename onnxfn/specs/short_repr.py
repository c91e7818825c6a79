"""`repr` of records, short, and rows that differ in the number of a layer alone: `past_key_values.{0..29}.key`.

A row is a tuple of cells, the name first. Rows form a group when their names differ in one number. This number grows
from row to row. All other numbers that differ grow by the same amount, and all other text is equal. So layers of two
kinds, whose axes differ, are two groups. A number counts if it is a whole part of a dotted name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, groupby, zip_longest
from typing import Any

from attrs import NOTHING, Factory, fields

from onnxfn.specs.errors import beginning

LONGEST_REPR = 300
"""Characters of the longest `repr` of a record."""


def short_repr(record: Any) -> str:
    """A record as a call of its class with the fields that specify something; a long one with numbers of records."""
    values = dict(specified(record))
    name = type(record).__name__
    full = f"{name}({', '.join(f'{key}={value!r}' for key, value in values.items())})"
    return full if len(full) <= LONGEST_REPR else shortened_call(name, [*_words(record, values)])


def shortened_call(name: str, words: list[str]) -> str:
    """A class with words in parentheses, as many as fit."""
    text = f"{name}({', '.join(words)})"
    return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 4]}...)"


def counted(number: int, plural: str) -> str:
    """A number with its noun: 1 input, 2 inputs."""
    return f"{number} {plural.replace('axes', 'axiss').removesuffix('s') if number == 1 else plural}"


def rounded(value: Any) -> str:
    """A value as text: of a float three digits, of a long text its beginning."""
    return f"{value:.3g}" if isinstance(value, float) else beginning(str(value))


def specified(record: Any) -> Iterator[tuple[str, Any]]:
    """The fields without a default, and those that have another value."""
    for field in fields(type(record)):
        value = getattr(record, field.name)
        default = field.default.factory() if isinstance(field.default, Factory) else field.default  # type: ignore[arg-type]
        if field.repr and (field.default is NOTHING or not (value is default or value == default)):
            yield field.name, value


def _words(record: Any, values: dict[str, Any]) -> Iterator[str]:
    """The words of a summary. Groups of fields, which have a default, are left out."""
    required = {field.name for field in fields(type(record)) if field.default is NOTHING}
    for name, value in values.items():
        if isinstance(value, str):
            yield beginning(value)
        elif isinstance(value, Collection):
            yield counted(len(value), name)
        elif name in required or isinstance(value, int | float):
            yield repr(value) if name in required and not isinstance(value, int | float) else f"{name}={value!r}"


Row = Sequence[str]

_NUMBER = re.compile(r"(?<=\.)(0|[1-9][0-9]{0,17})(?!\w)")
_CELL_END = "\0"
_LEAST_RANGE = 3
"""Numbers in a row that are written as a range: `{0..2}`, but `{0,1}`."""


def layer_groups(rows: Sequence[Row]) -> list[list[int]]:
    """The indices of the rows of each group, in the order of the groups' first rows."""
    numbers = [_numbers(row) for row in rows]
    groups: list[list[int]] = []
    by_text: dict[tuple[str, ...], list[list[int]]] = {}
    for index, row in enumerate(rows):
        same_text = by_text.setdefault(_texts(row), [])
        in_name = len(_NUMBER.findall(row[0])) if row else 0
        group = next((group for group in same_text if _continues(group, numbers, index, in_name)), None)
        if group is None:
            group = []
            groups.append(group)
            same_text.append(group)
        group.append(index)
    return groups


def grouped_row(rows: Sequence[Row]) -> tuple[str, ...]:
    """The row that is printed for the rows of a group."""
    columns = zip(*map(_numbers, rows), strict=True)
    shown = [str(column[0]) if len(set(column)) == 1 else f"{{{number_ranges(column)}}}" for column in columns]
    return tuple("".join(chain.from_iterable(zip_longest(_texts(rows[0]), shown, fillvalue=""))).split(_CELL_END))


def grouped_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The rows, those of each group as one."""
    return [grouped_row([rows[index] for index in group]) for group in layer_groups(rows)]


def number_ranges(numbers: Sequence[int]) -> str:
    """Growing numbers as text, three and more in a row as a range."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) >= _LEAST_RANGE else ",".join(map(str, run)) for run in runs)


def _texts(row: Row) -> tuple[str, ...]:
    """The text between the numbers of a row."""
    return tuple(_NUMBER.split(_CELL_END.join(row))[::2])


def _numbers(row: Row) -> list[int]:
    return [int(number) for number in _NUMBER.findall(_CELL_END.join(row))]


def _continues(group: Sequence[int], numbers: Sequence[Sequence[int]], index: int, in_name: int) -> bool:
    """Whether a row with the text of a group continues the numbers of the group."""
    last, row = numbers[group[-1]], numbers[index]
    steps = [new - old for old, new in zip(last, row, strict=True)]
    varying = [bool(step) for step in steps]
    before = [first != other for first, other in zip(numbers[group[0]], last, strict=True)]
    consistent = sum(varying[:in_name]) == 1 and {0, max(steps)} >= set(steps) and max(steps) > 0
    return consistent and (len(group) == 1 or varying == before)
