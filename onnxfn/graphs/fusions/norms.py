"""The passes that fuse norms: RMSNormalization, LayerNormalization, and a division that ONNX Runtime can fuse."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from onnxfn.graphs.nodes.constants import filled_constant, integers, scalar
from onnxfn.graphs.nodes.nodes import (
    attribute,
    first_output,
    insert_node,
    is_operator,
    other_operand,
    producer,
    replace_value,
    sole_consumer,
)
from onnxfn.graphs.nodes.shapes import is_last_axis, last_size, shape_of
from onnxfn.graphs.passes.opsets import ATTENTION_OPSET

SQUARE = 2
"""The exponent of a square."""


@frozen(eq=False)
class Norm:
    """A norm in a graph: `x / sqrt(mean(x * x) + epsilon) * scale`; the scale is None if there is none."""

    x: Any
    scale: Any
    epsilon: float
    output: Any


def fuse_norms(model: Any) -> Any:
    """Fuses each norm into one operator.

    Before: a graph, converted to its opset, computes `x / sqrt(mean(x * x) + epsilon) * weight` in several nodes.
    After: this is one RMSNormalization from opset 23 on. If x is `y - mean(y)`, it is one LayerNormalization of y. The
    weight is not read: if the graph computes it (`1 + weight`), the nodes for it stay.

    A norm is fused only if it is computed in float32, with or without a Cast to float32 before it: the operators sum in
    float32.
    """
    has_rms_norm = model.opset_imports.get("", 0) >= ATTENTION_OPSET
    for node in list(model.graph):
        norm = _norm(node) if is_operator(node, "ReduceMean") else None
        centered = None if norm is None else _centered(norm.x)
        if norm is not None and (has_rms_norm or centered is not None):
            _replace(norm, centered)
    return model


def fold_reciprocal(model: Any) -> Any:
    """Replaces the product with a reciprocal by a division.

    Before: any graph.
    After: `x * (1 / r)` is `x / r`, with one rounding less. ONNX Runtime then fuses a norm also where the opset has no
    operator for it (SimplifiedLayerNormFusion).
    """
    for node in list(model.graph):
        product = sole_consumer(node.outputs[0], "Mul") if is_operator(node, "Reciprocal") else None
        if product is not None:
            output = product.outputs[0]
            operands = [other_operand(product, node.outputs[0]), node.inputs[0]]
            quotient = insert_node(product, "Div", operands, [(output, output.shape)])
            replace_value(output, quotient.outputs[0])
    return model


def _norm(mean: Any) -> Norm | None:
    """The norm that computes its mean square with this ReduceMean, without its scale if that is not a plain one."""
    x = _squared(mean.inputs[0])
    if x is None or not _is_over_last_axis(mean):
        return None
    epsilon, quotient = _quotient(mean.outputs[0]) or (0.0, None)
    if quotient is None or not any(value is x for value in quotient.inputs):
        return None
    return _scaled_norm(x, epsilon, quotient.outputs[0])


def _squared(value: Any) -> Any:
    """x, if a node computes `x ** 2` or `x * x`; else None."""
    node = producer(value, "Pow", "Mul")
    if node is None:
        return None
    if node.op_type == "Pow":
        return node.inputs[0] if scalar(node.inputs[1]) == SQUARE else None
    return node.inputs[0] if node.inputs[0] is node.inputs[1] else None


def _centered(value: Any) -> Any:
    """y, if nodes compute `y - mean(y)`; else None."""
    node = producer(value, "Sub")
    mean = None if node is None else producer(node.inputs[1], "ReduceMean")
    y = None if mean is None else mean.inputs[0]
    return y if mean is not None and y is node.inputs[0] and _is_over_last_axis(mean) else None


def _is_over_last_axis(mean: Any) -> bool:
    """Whether a ReduceMean reduces the last axis alone, and keeps it with size 1."""
    axes = integers(mean.inputs[1]) if len(mean.inputs) > 1 else None
    if axes is None or len(axes) != 1 or not attribute(mean, "keepdims", 1):
        return False
    return is_last_axis(axes[0], len(shape_of(mean.inputs[0])))


def _quotient(mean: Any) -> tuple[float, Any] | None:
    """The epsilon that is added to a mean square, and the node that divides by the root of the sum."""
    added = sole_consumer(mean, "Add")
    epsilon = 0.0 if added is None else scalar(other_operand(added, mean))
    root = sole_consumer(mean if added is None else added.outputs[0], "Sqrt", "Pow")
    if root is None or epsilon is None:
        return None
    node = _division_by(root)
    return None if node is None else (epsilon, node)


def _division_by(root: Any) -> Any:
    """The Div by `sqrt(v)`, or the Mul with `1 / sqrt(v)` or with `v ** -0.5`; None for other uses of the root."""
    output = root.outputs[0]
    if root.op_type == "Pow":
        return sole_consumer(output, "Mul") if scalar(root.inputs[1]) == -1 / SQUARE else None
    quotient = sole_consumer(output, "Div")
    if quotient is not None:
        return quotient if quotient.inputs[1] is output else None
    return sole_consumer(first_output(sole_consumer(output, "Reciprocal")), "Mul")


def _scaled_norm(x: Any, epsilon: float, output: Any) -> Norm | None:
    """The norm with its weight, in the dtype before a Cast to float32 if a Cast back to that dtype follows."""
    import onnx_ir

    if x.dtype != onnx_ir.DataType.FLOAT:
        return None
    widened, narrowed = producer(x, "Cast"), sole_consumer(output, "Cast")
    if widened is not None and narrowed is not None and narrowed.outputs[0].dtype == widened.inputs[0].dtype:
        x, output = widened.inputs[0], narrowed.outputs[0]
    sizes = shape_of(x)[-1:]
    product = sole_consumer(output, "Mul")
    weight = other_operand(product, output)
    if weight is not None and sizes and shape_of(weight) == sizes and weight.dtype == x.dtype:
        return Norm(x, weight, epsilon, product.outputs[0])
    return None if last_size(x) is None else Norm(x, None, epsilon, output)


def _replace(norm: Norm, centered: Any) -> None:
    last, size = norm.output.producer(), shape_of(norm.x)[-1]
    scale = filled_constant(last.graph, 1.0, [size], norm.x.dtype) if norm.scale is None else norm.scale
    operator, x = ("RMSNormalization", norm.x) if centered is None else ("LayerNormalization", centered)
    outputs = [(norm.output, norm.output.shape)]
    node = insert_node(last, operator, [x, scale], outputs, axis=-1, epsilon=norm.epsilon)
    replace_value(norm.output, node.outputs[0])
