"""`as_edit`: lets an edit be called without a spec, for `pipe`. The types of this module are in its `.pyi`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps
from inspect import signature
from typing import Any

from onnxfn.specs.algebra.public_calls import public, wrong_type
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec


def as_edit(function: Callable[..., ExportSpec]) -> Callable[..., Any]:
    """The edit, callable with a spec and without: `edit(spec, value) == edit(value)(spec)`.

    InvalidSpec if a call without a spec has an argument of another type than the edit takes.

    >>> with_name = as_edit(lambda spec, name: ExportSpec(name=name, task=spec.task))
    >>> with_name(ExportSpec(), "bert") == with_name("bert")(ExportSpec())
    True
    """

    @wraps(function)
    def edit(*arguments: Any, **keywords: Any) -> Any:
        if arguments and isinstance(arguments[0], ExportSpec):
            return function(*arguments, **keywords)
        if (problem := wrong_type(function, (ExportSpec(), *arguments), keywords)) is not None:
            raise problem
        signature(function).bind(ExportSpec(), *arguments, **keywords)  # Python's own error for too many or too few

        def change(spec: ExportSpec) -> ExportSpec:
            if not isinstance(spec, ExportSpec):
                raise InvalidSpec(f"{function.__name__} changes an ExportSpec, not {type(spec).__name__}")
            return public(function)(spec, *arguments, **keywords)

        change.__name__ = function.__name__
        return change

    return edit


def pipe(spec: ExportSpec, *edits: Callable[[ExportSpec], ExportSpec]) -> ExportSpec:
    """The spec after the edits, in this order: `pipe(spec, f, g) == g(f(spec))`.

    Args:
        spec: A spec.
        edits: Functions from spec to spec, such as edits that are called without a spec.

    >>> from onnxfn import with_opset
    >>> pipe(ExportSpec(), with_opset(21)).target.opset
    21
    """
    return reduce(lambda edited, edit: edit(edited), edits, spec)
