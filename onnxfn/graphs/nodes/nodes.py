"""Nodes of ONNX graphs: searched, made, replaced; their constants and shapes; the errors of passes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Any

import numpy as np

from onnxfn.specs.errors import CaptureFailed, errors_as, first_line

DOMAIN = "com.microsoft"
"""The domain of the operators that only ONNX Runtime has."""


def producer(value: Any, *op_types: str) -> Any:
    """The node that computes a value, if its operator is one of `op_types` of the ONNX domain; else None."""
    node = None if value is None else value.producer()
    return node if node is not None and is_operator(node, *op_types) else None


def sole_consumer(value: Any, *op_types: str) -> Any:
    """The only node that reads the elements of a value, if it is one of `op_types`; None for an output of the graph."""
    if value is None:
        return None
    nodes = [use.node for use in value.uses() if use.node.op_type != "Shape"]
    if len(nodes) != 1 or value.is_graph_output():
        return None
    return nodes[0] if is_operator(nodes[0], *op_types) else None


def is_operator(node: Any, *op_types: str) -> bool:
    """Whether a node calls one of these operators of the ONNX domain."""
    return node.op_type in op_types and node.domain == ""


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """The value of an attribute of a node, or `default` if the node does not have the attribute."""
    attr = node.attributes.get(name)
    return default if attr is None else attr.value


def first_input(node: Any) -> Any:
    """The first input of a node; None for no node."""
    return None if node is None else node.inputs[0]


def first_output(node: Any) -> Any:
    """The first output of a node; None for no node."""
    return None if node is None else node.outputs[0]


def other_operand(node: Any, operand: Any) -> Any:
    """The other operand of a node with two operands; None for no node."""
    if node is None:
        return None
    return node.inputs[1] if node.inputs[0] is operand else node.inputs[0]


def all_inputs(node: Any) -> Iterator[Any]:
    """The inputs of a node, then the values of the outer graph that the subgraphs of the node read."""
    yield from (value for value in node.inputs if value is not None)
    for graph in subgraphs(node):
        inner = {*graph.inputs, *(value for inner_node in graph for value in inner_node.outputs)}
        yield from (value for inner_node in graph for value in all_inputs(inner_node) if value not in inner)
        yield from (value for value in graph.outputs if value not in inner)


def subgraphs(node: Any) -> list[Any]:
    """The subgraphs of a node by the names of its attributes: the branches of an If, the body of a Loop or a Scan."""
    return [graph for name in sorted(node.attributes) for graph in attribute_graphs(node.attributes[name])]


def nodes_around(graph: Any, is_wanted: Callable[[Any], bool]) -> list[str]:
    """The operators and names of the nodes of a graph whose subgraphs have a wanted node: `If 'node_if_3'`."""
    inner = ((node, each) for node in graph for of_node in subgraphs(node) for each in nodes_inside_out(of_node))
    return [*dict.fromkeys(f"{node.op_type} {node.name!r}" for node, each in inner if is_wanted(each))]


def module_path(node: Any) -> str:
    """The path of the module that a node is named after: `encoder.layer.0` of `encoder.layer.0/Add_1`."""
    return (node.name or "").rpartition("/")[0]


def node_name(module: str, op_type: str) -> str:
    """The name of the first node of an operator in a module: `encoder.layer.0/Add`; `Add` in the model itself."""
    return f"{module}/{op_type}" if module else op_type


def nodes_inside_out(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, each after the nodes of its subgraphs."""
    for node in graph:
        for inner in subgraphs(node):
            yield from nodes_inside_out(inner)
        yield node


def attribute_graphs(attr: Any) -> list[Any]:
    """The graphs that one attribute holds."""
    return [attr.value] if attr.type.name == "GRAPH" else list(attr.value) if attr.type.name == "GRAPHS" else []


