"""Other symbols for axes, in every record of a spec or a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve, fields, has

from onnxfn.specs.axes import AxisMap, names

SYMBOL_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "AxisRange": "name",
        "DummySize": "name",
        "FixedAxis": "name",
        "SmallestSize": "name",
    }
)
"""Record -> its field that is the symbol of an axis. All other symbols are in axis maps."""


def with_symbols(value: Any, new: Mapping[str, str]) -> Any:
    """A record, or a tuple of records, with new symbols for axes wherever it mentions them.

    Where a record then has two sizes of the same axis, the last one counts.

    >>> from onnxfn.specs.facts import takes
    >>> print(with_symbols(takes("x", "batch_size past+now", "noise"), {"now": "N"})["x"].axes)
    [batch_size, past + N]
    """
    if isinstance(value, AxisMap):
        return AxisMap(tuple(_renamed(axis, new) if axis.kind == "dynamic" else axis for axis in value.axes))
    if isinstance(value, tuple):
        return _without_earlier_sizes(tuple(with_symbols(item, new) for item in value))
    if not has(type(value)):
        return value
    symbol = SYMBOL_FIELDS.get(type(value).__name__)
    changed = {field.name: with_symbols(getattr(value, field.name), new) for field in fields(type(value))}
    if symbol is not None:
        changed[symbol] = new.get(changed[symbol], changed[symbol])
    return evolve(value, **changed)


def symbols_in(value: Any) -> Iterator[str]:
    """The names in the symbols of all axis maps of a record, with duplicates."""
    if isinstance(value, AxisMap):
        yield from names(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from symbols_in(item)
    elif has(type(value)):
        for field in fields(type(value)):
            yield from symbols_in(getattr(value, field.name))


def _renamed(axis: Any, new: Mapping[str, str]) -> Any:
    return evolve(axis, symbol=" ".join(new.get(word, word) for word in axis.symbol.split()))


def _without_earlier_sizes(records: tuple[Any, ...]) -> tuple[Any, ...]:
    """The records, without a size of an axis for which a later one has a size, too."""
    if not records or type(records[0]).__name__ not in SYMBOL_FIELDS:
        return records
    return tuple({getattr(record, "name", index): record for index, record in enumerate(records)}.values())
