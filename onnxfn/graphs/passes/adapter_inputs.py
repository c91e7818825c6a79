"""The pass that adds the inputs of LoRA adapters to a graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxfn.graphs.nodes.nodes import attribute, insert_value, is_operator, replace_value, shape_of, sole_consumer
from onnxfn.graphs.nodes.slots import slot_of
from onnxfn.specs.errors import CaptureFailed

RANK = "lora_r"
"""The axis of the rank of an adapter. Each layer has its own: an adapter may leave layers out, or differ in rank."""

SUFFIXES = (".lora_A.weight", ".lora_B.weight")
"""The ends of the names of the inputs of a layer."""


def add_adapter_inputs(model: Any, layers: Sequence[str]) -> Any:
    """Adds the inputs of a LoRA adapter for some linear layers.

    Before: a finished graph, whose parameters are slots.
    After: it has two more inputs, with empty defaults, for each layer whose name is, or ends with, one of `layers`. The
    product of the layer's input with both is added. CaptureFailed if another operator than a product reads its weight.
    """
    for value in list(model.graph.initializers.values()):
        slot = slot_of(value)
        layer = "" if slot is None else slot.parameter.removesuffix(".weight")
        if slot is not None and layer != slot.parameter and is_selected(layer, layers):
            products = [_product(layer, value, use.node) for use in value.uses()]
            is_transposed = products[0].inputs[1] is not value or bool(attribute(products[0], "transB", 0))
            features_in, features_out = shape_of(value)[::-1] if is_transposed else shape_of(value)
            a = _port(model.graph, f"{layer}{SUFFIXES[0]}", value.dtype, (features_in, f"{layer}.{RANK}"))
            b = _port(model.graph, f"{layer}{SUFFIXES[1]}", value.dtype, (f"{layer}.{RANK}", features_out))
            for product in products:
                _add_branch(product, a, b)
    model.graph.sort()
    return model


def is_selected(layer: str, ends: Sequence[str]) -> bool:
    """Whether the name of a layer is one of some names, or ends with one of them.

    >>> is_selected("layers.0.q_proj", ("q_proj",)), is_selected("layers.0.q_proj", ("proj",))
    (True, False)
    """
    return any(f".{layer}".endswith(f".{end}") for end in ends)


def adapter_ports(model: Any) -> tuple[str, ...]:
    """The names of the inputs of a graph that an adapter has."""
    return tuple(value.name for value in model.graph.inputs if value.name.endswith(SUFFIXES))


def _product(layer: str, weight: Any, node: Any) -> Any:
    """The product of a layer, which reads its weight, maybe after a Transpose."""
    product = sole_consumer(node.outputs[0], "MatMul") if is_operator(node, "Transpose") else node
    read = weight if product is node else node.outputs[0]
    if product is None or not is_operator(product, "MatMul", "Gemm") or product.inputs[1] is not read:
        problem = f"{node.op_type} reads its weight; name linear layers alone"
        raise CaptureFailed(f"{layer} cannot have the inputs of an adapter: {problem}")
    return product


def _port(graph: Any, name: str, dtype: Any, shape: tuple[int | str, ...]) -> Any:
    """One more input of a graph, with an empty default."""
    import onnx_ir

    empty = np.zeros([size if isinstance(size, int) else 0 for size in shape], dtype.numpy())
    value = onnx_ir.Value(name=name, shape=onnx_ir.Shape(shape), type=onnx_ir.TensorType(dtype))
    value.const_value = onnx_ir.Tensor(empty, dtype=dtype, name=name)
    graph.inputs.append(value)
    graph.initializers.add(value)
    return value


def _add_branch(product: Any, a: Any, b: Any) -> None:
    """Adds the product of a layer's input with an adapter to the output of the layer."""
    source, output = product.inputs[0], product.outputs[0]
    sizes = None if source.shape is None else (*source.shape[:-1], b.shape[0])
    narrow = insert_value(product, "MatMul", [source, a], output, sizes)
    branch = insert_value(product, "MatMul", [narrow, b], output, output.shape)
    total = insert_value(product, "Add", [output, branch], output, output.shape)
    replace_value(output, total)
    total.producer().replace_input_with(0, output)  # where it now reads itself
