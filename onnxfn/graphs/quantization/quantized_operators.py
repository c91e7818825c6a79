"""The nodes that read a weight, and the operators on quantized weights in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.graphs.nodes.nodes import (
    DOMAIN,
    attribute,
    cast_value,
    constant,
    filled_constant,
    insert_node,
    insert_value,
    int_constant,
    is_operator,
    replace_value,
    shape_of,
)
from onnxfn.specs.quantization import ReadingOperator, WeightRule
from onnxfn.weights.onnxruntime_kernels import NF4
from onnxfn.weights.quantized import MATRIX_RANK, channel_axis

BYTE = 8
"""The bits of the type that holds codes."""


@frozen(eq=False)
class StoredWeight:
    """A quantized weight in the outer graph; `dtype` is the one that its operators compute in.

    `shape`: `[rows, columns]` for blocks. `tensors`: the values that hold its codes, scales and zero points.
    """

    graph: Any
    rule: WeightRule
    shape: tuple[int, ...]
    tensors: Mapping[str, Any]
    dtype: Any


def with_cast_scales(weight: StoredWeight, reads: Sequence[Read]) -> StoredWeight:
    """The weight with scales in the dtype that the operators compute in; they are stored in float16."""
    scales = weight.tensors["scales"]
    if scales.dtype == weight.dtype:
        return weight
    nodes = [read.node for read in reads]
    if any(node.graph is not weight.graph for node in nodes):  # in a graph within this one
        nodes = [weight.graph[0]]
    # ONNX Runtime computes the Cast once, when it loads the graph. Without its optimizations it computes the Cast at
    # each run. So the Cast comes right before the first node that reads the weight: few scales are in memory at once.
    first = nodes[0] if len(nodes) == 1 else next(node for node in weight.graph if node in nodes)
    return evolve(weight, tensors={**weight.tensors, "scales": cast_value(first, scales, weight.dtype)})


def _matmul_of_blocks(weight: StoredWeight, node: Any) -> None:
    (rows, columns), rule = weight.shape, weight.rule
    level = {"accuracy_level": rule.accuracy_level} if rule.accuracy_level else {}
    of_blocks = ("MatMulNBits", {"bits": rule.bits, **level})
    operator, own = ("MatMulBnb4", {"quant_type": NF4}) if rule.kind == "nf4" else of_blocks
    attributes = {"K": columns, "N": rows, "block_size": rule.block_size, **own}
    inputs = [node.inputs[0], *weight.tensors.values()]
    _finish_product(node, insert_value(node, f"{DOMAIN}::{operator}", inputs, *_like(node), **attributes))


def _conv_of_integers(weight: StoredWeight, node: Any) -> None:
    product = _integer_product(weight, node, "ConvInteger", **node.attributes)
    bias = node.inputs[2] if len(node.inputs) > 2 else None  # noqa: PLR2004 - data, weight, bias
    if bias is not None:
        axes = int_constant(weight.graph, *range(1, len(weight.shape) - 1))
        bias = insert_value(node, "Unsqueeze", [bias, axes], bias, (*shape_of(bias), *(1 for _ in weight.shape[2:])))
    _finish(node, product, bias)


def _matmul_of_dequantized(weight: StoredWeight, node: Any) -> None:
    _finish_product(node, insert_value(node, "MatMul", [node.inputs[0], _dequantized(weight, node)], *_like(node)))


def _conv_of_dequantized(weight: StoredWeight, node: Any) -> None:
    inputs = [node.inputs[0], _dequantized(weight, node), *node.inputs[2:]]
    _finish(node, insert_value(node, "Conv", inputs, *_like(node), **node.attributes))


def _dequantized(weight: StoredWeight, node: Any) -> Any:
    """The floats of a weight, before a node. Each reader has its own: ONNX Runtime fuses the two, but in no branch."""
    axis, before = channel_axis(weight.rule, len(weight.shape)), node if node.graph is weight.graph else weight.graph[0]
    return insert_value(before, "DequantizeLinear", [*weight.tensors.values()], weight.dtype, weight.shape, axis=axis)


def _integer_product(weight: StoredWeight, node: Any, operator: str, **attributes: Any) -> Any:
    """The scaled product of a quantized input and of a weight of integers."""
    import onnx_ir

    output, tensors = node.outputs[0], weight.tensors
    quantized, scale, zero_point = _quantized_input(node.inputs[0], node)
    inputs = [quantized, tensors["codes"], zero_point, tensors["zero_points"]]
    product = insert_value(node, operator, inputs, onnx_ir.DataType.INT32, output.shape, **attributes)
    factor = insert_value(node, "Mul", [scale, tensors["scales"]], output, shape_of(tensors["scales"]))
    return insert_value(node, "Mul", [cast_value(node, product, onnx_ir.DataType.FLOAT), factor], *_like(node))


def _quantized_input(source: Any, reader: Any) -> Sequence[Any]:
    """The outputs of the DynamicQuantizeLinear that reads a value; several products share it."""
    from onnx_ir import DataType

    for use in source.uses():
        if is_operator(use.node, "DynamicQuantizeLinear") and use.node.graph is reader.graph:
            return list(use.node.outputs)
    first = next(node for node in reader.graph if source in node.inputs)
    outputs = [(DataType.UINT8, source.shape), (DataType.FLOAT, ()), (DataType.UINT8, ())]
    return list(insert_node(first, "DynamicQuantizeLinear", [source], outputs).outputs)


def _lookup(weight: StoredWeight, node: Any) -> None:
    """A lookup of rows by operators of ONNX; one of matrices, such as those of experts, by a single operator."""
    output = node.outputs[0]
    if "MoE" in node.op_type:
        _experts_of_blocks(weight, node)
        return
    if len(weight.shape) > MATRIX_RANK or output.shape is None:
        _gather_of_blocks(weight, node)
        return
    # The web build of ONNX Runtime has no GatherBlockQuantized for bytes.
    indices, outer, rule = _indices(weight, node), shape_of(output)[:-1], weight.rule
    blocks = weight.tensors["scales"].shape[-1]
    codes = _gathered(weight, node, indices, "codes", outer)
    numbers = _as_numbers(weight, node, codes, (*outer, blocks, shape_of(codes)[-1]))
    inner = 1 if rule.bits == BYTE else 2
    scales = _with_axes(weight, node, _gathered(weight, node, indices, "scales", outer), inner)
    zero: Any = filled_constant(weight.graph, float(1 << (rule.bits - 1)), (), weight.dtype)
    if "zero_points" in weight.tensors:
        points = _gathered(weight, node, indices, "zero_points", outer)
        zero = _with_axes(weight, node, _points(weight, node, points, (*outer, blocks)), inner)
    distances = insert_value(node, "Sub", [numbers, zero], numbers, shape_of(numbers))
    elements = insert_value(node, "Mul", [distances, scales], numbers, shape_of(numbers))
    width = blocks * rule.block_size
    _finish_lookup(weight, node, _reshaped(weight, node, elements, outer, width), width)


def _experts_of_blocks(weight: StoredWeight, node: Any) -> None:
    """A QMoE of a weight in blocks; until its other matrix is quantized, this is one of floats."""
    rule, inputs = weight.rule, list(node.inputs)
    inputs = inputs if node.op_type == "QMoE" else [*inputs[:3], None, None, inputs[4], None]
    at = 2 if weight.tensors["codes"].name.startswith(inputs[2].name) else 5
    inputs[at : at + 2] = [_flat_codes(weight), weight.tensors["scales"]]
    attributes = {key: each.value for key, each in node.attributes.items()} | {"expert_weight_bits": rule.bits}
    attributes |= {"accuracy_level": rule.accuracy_level} if rule.accuracy_level else {}
    attributes |= {"block_size": rule.block_size, "weights_prepacked": 0}
    _finish(node, insert_value(node, f"{DOMAIN}::QMoE", inputs, *_like(node), **attributes))


def _finish_lookup(weight: StoredWeight, node: Any, rows: Any, width: int) -> None:
    """Puts the rows of a lookup, without the padding of their last block, in the place of the output of a node."""
    own = weight.shape[-1]
    _finish(node, rows if width == own else _first(weight, node, rows, own, node.outputs[0].shape))


def _first(weight: StoredWeight, node: Any, value: Any, count: int, shape: Any) -> Any:
    """The first elements of the last axis of a value."""
    bounds = [int_constant(weight.graph, number) for number in (0, count, -1)]
    return insert_value(node, "Slice", [value, *bounds], value, shape)


def _gathered(weight: StoredWeight, node: Any, indices: Any, role: str, outer: Sequence[Any]) -> Any:
    """The codes, scales or zero points of the rows that a lookup reads."""
    tensor = weight.tensors[role]
    return insert_value(node, "Gather", [tensor, indices], tensor, (*outer, *shape_of(tensor)[1:]), axis=0)


def _as_numbers(weight: StoredWeight, node: Any, data: Any, sizes: Sequence[Any]) -> Any:
    """The codes in bytes as floats; where a byte has several, along one more axis, the first code in the low bits."""
    bits = weight.rule.bits
    if bits != BYTE:
        # OpenVINO 2026.4 rounds a byte that it shifts: the bits of a code are taken first, so that nothing is rounded.
        shifts = np.arange(0, BYTE, bits, dtype=np.uint8)
        masks = constant(weight.graph, np.array((1 << bits) - 1, np.uint8) << shifts)
        sizes, parts = (*sizes, len(shifts)), _with_axes(weight, node, data, 1)
        taken = insert_value(node, "BitwiseAnd", [parts, masks], data, sizes)
        data = insert_value(node, "BitShift", [taken, constant(weight.graph, shifts)], data, sizes, direction="RIGHT")
    return insert_value(node, "Cast", [data], weight.dtype, sizes, to=weight.dtype.value)


def _points(weight: StoredWeight, node: Any, data: Any, sizes: Sequence[Any]) -> Any:
    """The zero points of the blocks of rows, as floats; a byte that holds several may have more than there are."""
    numbers, (*outer, blocks) = _as_numbers(weight, node, data, shape_of(data)), sizes
    if weight.rule.bits == BYTE:
        return numbers
    flat = _reshaped(weight, node, numbers, outer, shape_of(numbers)[-2] * shape_of(numbers)[-1])
    return _first(weight, node, flat, blocks, sizes)


def _with_axes(weight: StoredWeight, node: Any, value: Any, count: int) -> Any:
    """A value with axes of size 1 at its end."""
    axes = int_constant(weight.graph, *range(-count, 0))
    return insert_value(node, "Unsqueeze", [value, axes], value, (*shape_of(value), *[1] * count))


def _reshaped(weight: StoredWeight, node: Any, value: Any, outer: Sequence[Any], width: int) -> Any:
    """A value with its outer axes and one more."""
    sizes = int_constant(weight.graph, *(0 for _ in outer), width)
    return insert_value(node, "Reshape", [value, sizes], value, (*outer, width))


def _gather_of_blocks(weight: StoredWeight, node: Any) -> None:
    rule, output = weight.rule, node.outputs[0]
    width = weight.tensors["scales"].shape[-1] * rule.block_size
    axes = {"gather_axis": 0, "quantize_axis": len(weight.shape) - 1}
    attributes = {"bits": rule.bits, "block_size": rule.block_size, **axes}
    inputs = [_flat_codes(weight), _indices(weight, node), *list(weight.tensors.values())[1:]]
    sizes = None if output.shape is None else (*shape_of(output)[:-1], width)
    rows = insert_value(node, f"{DOMAIN}::GatherBlockQuantized", inputs, output, sizes, **attributes)
    _finish_lookup(weight, node, rows, width)


def _flat_codes(weight: StoredWeight) -> Any:
    """The codes of a table, whose last axis holds all blocks of a row. MatMulNBits wants an axis for the blocks."""
    codes = weight.tensors["codes"]
    for use in codes.uses():
        if is_operator(use.node, "Reshape"):
            return use.node.outputs[0]
    *outer, blocks, size = shape_of(codes)
    shape = int_constant(weight.graph, *outer, blocks * size)
    return insert_value(weight.graph[0], "Reshape", [codes, shape], codes, (*outer, blocks * size))


def _indices(weight: StoredWeight, node: Any) -> Any:
    """The indices of a lookup; those of a GatherND have one more axis."""
    indices = node.inputs[1]
    if node.op_type == "Gather":
        return indices
    return insert_value(node, "Squeeze", [indices, int_constant(weight.graph, -1)], indices, shape_of(indices)[:-1])


def _finish_product(node: Any, product: Any) -> None:
    """Adds what a Gemm adds to its product, and puts the result in the place of the node's."""
    has_sum = node.op_type == "Gemm" and len(node.inputs) > 2  # noqa: PLR2004 - data, weight, bias
    _finish(node, product, node.inputs[2] if has_sum else None)


