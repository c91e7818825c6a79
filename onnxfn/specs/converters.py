"""Converters and validators of the fields of records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from onnxfn.specs.errors import InvalidSpec, shortened

Arguments = tuple[tuple[str, Any], ...]
"""Keyword arguments as pairs."""


def sorted_arguments(arguments: Mapping[str, Any] | Arguments) -> Arguments:
    """Keyword arguments as sorted pairs, which compare and hash.

    Raises:
        InvalidSpec: they are no keyword arguments.
    """
    try:
        return tuple(sorted(dict(arguments).items()))
    except (TypeError, ValueError):
        raise InvalidSpec(f"the arguments of a function are a dict, not {shortened(arguments)}") from None


def plain_number(value: Any) -> Any:
    """A number of another library, such as numpy, as one of Python; any other value as it is.

    >>> import numpy
    >>> plain_number(numpy.int64(3)), plain_number(numpy.float32(0.5)), plain_number("x")
    (3, 0.5, 'x')
    """
    if isinstance(value, (bool, int, float)) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def as_tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values as a tuple. A text is refused, because its letters are not meant.

    Raises:
        InvalidSpec: `values` is a text, or no collection.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        kind = "text" if isinstance(values, str) else "value"
        raise InvalidSpec(f"a tuple is expected, not the {kind} {shortened(values)}: write ({shortened(values)},)")
    return tuple(values)


def unique_names(_: Any, attribute: Any, records: Collection[Any]) -> None:
    """A validator: no two records of one field have the same name. Values without a name are of another type."""
    names = [name for name in (getattr(record, "name", None) for record in records) if name is not None]
    if len({*names}) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InvalidSpec(
            f"{attribute.name} has {duplicate!r} twice; keep one of them, or compose two specs: the right one wins"
        )
