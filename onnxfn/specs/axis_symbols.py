"""Other symbols for axes, in every record of a spec or a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, fields, has

from onnxfn.specs.axes import AxisMap, names
from onnxfn.specs.records import SYMBOL


def with_symbols(value: Any, new: Mapping[str, str]) -> Any:
    """A record, or a tuple of records, with new symbols for axes wherever it mentions them.

    Where a record then has two sizes of the same axis, the last one counts.

    >>> from onnxfn.specs.algebra.facts import takes
    >>> print(with_symbols(takes("x", "batch_size past+now", "noise"), {"now": "N"})["x"].axes)
    [batch_size, past + N]
    """
    if isinstance(value, AxisMap):
        return AxisMap(tuple(_renamed(axis, new) if axis.kind == "dynamic" else axis for axis in value.axes))
    if isinstance(value, tuple):
        return _without_earlier_sizes(tuple(with_symbols(item, new) for item in value))
    if not has(type(value)):
        return value
    changed = {field.name: with_symbols(getattr(value, field.name), new) for field in fields(type(value))}
    if _is_size(value):
        changed["name"] = new.get(value.name, value.name)
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
    return tuple({record.name: record for record in records}.values()) if all(map(_is_size, records)) else records


def _is_size(value: Any) -> bool:
    """Whether a value is a record of the sizes of an axis, whose name is the symbol of the axis."""
    return has(type(value)) and SYMBOL in fields(type(value))[0].metadata
