"""Passes to operators that only ONNX Runtime has; they run with `fuse="onnxruntime"`.

GroupQueryAttention is used on request alone (`shared_cache.py`). On a CPU it is no faster than the standard Attention
that reads the past (measured: 63 against 51 microseconds a token, 9 query heads on 3 key heads, 160 tokens in the
past), and it does not accept a past together with several new tokens for several texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.passes.nodes import (
    attribute,
    insert_node,
    is_operator,
    other_operand,
    producer,
    replace_value,
    sole_consumer,
)
from onnxfn.graphs.passes.shapes import is_last_axis, shape_of

DOMAIN = "com.microsoft"

SKIP_NORMS: Mapping[str, str] = MappingProxyType(
    {"RMSNormalization": "SkipSimplifiedLayerNormalization", "LayerNormalization": "SkipLayerNormalization"}
)
"""A norm -> the operator that adds a residual to the output of a layer, and outputs the sum and its norm."""

RANK = 3
"""The number of axes of what a SkipLayerNormalization reads: `[batch, length, size]`."""


def fuse_skip_norm(model: Any) -> Any:
    """Fuses each norm with the residual sum that it reads.

    Before: a fused graph computes `norm(x + y)` of float32 tensors `[batch, length, size]` in two nodes.
    After: this is one SkipLayerNormalization, or SkipSimplifiedLayerNormalization, which also outputs the sum.
    """
    for node in list(model.graph):
        total = producer(node.inputs[0], "Add") if is_operator(node, *SKIP_NORMS) else None
        if total is not None and _accepts(node, total):
            _replace_norm(node, total)
    return model


def _accepts(norm: Any, total: Any) -> bool:
    """Whether the operator accepts a norm and a sum: float32, three axes, both operands of one known shape."""
    import onnx_ir

    shapes = [shape_of(value) for value in (*total.inputs, norm.inputs[0])]
    if len(shapes[0]) != RANK or None in shapes[0] or any(shape != shapes[0] for shape in shapes):
        return False
    is_float32 = norm.inputs[0].dtype == onnx_ir.DataType.FLOAT
    return is_float32 and is_last_axis(attribute(norm, "axis", -1), RANK) and len(norm.outputs) == 1


def _replace_norm(norm: Any, total: Any) -> None:
    summed, output = total.outputs[0], norm.outputs[0]
    outputs = [(output, output.shape), (output, []), (output, []), (summed, summed.shape)]
    operator = f"{DOMAIN}::{SKIP_NORMS[norm.op_type]}"
    inputs = [*total.inputs, *(value for value in norm.inputs[1:] if value is not None)]
    node = insert_node(norm, operator, inputs, outputs, epsilon=attribute(norm, "epsilon", 1e-5))
    replace_value(output, node.outputs[0])
    replace_value(summed, node.outputs[3])


def drop_unused_outputs(model: Any) -> Any:
    """Removes the names of unused outputs of ONNX Runtime's own operators.

    Before: the values of the graph have names.
    After: an output of such an operator that no node reads has no name. ONNX Runtime then does not compute it: a norm
    of 576 numbers takes 7.6 microseconds instead of 10.
    """
    for node in model.graph:
        for value in node.outputs[1:] if node.domain == DOMAIN else ():
            if not value.uses() and not value.is_graph_output():
                value.name = ""
    return model


def fuse_bias_gelu(model: Any) -> Any:
    """Fuses each Gelu with the bias that is added before it.

    Before: a fused graph computes `Gelu(x + bias)` of float32 tensors in two nodes.
    After: this is one BiasGelu, or FastGelu for the approximation by tanh.
    """
    import onnx_ir

    for node in list(model.graph):
        if not is_operator(node, "Gelu") or node.inputs[0].dtype != onnx_ir.DataType.FLOAT:
            continue
        total = producer(node.inputs[0], "Add")
        operands = None if total is None or sole_consumer(node.inputs[0], "Gelu") is not node else _with_bias(total)
        if operands is not None:
            op_type = "FastGelu" if attribute(node, "approximate", "none") == "tanh" else "BiasGelu"
            output = node.outputs[0]
            fused = insert_node(node, f"{DOMAIN}::{op_type}", operands, [(output, output.shape)])
            replace_value(output, fused.outputs[0])
    return model


def _with_bias(total: Any) -> tuple[Any, Any] | None:
    """The operands of a sum, the bias second; None if neither is a vector of the size of the other's last axis."""
    for bias in reversed(total.inputs):
        x = other_operand(total, bias)
        if len(shape_of(bias)) == 1 and len(shape_of(x)) > 1 and shape_of(bias)[0] == shape_of(x)[-1]:
            return x, bias
    return None


def import_domain(model: Any) -> Any:
    """Imports the domain of ONNX Runtime's operators.

    Before: any graph.
    After: a graph with operators of this domain imports the domain.
    """
    if any(node.domain == DOMAIN for node in model.graph.all_nodes()):
        model.opset_imports[DOMAIN] = 1
    return model