def _finish(node: Any, new: Any, bias: Any = None) -> None:
    """Puts a new value, plus a bias, in the place of the output of a node."""
    replace_value(node.outputs[0], new if bias is None else insert_value(node, "Add", [new, bias], *_like(node)))


def _like(node: Any) -> tuple[Any, Any]:
    return node.outputs[0], node.outputs[0].shape


REPLACEMENTS: Mapping[tuple[str, str], Callable[[StoredWeight, Any], None]] = MappingProxyType(
    {
        ("blocks", "MatMul"): _matmul_of_blocks,
        ("blocks", "Gather"): _lookup,
        ("dynamic", "MatMul"): lambda read, node: _finish_product(node, _integer_product(read, node, "MatMulInteger")),
        ("dynamic", "Conv"): _conv_of_integers,
        ("static", "MatMul"): _matmul_of_dequantized,
        ("static", "Conv"): _conv_of_dequantized,
        ("nf4", "MatMul"): _matmul_of_blocks,
    }
)
"""The kind of a rule, and the operator that reads the weight -> the function that replaces the node."""


@frozen(eq=False)
class Read:
    """A node that reads a weight, by `MatMul` (also Gemm), `Gather` (also a GatherND that does the same), or `Conv`.

    `rows_first`: the weight has the axes `[rows, columns]`. A product sums over the elements of a row; in a lookup, a
    row belongs to one token. `transpose`: the Transpose between the weight and the node, if there is one.
    """

    operator: ReadingOperator
    node: Any
    rows_first: bool
    transpose: Any = None


