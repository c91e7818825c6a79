"""Which arguments a function takes that stands for another: it may not drop what the original takes."""

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

from onnxfn.architectures.private.renamed import name_among

OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
"""The kinds of `*args` and `**kwargs`."""


def missing_arguments(original: Sequence[Parameter], replacement: Sequence[Parameter]) -> tuple[str, ...]:
    """The arguments with which a function can be called and its replacement cannot; those that it needs besides.

    An argument keeps its name, or has that of another version, and its place, and it is optional if it was. A
    replacement that passes `**options` on takes any name; one with `**_` drops what is not named, which is a fault.

    >>> def original(query, key, scale=1.0, **kwargs): ...
    >>> missing_arguments(parameters(original), parameters(lambda query, key, **_: ...))
    ('scale',)
    >>> missing_arguments(parameters(original), parameters(lambda query, key, scale=None, **_: ...))
    ()
    >>> missing_arguments(parameters(original), parameters(lambda query, key, mask, **options: ...))
    ('mask',)
    """
    named = [parameter.name for parameter in original]
    needed = [parameter.name for parameter in replacement if _is_needed(parameter)]
    dropped = [parameter for index, parameter in enumerate(original) if not _is_taken(parameter, index, replacement)]
    return (
        *(parameter.name for parameter in dropped),
        *(name for name in needed if name_among(name, named) not in named),
    )


def parameters(function: Callable[..., Any], *, of_instance: bool = False) -> tuple[Parameter, ...]:
    """The parameters of a function, that of its instance excepted; ValueError if Python knows no signature of it."""
    return tuple(inspect.signature(inspect.unwrap(function)).parameters.values())[of_instance:]


def replaced_parameters(owner: Any, name: str, replacement: Callable[..., Any]) -> tuple[tuple[Parameter, ...], ...]:
    """The parameters of an attribute of a module or class, and those of its replacement; no instance is among them.

    A replacement gets the instance also where the original is a static method.
    """
    is_class = inspect.isclass(owner)
    is_static = isinstance(inspect.getattr_static(owner, name), staticmethod)
    return (
        parameters(getattr(owner, name), of_instance=is_class and not is_static),
        parameters(replacement, of_instance=is_class),
    )


def _is_taken(parameter: Parameter, index: int, replacement: Sequence[Parameter]) -> bool:
    """Whether a replacement takes a parameter that an original has at this place."""
    if parameter.kind in OPEN:
        return any(other.kind is parameter.kind for other in replacement)
    indices = {other.name: number for number, other in enumerate(replacement) if other.kind not in OPEN}
    name = name_among(parameter.name, indices)
    if name not in indices:
        return any(other.kind is Parameter.VAR_KEYWORD and not other.name.startswith("_") for other in replacement)
    other = replacement[indices[name]]
    is_placed = parameter.kind is Parameter.KEYWORD_ONLY or (
        indices[name] == index and other.kind is not Parameter.KEYWORD_ONLY
    )
    return is_placed and (_is_needed(parameter) or not _is_needed(other))


def _is_needed(parameter: Parameter) -> bool:
    """Whether a function cannot be called without a parameter."""
    return parameter.kind not in OPEN and parameter.default is Parameter.empty
