"""`repr` of records: short, and without the fields that specify nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from attrs import NOTHING, Factory, fields

LONGEST_REPR = 300
"""Characters of the longest `repr` of a record."""

LONGEST_TEXT = 60
"""Characters of a text that a summary shows."""


def short_repr(record: Any) -> str:
    """A record as a call of its class with the fields that specify something; a long one as a summary.

    A summary has texts and numbers as they are, and of the records in a field their number.

    >>> from onnxfn.specs.records import DummySize, InputSpec
    >>> InputSpec("input_ids", "batch_size sequence_length", "token_ids")
    InputSpec(name='input_ids', axes=axis_map('batch_size sequence_length'), generator='token_ids')
    >>> from onnxfn.specs.algebra.spec import Dummies
    >>> Dummies(sizes=[DummySize(f"axis_{number}", number) for number in range(60)])
    Dummies(60 sizes)
    """
    values = dict(_specified(record))
    name = type(record).__name__
    full = f"{name}({', '.join(f'{key}={value!r}' for key, value in values.items())})"
    return full if len(full) <= LONGEST_REPR else shortened_call(name, [*_words(record, values)])


def shortened_call(name: str, words: list[str]) -> str:
    """A class with words in parentheses, as many as fit.

    >>> shortened_call("Report", ["check passed", "1 case"])
    'Report(check passed, 1 case)'
    """
    text = f"{name}({', '.join(words)})"
    return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 4]}...)"


def counted(number: int, plural: str) -> str:
    """A number with its noun.

    >>> counted(1, "inputs"), counted(2, "inputs"), counted(1, "spec")
    ('1 input', '2 inputs', '1 spec')
    """
    return f"{number} {plural.removesuffix('s') if number == 1 else plural}"


def rounded(value: Any) -> str:
    """A value as text: of a float three digits.

    >>> rounded(0.7086837291717529), rounded(30522), rounded("right")
    ('0.709', '30522', 'right')
    """
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _specified(record: Any) -> Iterator[tuple[str, Any]]:
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
            yield value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}..."
        elif isinstance(value, Collection):
            yield counted(len(value), name)
        elif name in required or isinstance(value, int | float):
            yield repr(value) if name in required and not isinstance(value, int | float) else f"{name}={value!r}"
