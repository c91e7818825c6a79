"""The sizes of the outputs of a trace, as formulas of the sizes of its inputs."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.capture.capture import exported_program, tracing
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axes import terms, value
from onnxfn.specs.errors import CaptureFailed, InvalidSpec

LARGEST_DENOMINATOR = 1024
"""Scales of a size with a larger one, such as 0.3, are rounded by torch."""


def output_formulas(model: Any, part: Part) -> tuple[tuple[str, ...], ...]:
    """The size of each axis of the outputs of a part, from a trace: a number, or a text that may be a formula.

    The notation of axes has no words for some, such as sizes that depend on values. None if torch cannot trace the part.
    """
    import sympy

    try:
        with tracing(model, part):
            program = exported_program(model, part)
    except (CaptureFailed, InvalidSpec):
        return ()
    inputs = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"][-len(part.inputs) :]
    names = {
        tensor.shape[index].node.expr: value(
            symbol, {name: sympy.Symbol(name, integer=True, positive=True) for name in terms(symbol)}
        )
        for axes, tensor in zip(part.inputs.values(), inputs, strict=True)
        for index, symbol in axes.items()
    }
    outputs = program.graph.output_node().args[0][-len(part.outputs) :]
    return tuple(tuple(_text(size, names) for size in node.meta["val"].shape) for node in outputs)


def _text(size: Any, names: Mapping[Any, Any]) -> str:
    """A size as Python writes it, with squares as products and without a sign in front."""
    text = str(_in_quotients(size.node.expr, names)) if hasattr(size, "node") else str(size)
    text = re.sub(r"(^|\()-", r"\g<1>0-", re.sub(r"\b(\w+)\*\*2\b", r"(\1*\1)", text))
    return ast.unparse(ast.parse(text)).replace(" ", "")


def _in_quotients(formula: Any, names: Mapping[Any, Any]) -> Any:
    """A formula in the names of the plan, with floor quotients in place of remainders, floors and ceilings."""
    import sympy

    if formula in names or not formula.args:
        exact = sympy.Rational(formula) if formula.is_Float else formula
        return names.get(formula, exact if getattr(exact, "q", 0) <= LARGEST_DENOMINATOR else formula)
    parts = [_in_quotients(part, names) for part in formula.args]
    match type(formula).__name__:
        case "FloorDiv":
            return _floor(*parts)
        case "Mod" | "PythonMod":
            return parts[0] - parts[1] * _floor(*parts)
        case "ToFloat":
            return parts[0]
        case "IntTrueDiv":
            return parts[0] / parts[1]
        case "TruncToInt" | "FloorToInt":
            return _floor(*sympy.fraction(sympy.together(parts[0])))
        case "CeilToInt":
            return -_floor(*sympy.fraction(sympy.together(-parts[0])))
    return formula.func(*parts)


def _floor(dividend: Any, divisor: Any) -> Any:
    """A floor quotient; that of a negative number is a ceiling, which reads better without signs."""
    quotient, sign = torch_name("FloorDiv"), _all_negative(dividend)
    return -quotient(divisor - 1 - dividend, divisor) if sign else quotient(dividend, divisor)


def _all_negative(total: Any) -> bool:
    return all(term.as_coeff_Mul()[0] < 0 for term in total.as_ordered_terms())