def insert_node(
    before: Any, operator: str, inputs: Sequence[Any], outputs: Sequence[tuple[Any, Any]], **attributes: Any
) -> Any:
    """Inserts an operator, `"Add"` or `"com.microsoft::MatMulNBits"`, before a node; None is a left-out input."""
    # `outputs`: for each output its dtype or a value of this dtype, and its sizes; None for an unknown shape.
    import onnx_ir

    domain, _, op_type = operator.rpartition("::")
    source = dict(before.metadata_props)
    node = onnx_ir.node(op_type, [*inputs], attributes, domain=domain, num_outputs=len(outputs), metadata_props=source)
    for output, (like, sizes) in zip(node.outputs, outputs, strict=True):
        output.type = onnx_ir.TensorType(like) if isinstance(like, onnx_ir.DataType) else like.type
        output.shape = None if sizes is None else onnx_ir.Shape(list(sizes))
    before.graph.insert_before(before, node)
    node.name = node_name(module_path(before), node.name)  # its own name, which the graph gave it
    return node


def insert_value(before: Any, operator: str, inputs: Sequence[Any], like: Any, sizes: Any, **attributes: Any) -> Any:
    """The output of a new node with one output; see `insert_node`."""
    return insert_node(before, operator, inputs, [(like, sizes)], **attributes).outputs[0]


def cast_value(before: Any, value: Any, dtype: Any) -> Any:
    """A value in another dtype, by a Cast."""
    return insert_value(before, "Cast", [value], dtype, value.shape, to=dtype)


def compute_by(output: Any, operator: str, inputs: Sequence[Any], **attributes: Any) -> None:
    """Computes an output of a node by another node, which is inserted before it and takes its name."""
    value = insert_value(output.producer(), operator, inputs, output, output.shape, **attributes)
    name, output.name = output.name, None
    replace_value(output, value)
    value.name = name


def import_domain(model: Any) -> Any:
    """Imports the domain of ONNX Runtime's operators into a graph that has some."""
    if any(node.domain == DOMAIN for node in model.graph.all_nodes()):
        model.opset_imports[DOMAIN] = 1
    return model


def merge_equal_nodes(model: Any) -> Any:
    """Computes once what equal nodes compute, and puts the nodes in topological order."""
    from onnx_ir.passes import common

    model.graph.sort()
    return common.CommonSubexpressionEliminationPass()(model).model


def replace_value(old: Any, new: Any) -> None:
    """Lets all nodes read `new` where they read `old`; if `old` is an output of the graph, `new` gets its name."""
    if old.is_graph_output():
        name, old.name = old.name, None
        new.name = name
    old.replace_all_uses_with(new, replace_graph_outputs=True)


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
    """A value as another one times a number, over any number of nodes `x * factor` and `x / divisor`."""
    node = producer(value, "Mul", "Div")
    left, right = (None, None) if node is None else map(scalar, node.inputs)
    if right is not None and (right or node.op_type == "Mul"):
        operand, factor = node.inputs[0], right if node.op_type == "Mul" else 1 / right
    elif left is not None and node.op_type == "Mul":
        operand, factor = node.inputs[1], left
    else:
        return value, 1.0
    source, scale = unscaled(operand)
    return source, scale * factor


def int_constant(graph: Any, *numbers: int) -> Any:
    """The constant of the graph that holds these integers, of shape [n]; it is added if it is not there."""
    return constant(graph, np.array(numbers, dtype=np.int64))


def filled_constant(graph: Any, number: float, sizes: Sequence[int], dtype: Any) -> Any:
    """The constant of the graph whose elements are all `number`; it is added if it is not there."""
    return constant(graph, np.full(sizes, number, dtype=dtype.numpy()))


def constant(graph: Any, numbers: Any) -> Any:
    """The constant of the graph that holds this array; it is added if it is not there."""
    import onnx_ir

    name = f"fused.{numbers.dtype}{numbers.shape}.{sha256(numbers.tobytes()).hexdigest()}"
    if name not in graph.initializers:
        graph.register_initializer(onnx_ir.val(name, const_value=onnx_ir.tensor(numbers, name=name)))
    return graph.initializers[name]


