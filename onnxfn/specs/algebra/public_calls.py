"""Errors of public calls, and their notes about packages that are newer than any tried version."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import MappingProxyType, NoneType, TracebackType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from attrs import fields_dict, has

from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec, OnnxfnError, WrongType, closest, listed, shortened
from onnxfn.specs.record import type_words

NEWEST_TRIED: Mapping[str, str] = MappingProxyType(
    {"torch": "2.15.0", "transformers": "5.24.0", "onnx": "1.23.2", "onnxruntime": "1.32.0"}
)
"""Package -> the newest version that tests ran with."""


def newer_than_tried(installed: Mapping[str, str]) -> str:
    """A sentence about the packages that are newer than any tried version; empty if there are none."""
    newer = {name: text for name, text in installed.items() if _numbers(text) > _numbers(NEWEST_TRIED[name])}
    if not newer:
        return ""
    are = f"{' and '.join(f'{name} {text}' for name, text in newer.items())} {'is' if len(newer) == 1 else 'are'}"
    tried = " and ".join(NEWEST_TRIED[name] for name in newer)
    return f"{are} installed; the newest that onnxfn was tried with is {tried}, which may be the cause"


@contextmanager
def newer_packages_noted() -> Iterator[None]:
    """Adds a note to an error if an imported package is newer than any tried version."""
    try:
        yield
    except Exception as error:
        note = newer_than_tried(_imported())
        if note and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def _imported() -> dict[str, str]:
    """The versions of these packages that are imported: others have no part in an error."""
    names = sorted(NEWEST_TRIED.keys() & sys.modules.keys())
    return {name: version for name in names if (version := installed_version(name))}


def installed_version(name: str) -> str | None:
    """The version of a package; None if it is not installed: onnxruntime is also distributed under other names."""
    from importlib.metadata import distributions  # not needed unless there is an error

    return next((package.version for package in distributions(name=name)), None)


def _numbers(text: str) -> list[int]:
    """The numbers of a release, three at most; they compare as the releases do."""
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

ACCEPTED: Mapping[Any, tuple[type, ...]] = MappingProxyType(
    {int: (Integral,), float: (Real,), tuple: (list,), Path: (PathLike,), None: (NoneType,)}
)
"""Annotation -> the classes whose objects it also stands for, such as the integers of numpy."""

PACKAGE = __name__.partition(".")[0]


def public(function: Callable[Parameters, Result], module: str = PACKAGE) -> Callable[Parameters, Result]:
    """A public function whose refusals are easy to read. It returns what `function` returns."""

    @wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            with newer_packages_noted():
                result = function(*arguments, **named)
        except WrongType as error:
            raise wrong_type(function, arguments, named) or refusal(error, function) from None
        except OnnxfnError as error:
            raise refusal(error, function) from error.__cause__
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if problem := wrong_type(function, arguments, named) or unknown_keyword(error, function, named):
                raise problem from None
            raise
        if isinstance(result, ExportSpec) and (problem := wrong_type(function, arguments, named)) is not None:
            raise problem
        return cast("Result", public(result, module)) if inspect.isfunction(result) else result

    call.__module__ = module  # where users, help and pickle find it
    return call


def unknown_keyword(error: Exception, function: Callable[..., Any], named: Mapping[str, Any]) -> TypeError | None:
    """Python's error for a keyword that a function lacks, or a record with its other keywords, with the known ones."""
    unexpected = re.match(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'", str(error))
    record: Any = unexpected and inspect.unwrap(function).__globals__.get(unexpected[1].removesuffix(".__init__"))
    if not unexpected or unexpected[2] not in named or not (has(record) or unexpected[1] == function.__name__):
        return None
    parameters = inspect.signature(function).parameters.values()
    own = [each.name for each in parameters if each.kind.name in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")]
    known = dict.fromkeys([*own, *(fields_dict(record) if has(record) else ())])
    name = f"{function.__name__}() got an unexpected keyword argument {unexpected[2]!r}"
    return TypeError(f"{name}; known: {listed(known)}{closest(unexpected[2], known)}")


def refusal(error: OnnxfnError, function: Callable[..., Any]) -> OnnxfnError:
    """The error without frames of this package or a cause of onnxfn; fields of records are named as arguments."""
    owner = re.match(r"(\w+) of [A-Z]\w*(?=:| is | has )", str(error))
    if owner and owner[1] in inspect.signature(function).parameters:
        error.args = (f"{owner[1]} of {function.__name__}{str(error)[owner.end() :]}",)
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
        return None
    for name, value in _values(bound):
        parameter, _, key = name.partition("=")
        annotation = types.get(parameter, Any)
        if not _accepts(annotation, value):
            expected = " or ".join(type_words(annotation))
            shown = f"{shortened(value)}, of the type {type(value).__name__}"
            return InvalidSpec(f"{key or parameter} of {function.__name__} is {shown}; it must be {expected}")
    return None


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
    """Whether a value has an annotated type, of literals and of the items of containers any: functions refuse these."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return any(_accepts(argument, value) for argument in get_args(annotation))
    expected = origin or annotation
    if origin is Literal or annotation is Any or not isinstance(expected, type | None):
        return True
    if expected is not None and expected.__module__ == "numpy":
        return True  # an array: lists and tensors of torch are arrays too
    return isinstance(value, (*ACCEPTED.get(expected, ()), *([expected] if expected else [])))


def _outside(traceback: TracebackType | None) -> TracebackType | None:
    """The frames of a traceback that are not of this package."""
    if traceback is None:
        return None
    others = _outside(traceback.tb_next)
    if traceback.tb_frame.f_globals.get("__name__", "").startswith(f"{PACKAGE}."):
        return others
    return TracebackType(others, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


_types = cache(get_type_hints)
