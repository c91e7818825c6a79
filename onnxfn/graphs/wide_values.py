"""The values of a float16 graph that overflow, and the pass that keeps them in float32.

Casts are at the edges only: between nodes that compute in float32 and nodes that compute in float16. A product with a
stored matrix computes in float16 nevertheless, so that no matrix is cast: it reads its input divided by a power of two,
and its result is multiplied by it in float32. Both are exact, but for numbers near the smallest of float16.
"""

from collections.abc import Mapping, Sequence
from math import ceil, inf, log2
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.nodes import nodes
from onnxfn.graphs.nodes.slots import slot_of
from onnxfn.graphs.passes.naming import add_metadata
from onnxfn.graphs.quantization.quantized_slots import quantized_slot_of

LARGEST, MARGIN = 65504.0, 2.0
"""The largest number of float16; and the factor below it from which on values overflow: another text may have more."""

END = 60000.0
"""A bound of a Clip that is at least so large is there because float16 ends."""

WIDE = "float32_values"
"""The metadata of a float16 graph with the values that are kept in float32."""

BIASES: Mapping[str, int] = MappingProxyType(
    {"MatMul": 2, "Gemm": 2, "Conv": 2, "ConvTranspose": 2, "MatMulNBits": 5, "MatMulBnb4": 3}
)
"""The operators that are linear in the input beside a stored matrix, and the index of their bias, if it is there."""

MOVES = (
    *("Gather", "GatherND", "GatherElements", "GatherBlockQuantized", "Slice", "Split"),
    *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Expand"),
)
"""The operators whose results have the elements of their first input."""

Reach = Mapping[str, float]
"""From the name of a value to the largest size of its elements."""