def pass_errors(step: str) -> AbstractContextManager[None]:
    """Raises CaptureFailed for any error inside; its message names the step and the error."""
    return errors_as(lambda error: CaptureFailed(f"{step} failed: {type(error).__name__}: {first_line(error)}"))


SWAP_HEADS = (0, 2, 1, 3)
"""The permutation from `[batch, length, heads, size]` to `[batch, heads, length, size]`, and back."""

STEPS = 4
"""The index of the steps in the inputs of a Slice: data, starts, ends, axes, steps."""

Slice = tuple[Any, tuple[int, int, int]]
"""A slice along the last axis: the tensor that is sliced, and the start, end and step of the slice."""


def shape_of(value: Any) -> tuple[Any, ...]:
    """The sizes of a value: an integer or a symbol for each axis, None for an unknown size, () for an unknown shape."""
    sizes = () if value is None or value.shape is None else value.shape
    return tuple(size if isinstance(size, int) else size.value for size in sizes)


def last_size(value: Any) -> int | None:
    """The size of the last axis of a value if it is an integer; else None."""
    sizes = shape_of(value)
    return sizes[-1] if sizes and isinstance(sizes[-1], int) else None


def is_last_axis(axis: int | None, rank: int) -> bool:
    """Whether an axis is the last of `rank` axes."""
    return axis in (-1, rank - 1)


def slice_of(value: Any, size: int) -> Slice | None:
    """The slice or Split that computes a value, if the last axis of its input has `size` elements; else None."""
    node = producer(value, "Slice", "Split")
    if node is None or shape_of(node.inputs[0])[-1:] != (size,):
        return None
    return _split_slice(node, value) if node.op_type == "Split" else _plain_slice(node, size)


def _plain_slice(node: Any, size: int) -> Slice | None:
    if len(node.inputs) < STEPS:
        return None  # no axes are given
    starts, ends, axes = map(integers, node.inputs[1:STEPS])
    steps = integers(node.inputs[STEPS]) if len(node.inputs) > STEPS else (1,)
    if axes is None or len(axes) != 1 or not is_last_axis(axes[0], len(shape_of(node.inputs[0]))):
        return None
    if not starts or not ends or not steps or steps[0] == 0:
        return None
    return node.inputs[0], slice(starts[0], ends[0], steps[0]).indices(size)


def _split_slice(node: Any, value: Any) -> Slice | None:
    widths = [size for output in node.outputs for size in shape_of(output)[-1:] if isinstance(size, int)]
    if not is_last_axis(attribute(node, "axis", 0), len(shape_of(node.inputs[0]))) or len(widths) < len(node.outputs):
        return None
    start = sum(widths[: value.index()])
    return node.inputs[0], (start, start + widths[value.index()], 1)


def read_axis(shape: Any) -> int | None:
    """The axis that a Shape node reads; None if it reads several, or counts from the end."""
    start, end = attribute(shape, "start", 0), attribute(shape, "end")
    return start if end == start + 1 and start >= 0 else None


def size_tensor(before: Any, size: Any, fallback: Any = None) -> Any:
    """A size as a tensor `[1]`; a symbol is read from the first input with it, or `fallback`, a value and an axis."""
    graph = before.graph
    if isinstance(size, int):
        return int_constant(graph, size)
    inputs = (value for value in graph.inputs if size is not None and size in shape_of(value))
    value, axis = next(((value, shape_of(value).index(size)) for value in inputs), fallback)
    return insert_value(before, "Shape", [value], int_constant(graph, 0), (1,), start=axis, end=axis + 1)


def flatten_heads(before: Any, value: Any) -> Any:
    """A tensor `[batch, length, heads, size]` as `[batch, length, heads * size]`; a new one only if there is none."""
    batch, length, heads, size = shape_of(value)
    reshape = producer(value, "Reshape")
    if reshape is not None and shape_of(reshape.inputs[0]) == (batch, length, heads * size):
        return reshape.inputs[0]
    sizes = int_constant(before.graph, 0, 0, heads * size)
    return insert_value(before, "Reshape", [value, sizes], value, (batch, length, heads * size))
