"""The values of options, from texts of the command line or from values of a file, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import asdict, has

from onnxfn.specs.errors import InvalidSpec, shortened

if TYPE_CHECKING:
    from onnxfn.specs.results.measurements import Floors

DTYPES: Mapping[str, str] = MappingProxyType({"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"})
"""Optimum's names of dtypes -> ours."""


def texts(flag: str, values: Any) -> tuple[str, ...]:
    """One text or several as a tuple; InvalidSpec for anything else.

    >>> texts("--output", "hidden_states"), texts("--output", ["a", "b"])
    (('hidden_states',), ('a', 'b'))
    """
    words = (values,) if isinstance(values, str) else tuple(values)
    if not all(isinstance(value, str) for value in words):
        raise InvalidSpec(f"{flag} is {shortened(values)}; write a text, or a list of texts")
    return words


def parsed_sizes(flag: str, values: Any) -> tuple[tuple[str, int], ...]:
    """The names and sizes of axes in texts NAME=NUMBER, or in a mapping; InvalidSpec if one has no number.

    >>> parsed_sizes("--size", ["batch_size=1"]), parsed_sizes("--size", {"batch_size": 1})
    ((('batch_size', 1),), (('batch_size', 1),))
    """
    pairs = tuple((name, _number(size)) for name, size in _pairs(values))
    for name, size in pairs:
        if not isinstance(size, int):
            raise InvalidSpec(f"{flag} {name} has no number; write {flag} {name or 'sequence_length'}=32")
    return pairs


def parsed_shapes(flag: str, values: Any) -> tuple[tuple[str, int | tuple[int, int]], ...]:
    """Names of axes, each with its size, or with its smallest and largest size; InvalidSpec for anything else.

    >>> parsed_shapes("--shape", ["batch_size=1", "sequence_length=1:128"])
    (('batch_size', 1), ('sequence_length', (1, 128)))
    >>> parsed_shapes("--shape", {"sequence_length": [1, 128]})
    (('sequence_length', (1, 128)),)
    """
    return tuple(_parsed_shape(flag, name, size) for name, size in _pairs(values))


def parsed_names(flag: str, values: Any) -> tuple[tuple[str, str], ...]:
    """Old and new names in texts OLD=NEW, or in a mapping; InvalidSpec if one lacks a name.

    >>> parsed_names("--rename", ["present.{layer}.key=present_key_{layer}"])
    (('present.{layer}.key', 'present_key_{layer}'),)
    """
    pairs = _pairs(values)
    for old, new in pairs:
        if not (old and new):
            raise InvalidSpec(f"{flag} {old} has no new name; write {flag} OLD=NEW")
    return pairs


def _pairs(values: Any) -> tuple[tuple[str, Any], ...]:
    """The names and values in texts NAME=VALUE, in a mapping, or in pairs."""
    items = values.items() if isinstance(values, Mapping) else values
    return tuple(item.partition("=")[::2] if isinstance(item, str) else tuple(item) for item in items)


def _number(size: Any) -> Any:
    return int(size) if isinstance(size, str) and size.isdecimal() else size


def _parsed_shape(flag: str, name: str, size: Any) -> tuple[str, int | tuple[int, int]]:
    match [_number(each) for each in (size.split(":") if isinstance(size, str) else _sizes(size))]:
        case [int() as fixed]:
            return name, fixed
        case [int() as low, int() as high] if low < high:
            return name, (low, high)
    axis = name or "sequence_length"
    raise InvalidSpec(
        f"{flag} {name}={size} is neither a size nor a range; write {flag} {axis}=32, or {flag} {axis}=1:128 for sizes "
        "from 1 to 128"
    )


def _sizes(size: Any) -> Iterable[Any]:
    return size if isinstance(size, (list, tuple)) else [size]


def parsed_dtypes(flag: str, values: Any) -> tuple[str, ...]:
    """Our names of dtypes; those of Optimum are translated.

    >>> parsed_dtypes("--dtype", ["fp16", "q8"])
    ('float16', 'q8')
    """
    return tuple(DTYPES.get(name, name) for name in texts(flag, values))


def floors_of(flag: str, values: Any) -> Floors:
    """The floors in texts NAME=NUMBER, or in a mapping."""
    from onnxfn.specs.results.measurements import Floors, parsed_floors

    return Floors(**values) if isinstance(values, Mapping) else parsed_floors(flag, values)


def as_written(value: Any) -> Any:
    """The written value of an option, from its value: a text for each item of a tuple or of a record.

    >>> as_written((("batch_size", 1), ("sequence_length", (1, 128)))), as_written(("hidden_states",))
    (['batch_size=1', 'sequence_length=1:128'], ['hidden_states'])
    """
    if has(type(value)):
        return as_written(tuple((name, each) for name, each in asdict(value).items() if each is not None))
    if isinstance(value, tuple):
        return [each if isinstance(each, str) else f"{each[0]}={_as_text(each[1])}" for each in value]
    return str(value) if isinstance(value, Path) else value


def _as_text(value: Any) -> str:
    return ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