def overflowing_values(model: Any, ranges: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The sizes of float16 values that overflow, by `ranges` in float32; masks, chosen by bools, do not count."""
    sizes, masks, graph, stored = dict[str, float](), set[Any](), model.graph, _stored(model.graph)
    weighted = {each for each in graph.initializers.values() if _parameter(each)}
    weighted |= {each for each in graph.inputs if each.dtype.is_floating_point()}
    for node in graph:
        inputs = {*nodes.all_inputs(node)}
        is_weighted = node.op_type not in ("Shape", "Size") and not weighted.isdisjoint(inputs)
        weighted.update(each for each in node.outputs if is_weighted and getattr(each.dtype, "name", "") != "BOOL")
        for value in node.outputs:
            least, largest = ranges.get(value.name, (0.0, 0.0))
            size, most = max(-least, largest), LARGEST / MARGIN
            if largest <= most < size and not (is_weighted and masks.isdisjoint(inputs)):
                masks.add(value)
            elif most < size < inf and is_weighted and _is_half(value) and value not in stored and not _is_end(value):
                sizes[value.name] = size
    return sizes


def unmeasured_nodes(model: Any) -> list[str]:
    """The nodes of a graph that compute float16 values in subgraphs: these are not among the `overflowing_values`."""
    return nodes.nodes_around(model.graph, lambda node: any(map(_is_half, node.outputs)))


def overflow_text(model: Any, sizes: Reach) -> str:
    """The words for the values of a graph that overflow: the first, the largest, and how many they are."""
    words = {value.name: nodes.module_path(node) or node.op_type for node in model.graph for value in node.outputs}
    names = next(iter(sizes)), max(sizes, key=sizes.__getitem__)
    texts = dict.fromkeys(f"{words[name]} reaches {sizes[name]:.2g}" for name in names)
    more = f" ({len(sizes)} values in all)" if len(sizes) > len(texts) else ""
    return f"{', '.join(texts)}{more}: float16 ends at {LARGEST:.0f}"


def without_clips(model: Any) -> Any:
    """The graph without the bounds of Clip, Min and Max that models have in float16 alone, at its ends."""
    for node in [node for node in model.graph if _is_clip(node)]:
        node.outputs[0].replace_all_uses_with(node.inputs[0])
    return model


def keep_in_float32(model: Any, sizes: Reach) -> Any:
    """Keeps values of a float16 graph in float32.

    Before: a finished graph. `sizes`: the values, as `overflowing_values` finds them.
    After: nodes that compute or read such a value compute in float32, but for products with stored matrices, see above.
    Where others read it, and as an output of the graph, it is float16, with its name. The metadata names the values.
    """
    import onnx_ir
    from onnx_ir.passes import common

    half, single, stored = onnx_ir.DataType.FLOAT16, onnx_ir.DataType.FLOAT, _stored(model.graph)
    wide = {value for node in model.graph for value in node.outputs if value.name in sizes}
    for node in [node for node in model.graph.all_nodes() if not wide.isdisjoint((*node.inputs, *node.outputs))]:
        if _is_clip(node):
            nodes.replace_value(node.outputs[0], node.inputs[0])
        elif (index := _data_index(node, stored)) is not None:
            _scale(node, index, sizes)
        elif node.op_type != "Cast" and not nodes.subgraphs(node):
            inputs = [nodes.cast_value(node, value, single) if _is_half(value) else value for value in node.inputs]
            for old, new in zip(node.outputs, _again(node, inputs, single), strict=True):
                if _is_half(old):
                    nodes.compute_by(old, "Cast", [new], to=half)
                else:
                    nodes.replace_value(old, new)
    for node in [node for node in model.graph.all_nodes() if nodes.producer(node.outputs[0], "Cast")]:
        value, source = node.inputs[0], nodes.producer(node.inputs[0], "Cast")
        if source is not None and value.name in sizes and source.inputs[0].dtype == node.outputs[0].dtype == single:
            nodes.replace_value(node.outputs[0], source.inputs[0])
    for each in (common.CommonSubexpressionEliminationPass(), common.RemoveUnusedNodesPass(), common.NameFixPass()):
        each(model)
    return add_metadata(model, {WIDE: " ".join(sizes)})


def _is_half(value: Any) -> bool:
    return value is not None and value.dtype is not None and value.dtype.name == "FLOAT16"


def _again(node: Any, inputs: Sequence[Any], dtype: Any) -> Any:
    """The outputs of a node with other inputs; those of float16 have a dtype."""
    outputs = [(dtype if _is_half(output) else output, output.shape) for output in node.outputs]
    return nodes.insert_node(node, f"{node.domain}::{node.op_type}", inputs, outputs, **node.attributes).outputs


def _scale(node: Any, index: int, sizes: Reach) -> None:
    """Divides the data of a product, its input of this index, by a power of two, and multiplies the result by it."""
    import onnx_ir

    half, single = onnx_ir.DataType.FLOAT16, onnx_ir.DataType.FLOAT
    inputs, output, bias = list(node.inputs), node.outputs[0], BIASES[node.op_type]
    factor = 2.0 ** -ceil(log2(max(sizes.get(each.name, 0.0) for each in (inputs[index], output)) * MARGIN / LARGEST))
    inputs[index] = nodes.cast_value(node, _times(node, nodes.cast_value(node, inputs[index], single), factor), half)
    if any(inputs[bias : bias + 1]):
        inputs[bias] = _times(node, inputs[bias], factor)
    [result] = _again(node, inputs, half)
    nodes.compute_by(output, "Cast", [_times(node, nodes.cast_value(node, result, single), 1 / factor)], to=half)


def _times(before: Any, value: Any, factor: float) -> Any:
    number = nodes.filled_constant(before.graph, factor, (), value.dtype)
    return nodes.insert_value(before, "Mul", [value, number], value, value.shape)


def _stored(graph: Any) -> set[Any]:
    """The values of a graph whose elements are those of initializers, or computed from initializers alone."""
    stored, constants = {None, *graph.initializers.values()}, {None, *graph.initializers.values()}
    for node in graph:
        constants.update(node.outputs if constants.issuperset(node.inputs) else ())
        stored.update(node.outputs if node.op_type in MOVES and node.inputs[0] in stored else ())
    return stored | constants


def _data_index(node: Any, stored: set[Any]) -> int | None:
    """The index of the input with the data of a product with a stored matrix; None for another node."""
    if node.op_type not in BIASES:
        return None
    matrices = [value in stored and len(nodes.shape_of(value)) > 1 for value in node.inputs[:2]]
    return matrices.index(False) if matrices.count(True) == 1 else None


def _is_clip(node: Any) -> bool:
    """Whether a node limits a value to the numbers of float16."""
    bounds = [value for value in node.inputs[1:] if value is not None]
    return node.op_type in ("Clip", "Min", "Max") and bool(bounds) and all(map(_is_end, bounds))


def _is_end(value: Any) -> bool:
    """Whether a value is an end of float16, or one of several."""
    node, number = value.producer(), nodes.scalar(value)
    if node is None or number is not None:
        return number is not None and END <= abs(number) < inf
    floats = [each for each in node.inputs if each is not None and each.dtype.is_floating_point()]
    return node.op_type in ("Where", "Neg", "Cast") and bool(floats) and all(map(_is_end, floats))


def _parameter(value: Any) -> str:
    """The name of the parameter that an initializer is, or a part of its quantized form; empty for another value."""
    quantized = quantized_slot_of(value)
    slot = slot_of(value) if quantized is None else quantized.slot
    return "" if slot is None else slot.parameter
