"""Quantized weights of a checkpoint stay quantized: products with them become MatMulNBits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxfn.graphs.nodes.nodes import DOMAIN, import_domain, insert_node, is_operator, replace_value
from onnxfn.graphs.nodes.slots import slot_of
from onnxfn.specs.errors import InvalidSpec
from onnxfn.weights.packed.quantized_checkpoint import QuantizedWeight
from onnxfn.weights.packed.stored_blocks import ROLES, bits_of, block_size, blocks_tensor, scale_dtype, stored_weight


def keep_stored_blocks(model: Any, tensors: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Lets products read quantized weights as a checkpoint stores them.

    Before: all slots are bound to float tensors; parameters that were dequantized have the quantized weight.
    After: where only products read such a parameter, they are MatMulNBits on its integers, scales and zero points,
    whose values are bit-equal to the float tensor. The second result has the names of these parameters.

    InvalidSpec if the dtype of the graph cannot hold the scales.
    """
    names: list[str] = []
    for value in list(model.graph.initializers.values()):
        slot = slot_of(value)
        weight = None if slot is None or slot.perm != (1, 0) else stored_weight(tensors[slot.parameter])
        if slot is not None and weight is not None and _only_products_read(value):
            _replace_products(model, value, weight)
            names.append(slot.parameter)
    return import_domain(model), tuple(names)


def _only_products_read(value: Any) -> bool:
    """Whether a value is the right operand of products, and nothing else."""
    uses = [(use.node, use.idx) for use in value.uses()]
    return not value.is_graph_output() and all(is_operator(node, "MatMul") and index == 1 for node, index in uses)


def _replace_products(model: Any, value: Any, weight: QuantizedWeight) -> None:
    """Lets the products that read a weight read its integers, scales and zero points.

    InvalidSpec if the dtype of the graph has no kernel, or does not hold the scales of the weight.
    """
    dtype = scale_dtype(weight).name
    if value.dtype.name != "FLOAT" and (value.dtype.name, dtype) != ("FLOAT16", "float16"):
        raise InvalidSpec(
            f"{weight.name} has scales in {dtype}, and a graph in {value.dtype.name.lower()} "
            "cannot keep them; export in float32, or dequantize the checkpoint (--dequantize, dequantize=True)"
        )
    inputs = [_initializer(model, value, weight, role) for role in ROLES]
    columns, rows = value.shape
    for node in [use.node for use in value.uses()]:
        output = node.outputs[0]
        product = insert_node(
            node,
            f"{DOMAIN}::MatMulNBits",
            [node.inputs[0], *inputs],
            [(output, output.shape)],
            K=int(columns),
            N=int(rows),
            bits=bits_of(weight),
            block_size=block_size(weight),
            accuracy_level=1,  # computes in float32
        )
        product.outputs[0].name = None if output.is_graph_output() else f"{output.name}_stored"
        replace_value(output, product.outputs[0])
        node.graph.remove(node, safe=True)
    del model.graph.initializers[value.name]


def _initializer(model: Any, value: Any, weight: QuantizedWeight, role: Any) -> Any:
    import onnx_ir

    tensor = blocks_tensor(weight, role, value.dtype)
    tensor.name = f"{value.name}_{role}"
    initializer = onnx_ir.val(tensor.name, const_value=tensor)
    model.graph.register_initializer(initializer)
    return initializer
