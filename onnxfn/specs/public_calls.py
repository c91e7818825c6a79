"""Calls of the public functions: wrong types are InvalidSpec, and the traceback of a refusal is short."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import MappingProxyType, NoneType, TracebackType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from onnxfn.specs.errors import InvalidSpec, OnnxfnError, WrongType, shortened
from onnxfn.specs.field_types import type_words
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tried import newer_packages_noted

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

ACCEPTED: Mapping[Any, tuple[type, ...]] = MappingProxyType(
    {int: (Integral,), float: (Real,), tuple: (list,), Path: (PathLike,), None: (NoneType,)}
)
"""Annotation -> the classes whose objects it also stands for, such as the integers of numpy."""

LONGEST_VALUE = 40
"""Characters of a value that a message shows; of a longer one it shows the type alone."""

OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("opset", "opset_version"), "with_opset(spec, 20)"),
        **dict.fromkeys(("dtype", "float_dtype"), 'with_dtypes(spec, float="float16")'),
        **dict.fromkeys(("atol", "rtol", "tolerance"), "with_tolerance(spec, atol=1e-4)"),
        **dict.fromkeys(("input_names", "output_names"), "renamed(spec, logits='scores')"),
        **dict.fromkeys(("dynamic_axes", "dynamic_shapes", "shapes"), "with_shapes(spec, batch_size=1)"),
        "task": "for_task(spec, task)",
        "fuse": "with_opset(spec, 23)",
    }
)
"""Arguments that other exporters take -> the edit of a spec that is written instead."""

RECORDS_OF_OPTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **{name: ("write", f"WriteOptions({name}=...)") for name in ("layout", "weight_storage")},
        "template_cache": ("build", "BuildOptions(template_cache=...)"),
        "force": ("overwrite", "True"),
        "quantize": ("dtypes", '("q8",)'),
    }
)
"""Arguments that are written in another one -> that argument, and its value."""

PACKAGE = __name__.partition(".")[0]


def public(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A public function whose refusals are easy to read. It returns what `function` returns.

    The traceback of an OnnxfnError ends at the call: the message says enough. Where another error comes from an
    argument of a wrong type, InvalidSpec says which argument. So does it where a spec would hold such an argument. Any
    error has a note if an imported package is newer than the newest that was tried. A function that is returned, such
    as an edit without its spec, is public too.

    >>> from onnxfn.specs.facts import loads
    >>> public(loads)(3)
    Traceback (most recent call last):
    onnxfn.specs.errors.InvalidSpec: loader of loads is 3, of the type int; it must be str
    """

    @wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            with newer_packages_noted():
                result = function(*arguments, **named)
        except WrongType as error:
            raise wrong_type(function, arguments, named) or with_short_traceback(error) from None
        except OnnxfnError as error:
            raise with_short_traceback(error) from error.__cause__
        except (AttributeError, LookupError, TypeError, ValueError):
            if (problem := wrong_type(function, arguments, named)) is not None:
                raise problem from None
            raise
        if isinstance(result, ExportSpec) and (problem := wrong_type(function, arguments, named)) is not None:
            raise problem
        return cast("Result", public(result)) if inspect.isfunction(result) else result

    call.__module__ = PACKAGE  # where users, help and pickle find it
    return call


def with_short_traceback(error: OnnxfnError) -> OnnxfnError:
    """The error without the frames of this package, and with those of other packages in its cause alone.

    A cause that is an error of onnxfn too is dropped: the message of the error has its words.
    """
    cause = error.__cause__
    if isinstance(cause, OnnxfnError):
        error.__cause__ = None
    elif cause is not None:
        cause.__traceback__ = _outside(cause.__traceback__)
    error.__suppress_context__ = True
    return error.with_traceback(None)


def wrong_type(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> InvalidSpec | None:
    """The error for the first argument that is not of the annotated type; None if there is none."""
    types, signature = _types(function), inspect.signature(function)
    try:
        bound = signature.bind(*arguments, **named)
    except TypeError:  # an argument too many or too few, which Python's own error says
        return _option_of_spec(function, [name for name in named if name not in signature.parameters])
    for name, value in _values(bound):
        parameter, _, key = name.partition("=")
        annotation = types.get(parameter, Any)
        if not _accepts(annotation, value):
            expected = " or ".join(type_words(annotation))
            text = f"{key or parameter} of {function.__name__} is {_shown(value)}; it must be {expected}"
            return InvalidSpec(text)
    return None


def _option_of_spec(function: Callable[..., Any], strange: Sequence[str]) -> InvalidSpec | None:
    """The error for an argument that is written in another way here; None if none of the names is one."""
    parameters = inspect.signature(function).parameters
    for other in strange:
        argument, value = RECORDS_OF_OPTIONS.get(other, ("", ""))
        if argument in parameters:
            return InvalidSpec(f"{function.__name__} has no argument {other!r}; write {argument}={value}")
    name = next((name for name in strange if name in OPTIONS), None)
    if name is None:
        return None
    if name == "dtype" and "kind" in parameters:
        return InvalidSpec(f"{function.__name__} has no argument 'dtype'; write kind='float32'")
    return InvalidSpec(f"{function.__name__} has no argument {name!r}: it is a part of the spec; write {OPTIONS[name]}")


def _values(bound: inspect.BoundArguments) -> Iterator[tuple[str, Any]]:
    """Each argument of a call with its parameter; `sizes=batch_size` for one of `**sizes`."""
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((name, item) for item in value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from ((f"{name}={key}", item) for key, item in value.items())
        else:
            yield name, value


def _accepts(annotation: Any, value: Any) -> bool:
    """Whether a value has an annotated type. What a container holds is not looked at, and literals are not compared.

    The functions compare literals themselves: their errors name the closest value.
    """
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return any(_accepts(argument, value) for argument in get_args(annotation))
    expected = origin or annotation
    if origin is Literal or annotation is Any or not isinstance(expected, type | None):
        return True
    if expected is not None and expected.__module__ == "numpy":
        return True  # an array: lists and tensors of torch are arrays too
    return isinstance(value, (*ACCEPTED.get(expected, ()), *([expected] if expected else [])))


def _shown(value: Any) -> str:
    text, kind = shortened(value), f"of the type {type(value).__name__}"
    says_little = text.startswith("<") or not text.isprintable() or len(text) > LONGEST_VALUE
    return kind if says_little else f"{text}, {kind}"


def _outside(traceback: TracebackType | None) -> TracebackType | None:
    """The frames of a traceback that are not of this package."""
    if traceback is None:
        return None
    others = _outside(traceback.tb_next)
    if traceback.tb_frame.f_globals.get("__name__", "").startswith(f"{PACKAGE}."):
        return others
    return TracebackType(others, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


@cache
def _types(function: Callable[..., Any]) -> Mapping[str, Any]:
    return MappingProxyType(get_type_hints(function))
