"""How specs join: EMPTY, compose, and the joins that the fields of ExportSpec name.

Laws: `compose()` is EMPTY; `compose(a) == a`; compose is associative; EMPTY changes nothing; the right-most wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve, fields
from toolz import reduce

from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import ExportSpec, Normalizer, Overlay

EMPTY = ExportSpec()


def compose(*specs: ExportSpec) -> ExportSpec:
    """Specs joined field by field, the right-most winning: "a text encoder, with BERT's inputs".

    >>> from onnxfn.specs.records import Size
    >>> compose(ExportSpec(opset=17, name="a"), ExportSpec(opset=18)).opset
    18
    """
    for one in specs:
        if not isinstance(one, ExportSpec):
            raise InvalidSpec(f"compose joins ExportSpec records, and got {type(one).__name__}: {one!r}")
    joined: ExportSpec = reduce(_joined, specs, EMPTY)
    return joined


def later(left: Any, right: Any) -> Any:
    """The right value, unless it is unsaid."""
    return left if right is None else right


def named(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """Records joined by name: the order of first mention, the value of last mention."""
    if not left or not right:  # most fields of most specs, and all of this happens when onnxfn is imported
        return left or right
    return tuple({one.name: one for one in (*left, *right)}.values())


def overlays(left: tuple[Overlay, ...], right: tuple[Overlay, ...]) -> tuple[Overlay, ...]:
    """Overlays joined by name, those of one name laid over each other."""
    if not left or not right:
        return left or right
    by_name = {one.name: one for one in left}
    return tuple({**by_name, **{one.name: _overlaid(by_name.get(one.name), one) for one in right}}.values())


def normalizer(left: Normalizer, right: Normalizer) -> Normalizer:
    """Normalizers joined by the names they read."""
    if not left.reads or not right.reads:
        return left if left.reads else right
    return Normalizer(named(left.reads, right.reads))


JOINS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"later": later, "named": named, "overlays": overlays, "normalizer": normalizer}
)


def _joined(left: ExportSpec, right: ExportSpec) -> ExportSpec:
    if left is EMPTY or right is EMPTY:
        return right if left is EMPTY else left
    return ExportSpec(
        **{
            one.name: JOINS[one.metadata["join"]](getattr(left, one.name), getattr(right, one.name))
            for one in fields(ExportSpec)
        }
    )


def _overlaid(left: Overlay | None, right: Overlay) -> Overlay:
    if left is None:
        return right
    edits = (*left.edits, *(edit for edit in right.edits if edit not in left.edits))
    return evolve(left, spec=_joined(left.spec, right.spec), edits=edits)
