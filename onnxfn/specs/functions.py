"""Named functions: a spec holds the name of a function, and `resolve` finds the function."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from onnxfn.specs.errors import UnknownName, unknown


def resolve(name: str, known: Mapping[str, Any], *, kind: str) -> Any:
    """The function that a name in a spec refers to.

    Args:
        name: A key of `known`, or `package.module:function` (`package.module:Class.method`) for any other function.
        known: Short names, and for each the function itself or a text `package.module:function`.
        kind: What the function is used for. It is part of the error message.

    Returns:
        The function.

    Raises:
        UnknownName: `known` has no such key, the module cannot be imported, or it has no such attribute.

    >>> resolve("double", {"double": "operator:add"}, kind="example")(2, 2)
    4
    """
    function = known.get(name, name)
    if not isinstance(function, str):
        return function
    if ":" not in function:
        raise UnknownName(f"{unknown(kind, name, known)}; any other function is written 'package.module:function'")
    module, _, attributes = function.partition(":")
    try:
        value: Any = import_module(module)
    except (ImportError, TypeError, ValueError) as problem:  # the last two for ".module:f" and ":f"
        raise UnknownName(f"{kind} {name!r}: module {module!r} cannot be imported: {problem}") from problem
    for attribute in attributes.split("."):
        if not hasattr(value, attribute):
            public = [public_name for public_name in dir(value) if not public_name.startswith("_")]
            raise unknown(kind, attribute, public, of=repr(name))
        value = getattr(value, attribute)
    return value
