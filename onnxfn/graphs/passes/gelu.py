"""The pass that finds Gelu, which is said in some five nodes below opset 20."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose, pi, sqrt
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.passes.nodes import beside, instead, made, maker, number, reader

CLOSE: Mapping[str, float] = MappingProxyType({"FLOAT": 1e-6, "FLOAT16": 1e-3, "BFLOAT16": 8e-3})
"""How near a constant of a type is to the one it stands for, of its size."""


def activated(model: Any) -> Any:
    """Before: a graph of opset 20 or later. After: `x / 2 * (1 + erf(x / sqrt(2)))`, and its tanh, are one Gelu."""
    for node in list(model.graph):
        if node.op_type in ("Erf", "Tanh"):
            taken = _of_erf(node) if node.op_type == "Erf" else _of_tanh(node)
            given = _halved(node.outputs[0], taken) if taken is not None else None
            if given is not None:
                _replace(node, taken, given)
    return model


def _of_erf(node: Any) -> Any:
    """x, where the node is `erf(x / sqrt(2))`."""
    taken, factor = _times(node.inputs[0])
    return taken if _near(factor, sqrt(0.5), taken) else None


def _of_tanh(node: Any) -> Any:
    """x, where the node is `tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))`."""
    inner, factor = _times(node.inputs[0])
    total = maker(inner, "Add") if _near(factor, sqrt(2 / pi), inner) else None
    if total is None:
        return None
    for taken in total.inputs:
        cube, share = _times(beside(total, taken))
        if _near(share, 0.044715, taken) and _cube(cube, taken):
            return taken
    return None


def _near(told: float, wanted: float, like: Any) -> bool:
    """Whether a constant is another, as near as the type of a value can say it."""
    return isclose(told, wanted, rel_tol=CLOSE.get(like.dtype.name, 1e-9))


def _cube(value: Any, taken: Any) -> bool:
    node = maker(value, "Pow", "Mul")
    if node is not None and node.op_type == "Pow":
        return node.inputs[0] is taken and number(node.inputs[1]) == 3.0  # noqa: PLR2004
    square = None if node is None else maker(beside(node, taken), "Mul", "Pow")
    if square is None or not any(one is taken for one in node.inputs):
        return False
    twice = square.inputs[1] is taken or number(square.inputs[1]) == 2.0  # noqa: PLR2004
    return square.inputs[0] is taken and twice


def _halved(value: Any, taken: Any) -> Any:
    """What is made of one more than a value, times half of x, in whatever order; None when it is not made."""
    node = reader(value, "Add")
    if node is None or number(beside(node, value)) != 1.0:
        return None
    share, done = 1.0, False
    while not (done and _near(share, 0.5, taken)):
        value = node.outputs[0]
        node = reader(value, "Mul")
        if node is None:
            return None
        factor, times = _times(beside(node, value))
        told = number(beside(node, value))
        if told is not None:
            share *= told
        elif not done and any(one is taken for one in (factor, beside(node, value))):
            share, done = share * (times if factor is taken else 1.0), True
        else:
            return None
    return node.outputs[0]


def _times(value: Any) -> tuple[Any, float]:
    """A value as another one times a number, in one node."""
    node = maker(value, "Mul", "Div")
    if node is None:
        return value, 1.0
    left, right = number(node.inputs[0]), number(node.inputs[1])
    if right is not None:
        return node.inputs[0], right if node.op_type == "Mul" else 1 / right
    return (node.inputs[1], left) if left is not None and node.op_type == "Mul" else (value, 1.0)


def _replace(node: Any, taken: Any, given: Any) -> None:
    kind = "none" if node.op_type == "Erf" else "tanh"
    new = made(given.producer(), "Gelu", [taken], [(given, given.shape)], approximate=kind)
    instead(given, new.outputs[0])
