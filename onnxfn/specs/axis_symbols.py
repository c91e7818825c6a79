"""What is known of axes: their sizes, the sizes for which a graph is valid, and other symbols for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from attrs import evolve, fields, has

from onnxfn.specs.axes import AxisMap, fix_sizes, names
from onnxfn.specs.conditions import Condition, with_names
from onnxfn.specs.record import record
from onnxfn.specs.records import Getter, Source

SMALLEST_DYNAMIC_SIZE = 2
"""The smallest size that torch.export reports for a dynamic axis: it handles 0 and 1 as special cases."""

UNBOUNDED = 1 << 40
"""Upper ends from here on are no limit: torch writes a very large number where there is none."""


@record
class AxisFacts:
    """What is known of an axis. `compose` joins two records of an axis: see `joined_axes`.

    Attributes:
        name: The symbol of the axis.
        size: Its size in dummy tensors, or a getter that reads it from the configuration.
        low: The smallest size, or where the configuration keeps it; None for any.
        high: The largest size; None for no limit. Where it equals `low`, the axis is static in the graph.
        when: A condition on the configuration: `low` and `high` count when the value read is true.
        new: The name of the axis in ONNX and in the plan, where it is another one.

    >>> print(AxisFacts("sequence_length", low=4, high=512))
    sequence_length from 4 up to 512
    >>> print(AxisFacts("height", low=256, high=256))
    height is 256
    """

    name: str
    size: int | Getter | None = None
    low: int | Source | None = None
    high: int | Source | None = None
    when: Source | None = None
    new: str | None = None

    def __str__(self) -> str:
        only, low, high = (self.low, None, None) if is_fixed(self) else (None, self.low, self.high)
        low = None if low in range(SMALLEST_DYNAMIC_SIZE) else low
        words = {"is": only, "from": low, "up to": high, "when": self.when, "traced at": self.size, "named": self.new}
        return " ".join((self.name, *(f"{word} {value}" for word, value in words.items() if value is not None)))


def joined_axes(*axes: Iterable[AxisFacts]) -> tuple[AxisFacts, ...]:
    """One record for each axis, in the order of first mention: later values win, and a range replaces a fixed size."""
    by_name: dict[str, AxisFacts] = {}
    for axis in chain(*axes):
        by_name[axis.name] = _joined(by_name[axis.name], axis) if axis.name in by_name else axis
    return tuple(by_name.values())


def _joined(left: AxisFacts, right: AxisFacts) -> AxisFacts:
    limits = left if right.low is right.high is right.when is None else right
    size = left.size if right.size is None else right.size
    return AxisFacts(left.name, size, limits.low, limits.high, limits.when, right.new or left.new)


def is_fixed(axis: AxisFacts) -> bool:
    """Whether an axis is static in the graph."""
    return axis.low is not None and axis.low == axis.high


def traced_sizes(spec: Any) -> dict[str, int]:
    """`{axis symbol: size in dummy tensors}` of a spec or a case, where it is a number."""
    return {axis.name: axis.size for axis in spec.axes if isinstance(axis.size, int)}


def fixed_sizes(spec: Any) -> dict[str, int]:
    """`{axis symbol: size}` of the fixed axes of a spec whose size is a number; in a planned spec every size is one."""
    return {axis.name: axis.low for axis in spec.axes if is_fixed(axis) and isinstance(axis.low, int)}


def ranges(spec: Any) -> dict[str, tuple[int, int]]:
    """`{axis symbol: (smallest, largest size)}` of the dynamic axes of a planned spec that have a range."""
    moving = (axis for axis in spec.axes if axis.low != axis.high)
    return {axis.name: (axis.low or 0, UNBOUNDED if axis.high is None else axis.high) for axis in moving}


def new_names(spec: Any) -> dict[str, str]:
    """`{axis symbol: name in ONNX}` of the axes of a spec that have another name there."""
    return {axis.name: axis.new for axis in spec.axes if axis.new is not None}


def with_symbols(value: Any, new: Mapping[str, str]) -> Any:
    """A record, or a tuple of records, with new symbols for axes. Two records of one axis are then joined."""
    if isinstance(value, AxisMap):
        words = [(axis, [new.get(word, word) for word in axis.symbol.split()]) for axis in value.axes]
        axes = (evolve(axis, symbol=" ".join(own)) if axis.kind == "dynamic" else axis for axis, own in words)
        return AxisMap(tuple(axes))
    if isinstance(value, tuple):
        changed_items = tuple(with_symbols(item, new) for item in value)
        return joined_axes(changed_items) if all(isinstance(item, AxisFacts) for item in value) else changed_items
    if not has(type(value)):
        return value
    if isinstance(value, Condition):
        return with_names(value, new)
    changed = {each.name: with_symbols(getattr(value, each.name), new) for each in fields(type(value))}
    if isinstance(value, AxisFacts):
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


def graph_axes(spec: Any, tensor: Any) -> AxisMap:
    """The axes of an input or output of a spec as the graph has them: by their names there, fixed axes as numbers."""
    renamed = new_names(spec)
    return fix_sizes(with_symbols(tensor.axes, renamed) if renamed else tensor.axes, fixed_sizes(spec))
