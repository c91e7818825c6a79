"""The sizes of the outputs of a trace, as formulas of the sizes of its inputs."""

import ast
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.capture.capture import any_program, tracing
from onnxfn.graphs.capture.trace_conditions import input_sizes
from onnxfn.graphs.capture.trace_settings import Noted
from onnxfn.specs.algebra.dummies import with_sizes_as_axes
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axes import axis, terms, value
from onnxfn.specs.errors import InvalidSpec


def output_words(model: Any, part: Part) -> tuple[tuple[str, ...], ...]:
    """A word of a pattern for each axis of the outputs of a part, from a trace: a number, or a formula of the inputs.

    A word is in brackets where the notation has no formula for a size. CaptureFailed if torch cannot trace the part.
    """
    import sympy

    part = with_sizes_as_axes(part)
    noted: Noted = {}
    with tracing(model, part, noted):
        program, _ = any_program(model, part, noted)
    symbols = {size.node.expr: symbol for symbol, size in input_sizes(program, part)}
    names = {name: sympy.Symbol(name, integer=True, positive=True) for each in symbols.values() for name in terms(each)}
    known = {expression: value(symbol, names) for expression, symbol in symbols.items()}
    outputs = program.graph.output_node().args[0][-len(part.outputs) :]
    return tuple(tuple(_word(size, known) for size in node.meta["val"].shape) for node in outputs)


def _word(size: Any, known: Mapping[Any, Any]) -> str:
    """The word of a size. Squares are products, and a minus has a 0 before it."""
    if not hasattr(size, "node"):
        return str(size)
    formula = _in_quotients(size.node.expr, known)
    if formula.free_symbols <= {name for each in known.values() for name in each.free_symbols}:
        text = re.sub(r"(^|\()-", r"\g<1>0-", re.sub(r"\b(\w+)\*\*2\b", r"(\1*\1)", str(formula)))
        with suppress(InvalidSpec):
            return axis(ast.unparse(ast.parse(text))).symbol.replace(" ", "")
    return f"[{formula}]"


def _in_quotients(formula: Any, known: Mapping[Any, Any]) -> Any:
    """A formula of known sizes, with floor quotients in place of remainders and of ceilings."""
    if formula in known or not formula.args:
        return known.get(formula, formula)
    return _RULES.get(type(formula).__name__, formula.func)(*(_in_quotients(part, known) for part in formula.args))


def _floor(dividend: Any, divisor: Any) -> Any:
    """A floor quotient. That of a negative number is a ceiling, which reads better without its sign."""
    quotient = torch_name("FloorDiv")
    is_negative = all(term.as_coeff_Mul()[0] < 0 for term in dividend.as_ordered_terms())
    return -quotient(divisor - 1 - dividend, divisor) if is_negative else quotient(dividend, divisor)


def _remainder(dividend: Any, divisor: Any) -> Any:
    return dividend - divisor * _floor(dividend, divisor)


_RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "FloorDiv": _floor,
        "Mod": _remainder,
        "PythonMod": _remainder,
        "IntTrueDiv": lambda dividend, divisor: dividend / divisor,
        "FloorToInt": lambda size: _floor(*size.as_numer_denom()),
        "CeilToInt": lambda size: -_floor(*(-size).as_numer_denom()),
    }
)
"""Function of torch's formulas -> the same in quotients."""