def weight_reads(value: Any) -> tuple[tuple[Read, ...], str]:
    """The nodes that read a weight, and the reason why others cannot read codes; an empty text if all can."""
    reads: list[Read] = []
    reason = "it is an input or an output of the graph" if value.is_graph_output() or value.is_graph_input() else ""
    for use in value.uses():
        of_node = _transposed_reads(use.node) if is_operator(use.node, "Transpose") else (_read(use.node, use.idx),)
        reads.extend(read for read in of_node if read is not None)
        if None in of_node or not of_node:
            reason = reason or f"{use.node.op_type} reads it"
    return tuple(reads), reason


def _transposed_reads(transpose: Any) -> tuple[Read | None, ...]:
    """The reads of a transposed weight; None for a node that cannot read codes."""
    output, is_swap = transpose.outputs[0], tuple(attribute(transpose, "perm", (1, 0))) == (1, 0)
    if len(shape_of(transpose.inputs[0])) != MATRIX_RANK or output.is_graph_output() or not is_swap:
        return (None,)
    return tuple(
        Read("MatMul", node, not read.rows_first, transpose) if read and read.operator == "MatMul" else None
        for read, node in ((_read(use.node, use.idx), use.node) for use in output.uses())
    )


def _read(node: Any, index: int) -> Read | None:
    """The Read of a weight by a node as the input of this index; None if the node cannot read codes."""
    rank = len(shape_of(node.inputs[index]))
    if is_operator(node, "MatMul") and index == 1 and rank == MATRIX_RANK and len(shape_of(node.inputs[0])) != 1:
        return Read("MatMul", node, rows_first=False)
    factors = (attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0), attribute(node, "transA", 0))
    if is_operator(node, "Gemm") and index == 1 and factors == (1.0, 1.0, 0):
        return Read("MatMul", node, rows_first=bool(attribute(node, "transB", 0)))
    is_row_lookup = is_operator(node, "Gather") and index == 0 and attribute(node, "axis", 0) == 0
    if (is_row_lookup or "MoE" in node.op_type) and rank >= MATRIX_RANK:  # these look up the matrices of a token
        return Read("Gather", node, rows_first=True)
    if is_operator(node, "GatherND") and index == 0 and attribute(node, "batch_dims", 0) == 0 and rank >= MATRIX_RANK:
        is_lookup = shape_of(node.inputs[1])[-1:] == (1,)  # each index is a single number
        return Read("Gather", node, rows_first=True) if is_lookup else None
    return Read("Conv", node, rows_first=True) if is_operator(node, "Conv") and index == 1 else None
