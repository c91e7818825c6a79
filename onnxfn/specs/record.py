"""`record`, the decorator of records: they refuse values of other types than their fields are annotated with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from attrs import Attribute, Converter
from attrs.validators import and_

from onnxfn.specs.converters import unique_names
from onnxfn.specs.errors import OnnxfnError, WrongType, shortened, unknown
from onnxfn.specs.named_records import Named

Fits = Callable[[Any], bool]
"""Whether a value has a type."""

NUMBERS: Mapping[Any, tuple[type, ...]] = MappingProxyType({int: (int,), float: (int, float)})
"""Annotation -> the classes of its values. A bool is not a number, although its class is a subclass of int."""


def typed_fields(_: type, fields: list[Attribute[Any]]) -> list[Attribute[Any]]:
    """The fields of a record, each with a validator of its type after its own. Named records have each name once."""
    own = [field.validator or (unique_names if isinstance(field.default, Named) else None) for field in fields]
    return [
        field.evolve(
            validator=check_type if validator is None else and_(validator, check_type),
            converter=field.converter and _with_field_in_errors(field.converter),
        )
        for field, validator in zip(fields, own, strict=True)
    ]


def _with_field_in_errors(converter: Any) -> Any:
    """A converter whose errors start with the field and the record. It leaves the default, as most fields have it."""

    def converted(value: Any, record: Any, field: Attribute[Any]) -> Any:
        if value is field.default:
            return value
        try:
            result = converter(value)
            if isinstance(result, Named) and isinstance(field.default, Named) and result is not value:
                return Named(result.records, field.default.word)
        except OnnxfnError as problem:
            raise type(problem)(f"{field.name} of {type(record).__name__}: {problem}") from None
        return result

    return Converter(converted, takes_self=True, takes_field=True)


def check_type(record: Any, field: Attribute[Any], value: Any) -> None:
    """Raises WrongType for a value that does not have the type of a field; UnknownName for an unknown word."""
    if value is not field.default and not _field_fits(type(record))[field.name](value):  # type: ignore[arg-type]
        raise _refusal(type(record), field.name, value)


def type_words(annotation: Any) -> Iterator[str]:
    """The words of an annotated type, such as `'a'`, tuple and None."""
    if get_origin(annotation) in (Union, UnionType):
        for argument in get_args(annotation):
            yield from type_words(argument)
    elif get_origin(annotation) is Literal:
        yield from map(repr, get_args(annotation))
    else:
        yield "None" if annotation in (None, NoneType) else getattr(annotation, "__name__", str(annotation))


def _refusal(record: type, name: str, value: Any) -> OnnxfnError:
    """The error for a value that does not have the type of a field."""
    annotation = get_type_hints(record)[name]
    literals = [part for part in (annotation, *get_args(annotation)) if get_origin(part) is Literal]
    if isinstance(value, str) and (words := [word for literal in literals for word in get_args(literal)]):
        return unknown(name, value, words)
    verb, strange = "is", value
    if isinstance(value, Named) or (get_args(annotation)[1:] == (Ellipsis,) and isinstance(value, tuple)):
        annotation = get_args(annotation)[0]
        verb, strange = "has the item", next(item for item in value if not fits(annotation)(item))
    return WrongType(
        f"{name} of {record.__name__} {verb} {shortened(strange)}, of the type {type(strange).__name__}; "
        f"it must be {' or '.join(type_words(annotation))}"
    )


@cache
def _field_fits(record: type) -> Mapping[str, Fits]:
    """From the name of a field to whether a value has its type."""
    return MappingProxyType({name: fits(annotation) for name, annotation in get_type_hints(record).items()})


def fits(annotation: Any) -> Fits:
    """Whether a value has an annotated type: a class, `Any`, None, a union, a literal or a tuple."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        choices = [fits(argument) for argument in arguments]
        return lambda value: any(choice(value) for choice in choices)
    if origin is Literal:
        return lambda value: any(type(value) is type(word) and value == word for word in arguments)
    if origin is Named:
        item = fits(arguments[0])
        return lambda value: isinstance(value, Named) and all(map(item, value))
    if origin is tuple:
        items = [fits(each) for each in arguments if each is not Ellipsis]
        if arguments[-1] is Ellipsis:
            return lambda value: isinstance(value, tuple) and all(map(items[0], value))
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(items)
            and all(item_fits(item) for item_fits, item in zip(items, value, strict=True))
        )
    classes = NUMBERS.get(annotation) or (object if annotation is Any else origin or annotation)
    return lambda value: isinstance(value, classes) and not (annotation in NUMBERS and type(value) is bool)


__all__ = ("record",)

if TYPE_CHECKING:  # type checkers know the classes of attrs, and no function that makes them
    from attrs import frozen as record
else:
    from html import escape

    from attrs import frozen

    from onnxfn.specs.short_repr import short_repr

    def record(decorated: Any = None, **options: Any) -> Any:
        """A frozen class of attrs with checked types of fields and a short `repr`.

        A class with a `__repr__` of its own keeps it. A notebook shows a class with a `__str__` as it prints.
        `options` are those of `attrs.frozen`.
        """
        if decorated is None:
            return partial(record, **options)
        if "__repr__" not in vars(decorated):
            decorated.__repr__ = short_repr
        if "__str__" in vars(decorated) and "_repr_html_" not in vars(decorated):
            style = "overflow-x:auto;font-family:monospace"  # the lines as they print, also if the page is narrower
            decorated._repr_html_ = lambda self: f'<pre style="{style}">{escape(str(self))}</pre>'
        return frozen(decorated, field_transformer=typed_fields, **options)
