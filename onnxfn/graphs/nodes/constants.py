"""Constants of a graph: reads them and adds them. The weights of the model are never read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnxfn.graphs.nodes.nodes import producer


def constant_array(value: Any) -> Any:
    """The elements of a constant of the graph; None for a value that is computed and for a weight of the model."""
    tensor = None if value is None else value.const_value
    if tensor is None or hasattr(getattr(tensor, "raw", None), "untyped_storage"):
        return None
    return tensor.numpy()


def scalar(value: Any) -> float | None:
    """The number of a constant that has one element and is not boolean; else None."""
    array = constant_array(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype != bool else None


def integers(value: Any) -> tuple[int, ...] | None:
    """The elements of a constant as integers; None if the value is not a constant."""
    array = constant_array(value)
    return None if array is None else tuple(int(element) for element in array.reshape(-1))


def unscaled(value: Any) -> tuple[Any, float]:
    """`(x, factor)` for a value that one node computes as `x * factor` or `x / divisor`; else `(value, 1.0)`."""
    node = producer(value, "Mul", "Div")
    if node is None:
        return value, 1.0
    left, right = scalar(node.inputs[0]), scalar(node.inputs[1])
    if node.op_type == "Div":
        return (node.inputs[0], 1 / right) if right else (value, 1.0)
    if right is not None:
        return node.inputs[0], right
    return (node.inputs[1], left) if left is not None else (value, 1.0)


def int_constant(graph: Any, *numbers: int) -> Any:
    """The constant of the graph that holds these integers, of shape [n]; it is added if it is not there."""
    import onnx_ir

    name = f"fused.{'x'.join(map(str, numbers))}"
    return _constant(graph, name, lambda: onnx_ir.tensor(np.array(numbers, dtype=np.int64), name=name))


def filled_constant(graph: Any, number: float, sizes: Sequence[int], dtype: Any) -> Any:
    """The constant of the graph whose elements are all `number`; it is added if it is not there."""
    import onnx_ir

    name = f"fused.{number}.{dtype}.{'x'.join(map(str, sizes))}"
    return _constant(graph, name, lambda: onnx_ir.tensor(np.full(sizes, number, dtype=dtype.numpy()), dtype, name=name))


def byte_constant(graph: Any, numbers: Any) -> Any:
    """The constant of the graph that holds these bytes, an array of uint8; it is added if it is not there."""
    import onnx_ir

    name = f"fused.uint8.{'x'.join(map(str, numbers.reshape(-1)))}.{numbers.ndim}"
    return _constant(graph, name, lambda: onnx_ir.tensor(numbers, name=name))


def _constant(graph: Any, name: str, tensor: Callable[[], Any]) -> Any:
    """The initializer of this name; if there is none, it is added with the tensor that the function returns."""
    import onnx_ir

    if name not in graph.initializers:
        elements = tensor()
        graph.register_initializer(
            onnx_ir.Value(
                name=name, const_value=elements, shape=elements.shape, type=onnx_ir.TensorType(elements.dtype)
            )
        )
    return graph.initializers[name]
