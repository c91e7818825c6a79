"""The text of classes and functions: what they compute, and the values that they read.

The version of a package stands for the code of its files, but not for what a program changes afterwards: an attribute
of a class, a method that is replaced, a variable of a module. So the text covers the classes of a model, their methods,
and what these read. Functions of a package with a version are followed within their module; all others everywhere.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen

IGNORED_ATTRIBUTES = (
    *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__parameters__"),
    *("__abstractmethods__", "_abc_impl", "__orig_bases__", "__slots__", "__type_params__"),
    *("__firstlineno__", "__static_attributes__", "__init__", "__setstate__", "___needs_generation_tag_patch"),
    "smart_apply",
)
"""Attributes of a class that describe or create its objects.

torch replaces or adds `__init__` and the two that follow when it compiles. transformers adds `smart_apply` to
`torch.nn.Module` when it creates its first model; it initializes weights.
"""

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
"""Types whose `repr` is equal for equal values alone."""


class NotHashable(Exception):
    """A value without a name or a text that would be the same in another process."""


@frozen
class Texts:
    """How values and modules are written as text.

    Attributes:
        value: Function from a value to its text. Raises NotHashable.
        versioned: Function from the name of a module to whether a version stands for its code.
        installed: Function from the name of a module to whether it is of Python or of an installed package.
        source: Function from the name of a module to a digest of its file; "" if a version stands for it.
    """

    value: Callable[[Any], str]
    versioned: Callable[[str], bool]
    installed: Callable[[str], bool]
    source: Callable[[str], str]


def definition_lines(roots: Iterable[Any], texts: Texts) -> Iterator[str]:
    """A line for each class and function that code of the roots runs, as far as this code is followed.

    Raises NotHashable if a function that is not of an installed package reads a value without a text.
    """
    stack, seen = list(roots), set[int]()
    while stack:
        definition = stack.pop()
        if id(definition) in seen:
            continue
        seen.add(id(definition))
        read = _class_values(definition) if isinstance(definition, type) else _function_values(definition, texts)
        strict = not texts.installed(module_of(definition))
        yield f"{_qualified_name(definition)} {_source_digest(definition, texts)} {_code_digest(definition)}"
        for name, value in read:
            functions = _functions_in(value)
            text = " ".join(map(_reference, functions)) if functions else _value_text(value, texts, strict=strict)
            yield f"{name} = {text}"
            stack.extend(inner for inner in functions if _is_followed(inner, definition, name, texts))


def module_of(definition: Any) -> str:
    """The module whose variables a function reads, which a decorator cannot change; of a class, its module."""
    variables = getattr(definition, "__globals__", {})
    return str(variables.get("__name__") or getattr(definition, "__module__", None) or "builtins")


@functools.cache
def code_digest(code: types.CodeType) -> str:
    """A digest of what a code object computes: its instructions, the names and constants that they use.

    >>> double, twice, triple = (lambda x: x * 2), (lambda x: x * 2), (lambda x: x * 3)
    >>> code_digest(double.__code__) == code_digest(twice.__code__) != code_digest(triple.__code__)
    True
    """
    facts = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount, code.co_flags)
    text = f"{code.co_code!r} {facts} {[*map(_constant, code.co_consts)]}"
    return hashlib.sha256(text.encode()).hexdigest()


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return code_digest(value)
    if isinstance(value, (tuple, frozenset)):
        items = [*map(_constant, value)]
        return f"{type(value).__name__}{sorted(items) if isinstance(value, frozenset) else items}"
    return repr(value)


# What classes and functions read


def _class_values(class_: type) -> Iterator[tuple[str, Any]]:
    """The attributes of a class, and its bases."""
    yield from ((name, value) for name, value in vars(class_).items() if name not in IGNORED_ATTRIBUTES)
    yield from (("base", base) for base in class_.__bases__ if base is not object)


def _function_values(function: Any, texts: Texts) -> Iterator[tuple[str, Any]]:
    """The defaults of a function, the variables that it closes over, and the variables of modules that it reads.

    The attributes of a module that it reads count if the module is not of an installed package.
    """
    if not isinstance(function, types.FunctionType):
        return
    yield "defaults", [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        yield "closure", cell_value(cell)
    names = sorted(set(_names(function.__code__)))
    variables = function.__globals__
    read = {name: variables[name] for name in names if name in variables}
    yield from read.items()
    for module in [value for value in read.values() if inspect.ismodule(value) and not texts.installed(value.__name__)]:
        yield from ((f"{module.__name__}.{name}", vars(module)[name]) for name in names if name in vars(module))


def _names(code: types.CodeType) -> Iterator[str]:
    """The names of variables and attributes that a code object uses, and the code inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def cell_value(cell: Any) -> Any:
    """The value of a variable that a function closes over."""
    try:
        return cell.cell_contents
    except ValueError as error:  # the variable has no value yet
        raise NotHashable from error


def _functions_in(value: Any) -> list[Any]:
    """The class or the functions that a value is or wraps, such as those of a property; [] for any other value."""
    if isinstance(value, property):
        return [function for function in (value.fget, value.fset) if function is not None]
    if isinstance(value, (staticmethod, classmethod)):
        return _functions_in(value.__func__)
    if isinstance(value, functools.cached_property):
        return [value.func]
    is_code = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType))
    return [value] if is_code else []


# Texts


def _value_text(value: Any, texts: Texts, *, strict: bool) -> str:
    """The text of a value that code reads. Of what an installed package reads, only plain values are covered."""
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__} {texts.source(value.__name__)}"
    is_descriptor = inspect.ismethoddescriptor(value) or inspect.isdatadescriptor(value)
    if is_descriptor or not (strict or _is_plain(value)):
        return str(type(value).__qualname__)
    return texts.value(value)


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, or a container of such values."""
    if isinstance(value, Mapping):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return all(map(_is_plain, value)) if isinstance(value, (list, tuple, set, frozenset)) else isinstance(value, PLAIN)


def _source_digest(definition: Any, texts: Texts) -> str:
    """The digest of the file of a class or function; "" for a function of no file, which a namedtuple generates."""
    module = module_of(definition)
    is_generated = inspect.isfunction(definition) and module not in sys.modules
    return "" if is_generated else texts.source(module)


def _reference(definition: Any) -> str:
    return f"{_qualified_name(definition)} {_code_digest(definition)}"


def _qualified_name(definition: Any) -> str:
    return f"{definition.__module__}.{definition.__qualname__}"


def _code_digest(definition: Any) -> str:
    code = getattr(definition, "__code__", None)
    return code_digest(code) if isinstance(code, types.CodeType) else ""


def _is_followed(inner: Any, reader: Any, name: str, texts: Texts) -> bool:
    """Whether the values that `inner`, a class or function, reads count too. `reader` has it under a name.

    They count if both are in the same module, and if `inner` is a method, a base class or a function that a decorator
    encloses. Else they count if no version stands for the code of `inner`. They do not count if a package with a
    version uses `inner`, and `inner` is of an installed package.
    """
    module, reading_module = module_of(inner), module_of(reader)
    is_method = isinstance(reader, type) and not isinstance(inner, type)
    if module == reading_module or is_method or name in ("base", "closure"):
        return True
    return not texts.versioned(module) and not (texts.versioned(reading_module) and texts.installed(module))
