"""Other symbols for axes, axes of a fixed size, and the sizes for which a graph is valid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve, field, fields, has

from onnxfn.specs.axes import AxisMap, fix_sizes, names
from onnxfn.specs.record import record
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
    changed = {each.name: with_symbols(getattr(value, each.name), new) for each in fields(type(value))}
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
        for each in fields(type(value)):
            yield from symbols_in(getattr(value, each.name))


def _renamed(axis: Any, new: Mapping[str, str]) -> Any:
    return evolve(axis, symbol=" ".join(new.get(word, word) for word in axis.symbol.split()))


def _without_earlier_sizes(records: tuple[Any, ...]) -> tuple[Any, ...]:
    """The records, without a size of an axis for which a later one has a size, too."""
    return tuple({record.name: record for record in records}.values()) if all(map(_is_size, records)) else records


def _is_size(value: Any) -> bool:
    """Whether a value is a record of the sizes of an axis, whose name is the symbol of the axis."""
    return has(type(value)) and SYMBOL in fields(type(value))[0].metadata


def fixed_sizes(spec: Any) -> dict[str, int]:
    """`{axis symbol: size}` of the fixed axes of a spec whose size is a number; in a planned spec every size is one."""
    return {axis.name: axis.value for axis in spec.fixed_axes if isinstance(axis.value, int)}


def graph_axes(spec: Any, tensor: Any) -> AxisMap:
    """The axes of an input or output of a spec as the graph has them: by their names there, fixed axes as numbers."""
    renamed = {axis.name: axis.new for axis in getattr(spec, "axis_names", ())}
    return fix_sizes(with_symbols(tensor.axes, renamed) if renamed else tensor.axes, fixed_sizes(spec))


SMALLEST_DYNAMIC_SIZE = 2
"""The smallest size that torch.export reports for a dynamic axis: it handles 0 and 1 as special cases."""

_LIMIT = re.compile(r"(.+?)(?: is (\d+))?(?: from (\d+))?(?: up to (\d+))?")


@record
class Limit:
    """The sizes for which a graph is valid along one axis, where the model allows no others.

    Attributes:
        name: The symbol of the axis.
        low: The smallest size.
        high: The largest size; None when there is no upper limit.

    >>> print(Limit("sequence_length", 4, 512))
    sequence_length from 4 up to 512
    >>> print(Limit("height", 256, 256))
    height is 256
    """

    name: str = field(metadata={SYMBOL: True})
    low: int
    high: int | None = None

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.name} is {self.low}"
        ends = (
            f"from {self.low}" if self.low > SMALLEST_DYNAMIC_SIZE else "",
            "" if self.high is None else f"up to {self.high}",
        )
        return " ".join(word for word in (self.name, *ends) if word)


def stated_limits(metadata: Mapping[str, str]) -> tuple[Limit, ...]:
    """The limits that the metadata of an ONNX file state; a smallest size that they leave out is 0.

    >>> stated_limits({"onnxfn.limits": "width from 7, height is 256"})
    (Limit(name='width', low=7), Limit(name='height', low=256, high=256))
    """
    texts = filter(None, metadata.get("onnxfn.limits", "").split(", "))
    parsed = (match.groups() for match in map(_LIMIT.fullmatch, texts) if match is not None)
    sizes = ((name, only or low or 0, only or high) for name, only, low, high in parsed)
    return tuple(Limit(name, int(low), None if high is None else int(high)) for name, low, high in sizes)
