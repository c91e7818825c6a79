"""Whether values have the types that the fields of records are annotated with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import isfinite
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from attrs import fields

from onnxfn.specs.axes import AxisMap
from onnxfn.specs.errors import InvalidSpec, shortened
from onnxfn.specs.named_records import NAMED

EXACT_TYPES: Mapping[Any, tuple[type, ...]] = MappingProxyType({int: (int,), float: (int, float)})
"""Annotation -> the classes of its values; a bool, whose class is a subclass of int, is no number."""


def check_fields(record: type, values: Mapping[str, Any], *, finite: bool = True) -> None:
    """Compares values with the types of the fields of a record; names without a field are ignored.

    Args:
        record: The class of the record.
        values: From the name of a field to its value.
        finite: Whether NaN and infinite numbers are refused.

    Raises:
        InvalidSpec: A value does not have the type of its field. A field of axes also takes a pattern.

    >>> from onnxfn.specs.records import DummySize
    >>> check_fields(DummySize, {"name": "batch_size", "value": "two"})
    Traceback (most recent call last):
    onnxfn.specs.errors.InvalidSpec: field 'value' of DummySize is 'two', and not of the type int | Getter
    """
    types = _field_types(record)
    for name, value in values.items():
        if name in types and not fits(value, types[name], finite=finite):
            expected = next(str(field.type) for field in fields(record) if field.name == name)
            raise InvalidSpec(
                f"field {name!r} of {record.__name__} is {shortened(value)}, and not of the type {expected}"
            )


def fits(value: Any, annotation: Any, *, finite: bool = True) -> bool:
    """Whether a value has an annotated type: a class, `Any`, None, a union, a literal or a tuple.

    >>> fits((1, 2), tuple[int, ...]), fits(True, int), fits(1, float), fits("x", int | str)
    (True, False, True, True)
    """
    annotation = _field_types(annotation)["records"] if annotation in NAMED else annotation
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return any(fits(value, argument, finite=finite) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and _items_fit(value, arguments, finite=finite)
    if type(value) is float and finite and not isfinite(value):
        return False
    if annotation in EXACT_TYPES:
        return type(value) in EXACT_TYPES[annotation]
    classes: dict[Any, Any] = {Any: object, None: NoneType, AxisMap: (AxisMap, str)}
    return isinstance(value, classes.get(annotation, annotation))


def _items_fit(values: tuple[Any, ...], annotations: tuple[Any, ...], *, finite: bool) -> bool:
    """Whether each item of a tuple has its type; `(int, ...)` is one type for all."""
    types = annotations[:1] * len(values) if annotations[-1] is Ellipsis else annotations
    return len(values) == len(types) and all(
        fits(value, inner, finite=finite) for value, inner in zip(values, types, strict=True)
    )


@cache
def _field_types(record: type) -> Mapping[str, Any]:
    return MappingProxyType(get_type_hints(record))
