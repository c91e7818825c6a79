"""The pass that fuses GELU: below opset 20 it is about five nodes."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose, pi, sqrt
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.nodes.nodes import (
    insert_node,
    is_operator,
    other_operand,
    producer,
    replace_value,
    scalar,
    sole_consumer,
    unscaled,
)

TOLERANCE: Mapping[str, float] = MappingProxyType({"FLOAT": 1e-6, "FLOAT16": 1e-3, "BFLOAT16": 8e-3})
"""The name of a dtype -> the largest relative difference between a constant of this dtype and its exact value."""

CUBIC = 0.044715
"""The coefficient of x ** 3 in the approximation of GELU by tanh (torch.nn.GELU, approximate="tanh")."""


def fuse_gelu(model: Any) -> Any:
    """Fuses each GELU into one operator.

    Before: a graph of opset 20 or later computes `x / 2 * (1 + erf(x / sqrt(2)))`, or the approximation
    `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`, in several nodes.
    After: this is one Gelu.
    """
    for node in list(model.graph):
        if is_operator(node, "Erf", "Tanh"):
            x = _x_of_erf(node) if node.op_type == "Erf" else _x_of_tanh(node)
            output = None if x is None else _half_x_times_one_plus(node.outputs[0], x)
            if output is not None:
                _replace(node, x, output)
    return model


def _x_of_erf(erf: Any) -> Any:
    """x, if the node is `erf(x / sqrt(2))`; else None."""
    x, factor = unscaled(erf.inputs[0])
    return x if _is_close(factor, sqrt(0.5), x) else None


def _x_of_tanh(tanh: Any) -> Any:
    """x, if the node is `tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))`; else None."""
    inner, factor = unscaled(tanh.inputs[0])
    total = producer(inner, "Add") if _is_close(factor, sqrt(2 / pi), inner) else None
    if total is None:
        return None
    for x in total.inputs:
        cube, coefficient = unscaled(other_operand(total, x))
        if _is_close(coefficient, CUBIC, x) and _is_cube(cube, x):
            return x
    return None


def _is_close(number: float, exact: float, like: Any) -> bool:
    """Whether a constant is an exact number, rounded to the dtype of a value."""
    return like.dtype is not None and isclose(number, exact, rel_tol=TOLERANCE.get(like.dtype.name, 1e-9))


def _is_cube(value: Any, x: Any) -> bool:
    """Whether a value is `x ** 3`, `x * x ** 2` or `x * (x * x)`."""
    node = producer(value, "Pow", "Mul")
    if node is None:
        return False
    if node.op_type == "Pow":
        return node.inputs[0] is x and scalar(node.inputs[1]) == 3.0  # noqa: PLR2004
    return any(factor is x for factor in node.inputs) and _is_square(other_operand(node, x), x)


def _is_square(value: Any, x: Any) -> bool:
    """Whether a value is `x ** 2` or `x * x`."""
    node = producer(value, "Mul", "Pow")
    if node is None or node.inputs[0] is not x:
        return False
    return node.inputs[1] is x or scalar(node.inputs[1]) == 2.0  # noqa: PLR2004


def _half_x_times_one_plus(value: Any, x: Any) -> Any:
    """The product of `1 + value`, x and 0.5, in whatever order they are multiplied; None if there is none.

    Follows the products from `1 + value` on. A factor is a number, x, or x times a number.
    """
    node = sole_consumer(value, "Add")
    if node is None or scalar(other_operand(node, value)) != 1.0:
        return None
    total, share, has_x = node.outputs[0], 1.0, False
    while not (has_x and _is_close(share, 0.5, x)):
        node = sole_consumer(total, "Mul")
        if node is None:
            return None
        factor = other_operand(node, total)
        number = scalar(factor)
        if number is None:
            number = None if has_x else _share_of_x(factor, x)
            has_x = True
        if number is None:
            return None
        total, share = node.outputs[0], share * number
    return total


def _share_of_x(value: Any, x: Any) -> float | None:
    """The number by which a value is a multiple of x: 1.0 for x itself; None if it is not a multiple."""
    if value is x:
        return 1.0
    source, factor = unscaled(value)
    return factor if source is x else None


def _replace(node: Any, x: Any, output: Any) -> None:
    approximate = "none" if node.op_type == "Erf" else "tanh"
    gelu = insert_node(output.producer(), "Gelu", [x], [(output, output.shape)], approximate=approximate)
    replace_value(output, gelu.outputs[0])
