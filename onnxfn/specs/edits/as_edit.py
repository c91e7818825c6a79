"""`as_edit`: lets an edit be called without a spec. It then returns a function of a spec, for `toolz.pipe`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from onnxfn.specs.axes import AxisMap
from onnxfn.specs.errors import InvalidSpec, shortened
from onnxfn.specs.quantization import CONDITIONS
from onnxfn.specs.spec import ExportSpec

SpecEdit = Callable[[ExportSpec], ExportSpec]
"""A function from a spec to another spec."""

ARGUMENTS = (str, int, float, tuple, AxisMap, type(None), *CONDITIONS)
"""The types of the arguments of edits after the spec."""


def as_edit(function: Callable[..., ExportSpec]) -> Callable[..., Any]:
    """The edit, callable with a spec and without: `edit(spec, value) == edit(value)(spec)`.

    A call with arguments that the edit does not take is an InvalidSpec that shows the right call.

    >>> with_name = as_edit(lambda spec, name: ExportSpec(name=name, task=spec.task))
    >>> with_name(ExportSpec(), "bert") == with_name("bert")(ExportSpec())
    True
    """

    @wraps(function)
    def edit(*arguments: Any, **keywords: Any) -> Any:
        has_spec = bool(arguments) and isinstance(arguments[0], ExportSpec)
        others = arguments[1:] if has_spec else arguments
        _check_arguments(function, others, keywords)
        if has_spec:
            return function(*arguments, **keywords)

        def change(spec: ExportSpec) -> ExportSpec:
            if not isinstance(spec, ExportSpec):
                raise InvalidSpec(f"{change.__name__} changes an ExportSpec, not {type(spec).__name__}")
            return function(spec, *arguments, **keywords)

        change.__name__ = f"{function.__name__}({_written(arguments, keywords)})"
        return change

    return edit


def _check_arguments(function: Callable[..., ExportSpec], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Raises InvalidSpec if an edit does not take these arguments after the spec."""
    signature = inspect.signature(function)
    parameters = [_word(parameter) for parameter in signature.parameters.values()]
    usage = f"write {function.__name__}({', '.join(parameters)})"
    if any(isinstance(argument, ExportSpec) for argument in arguments):
        raise InvalidSpec(f"{function.__name__} takes one ExportSpec, and the spec comes first; {usage}")
    strange = [argument for argument in arguments if not isinstance(argument, ARGUMENTS)]
    if strange:
        raise InvalidSpec(
            f"{function.__name__} takes an ExportSpec and then texts and numbers, not the "
            f"{type(strange[0]).__name__} {shortened(strange[0])}; {usage}"
        )
    try:
        signature.bind(ExportSpec(), *arguments, **keywords)
    except TypeError as problem:
        raise InvalidSpec(f"{function.__name__} does not take these arguments: {problem}; {usage}") from None


def _word(parameter: inspect.Parameter) -> str:
    """A parameter as a call has it: `opset`, `atol=...`, `name, ...`, `name=..., ...`."""
    match parameter.kind:
        case parameter.VAR_POSITIONAL:
            return f"{parameter.name.removesuffix('s')!r}, ..."
        case parameter.VAR_KEYWORD:
            return "name=..., ..."
        case parameter.KEYWORD_ONLY:
            return f"{parameter.name}=..."
    return parameter.name


def _written(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """The arguments of a call, as Python writes them."""
    return ", ".join([*map(shortened, arguments), *(f"{name}={shortened(value)}" for name, value in keywords.items())])
