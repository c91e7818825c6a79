"""The items of a list, a named tuple or a dataclass in a sample, and the name by which an export builds it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from onnxfn.specs.errors import InvalidSpec, UnknownName
from onnxfn.specs.functions import resolve

LIST = "as_list"
"""The argument builder of a list; a tuple and a dict need none."""


def items_of(value: Any) -> Mapping[Any, Any] | None:
    """The items of a container by their keys; None for anything else, and for a container without items.

    The keys are those of a dict, the positions in a tuple or a list, the fields of a named tuple or a dataclass.
    """
    if type(value) in (tuple, list):
        return dict(enumerate(value)) or None
    if type(value) is dict:
        return value or None
    return fields_of(value)


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """The fields of a named tuple, or those that make a dataclass; None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return None


def builder_name(name: str, value: Any) -> str | None:
    """The name of what builds a container from its items: `as_list`, or `package.module:Class`; None for none.

    InvalidSpec for a class that has no such name, because it is defined inside a function.
    """
    if type(value) in (tuple, dict):
        return None
    if type(value) is list:
        return LIST
    owner = type(value)
    path = f"{owner.__module__}:{owner.__qualname__}"
    try:
        is_named = resolve(path, {}, kind="class") is owner
    except UnknownName:
        is_named = False
    if not is_named:
        raise InvalidSpec(
            f"{name!r} in the sample is {owner.__qualname__}, which {owner.__module__} has under no name; define the "
            "class at the top of a module, or pass a dict"
        )
    return path
