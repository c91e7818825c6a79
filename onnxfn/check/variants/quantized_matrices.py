"""The quantized matrices in an ONNX file: their elements as numbers, some rows at a time, and how exact each can be.

A matrix is what one node multiplies with or looks up rows in. Its codes stay in the file until they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.specs.algebra.dummies import Array
from onnxfn.weights.onnx_files import StoredTensor, graph_nodes, numbered_tensors, stored_tensors

NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""The levels of NormalFloat4 (QLoRA, arXiv 2305.14314, appendix E)."""

HALF, END = 0.5, 1.0
"""Allowed rounding error in steps: half inside the range of codes, one at its two ends, where values are clipped.

Symmetric codes are -8 to 7. The scale maps the largest element to -8, so the opposite element is clipped.
"""

EPSILON = 2.0**-15
"""The relative error of the float32 arithmetic of a quantizer: several roundings, as with reciprocals."""

SAME_ELEMENTS = ("Reshape", "Identity", "Cast")
"""The operators whose output has the elements of their input."""

Tensors = Callable[[str], Array]
"""From the name of an initializer to its array; it is mapped into memory, not read."""

Rows = tuple[Array, Array]
"""The elements of some rows of a matrix, and how far each may be from the weight that it stands for."""


@frozen
class Rounding:
    """The largest errors of rounding a number to a dtype: relative to it, and of a number that is nearly zero."""

    relative: float
    absolute: float


@frozen
class QuantizedMatrix:
    """A quantized matrix in a file.

    Attributes:
        name: The name of the initializer that holds its codes.
        shape: Its rows and columns.
        rows: From the first row and the row after the last one to the elements.
        padding: How many of its columns may be padding at most: those of a block that is not full.
    """

    name: str
    shape: tuple[int, int]
    rows: Callable[[int, int], Rows]
    padding: int = 0


def quantized_matrices(file: Path) -> tuple[QuantizedMatrix, ...]:
    """The quantized matrices of an ONNX file, in the order of its nodes, each once."""
    stored, numbered = {tensor.name: tensor for tensor in stored_tensors(file)}, numbered_tensors(file)
    nodes = graph_nodes(file)
    sources = {node.output[0]: node.input[0] for node in nodes if node.op_type in SAME_ELEMENTS}

    @cache
    def read(name: str) -> Array:
        name = _source(name, sources)
        return numbered[name] if name in numbered else _mapped(stored[name])

    matrices: dict[tuple[str, tuple[int, int]], QuantizedMatrix] = {}
    for node in nodes:
        codes = _source(node.input[node.op_type in CODES_SECOND], sources) if node.op_type in READERS else ""
        matrix = READERS[node.op_type](node, read, nodes) if codes in stored else None
        if matrix is not None:
            matrices.setdefault((codes, matrix.shape), evolve(matrix, name=codes))
    return tuple(matrices.values())


def _source(name: str, sources: Mapping[str, str]) -> str:
    """The name of the initializer that a value is, with other axes."""
    while name in sources:
        name = sources[name]
    return name


def _mapped(tensor: StoredTensor) -> Array:
    """The array of a stored tensor, mapped from its file."""
    from onnx.helper import tensor_dtype_to_np_dtype

    dtype = tensor_dtype_to_np_dtype(tensor.dtype)
    data = np.memmap(tensor.file, np.uint8, "r", offset=tensor.offset, shape=(tensor.length,))
    values = data.view(dtype) if tensor.offset % dtype.itemsize == 0 else np.frombuffer(data.tobytes(), dtype)
    return values.reshape(tensor.shape)


def _attributes(node: Any) -> dict[str, Any]:
    from onnx.helper import get_attribute_value

    return {
        attribute.name: get_attribute_value(attribute) for attribute in node.attribute if not attribute.HasField("g")
    }


def _unpacked(data: Array, bits: int) -> Array:
    """The codes in bytes, along the last axis; the first code is in the low bits.

    >>> _unpacked(np.array([0x21, 0x43], np.uint8), 4).tolist()
    [1, 2, 3, 4]
    """
    if bits == 8:  # noqa: PLR2004 - a byte
        return np.asarray(data)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes: Array = (np.asarray(data)[..., None] >> shifts) & ((1 << bits) - 1)
    return codes.reshape(*data.shape[:-1], -1)


def _within(codes: Array, zeros: Array, scales: Array, low: int, high: int, rounding: Rounding) -> Rows:
    """The elements `(codes - zeros) * scales`, and the error that each may have.

    The error is half a step, or a step at the ends of the range, plus the rounding of the weight and of the scale to
    the scale's dtype. A large code multiplies the rounding of the scale.
    """
    distances = codes.astype(np.float32) - zeros
    steps = np.abs(scales)
    at_end = (codes == low) | (codes == high)
    lost = 2 * rounding.relative + EPSILON
    # The codes belong to the scale before it was rounded, also next to zero.
    largest = np.abs(distances) + 1
    allowed = steps * (np.where(at_end, END, HALF) + largest * lost) + largest * rounding.absolute
    return distances * scales, allowed


def _rounding(scales: Array) -> Rounding:
    """The errors of rounding a number to the dtype of the scales."""
    if "bfloat16" in scales.dtype.name:
        return Rounding(2.0**-8, 0.0)
    facts = np.finfo(scales.dtype)
    return Rounding(float(facts.eps) / 2, float(facts.smallest_subnormal))


def _matmul_nbits(node: Any, read: Tensors, _: Any) -> QuantizedMatrix:
    """The matrix of a MatMulNBits, `[N, K]`: each row in blocks along K."""
    facts = _attributes(node)
    columns, count, bits, block = (int(facts[key]) for key in ("K", "N", "bits", "block_size"))
    blocks = -(-columns // block)
    data, scales = read(node.input[1]).reshape(count, blocks, -1), read(node.input[2]).reshape(count, blocks)
    zeros = _zero_points(node, read)
    zeros = None if zeros is None else zeros.reshape(count, -1)

    def rows(start: int, stop: int) -> Rows:
        codes = _unpacked(data[start:stop], bits).reshape(stop - start, blocks * block)[:, :columns]
        return _blocks(codes, scales[start:stop], zeros if zeros is None else zeros[start:stop], bits, block)

    return QuantizedMatrix(node.input[1], (count, columns), rows)


def _zero_points(node: Any, read: Tensors) -> Array | None:
    """The zero points of an operator, its fourth input; None without."""
    return read(node.input[3]) if len(node.input) > 3 and node.input[3] else None  # noqa: PLR2004 - the fourth


def _blocks(codes: Array, scales: Array, zeros: Array | None, bits: int, block: int) -> Rows:
    """The elements of rows in blocks. Zero points are packed as the codes are, or numbers; without any the middle."""
    columns, blocks = codes.shape[-1], scales.shape[-1]
    middle = np.full((1, blocks), 1 << (bits - 1), np.float32)
    points = middle if zeros is None else zeros if zeros.dtype.kind == "f" else _unpacked(zeros, bits)[:, :blocks]
    points = np.broadcast_to(points, (len(points), blocks))
    of_block = partial(np.repeat, repeats=block, axis=-1)
    zero, scale = (of_block(values.astype(np.float32))[:, :columns] for values in (points, scales))
    return _within(codes, zero, scale, 0, (1 << bits) - 1, _rounding(scales))


def _gather_blocks(node: Any, read: Tensors, _: Any) -> QuantizedMatrix:
    """The tables of a GatherBlockQuantized as one matrix, in blocks along the last axis."""
    facts, scales = _attributes(node), read(node.input[2])
    bits, block = int(facts["bits"]), int(facts["block_size"])
    scales = scales.reshape(-1, scales.shape[-1])
    table = read(node.input[0]).reshape(len(scales), -1)
    columns = min(table.shape[1] * (8 // bits), scales.shape[1] * block)
    zeros = _zero_points(node, read)
    zeros = None if zeros is None else zeros.reshape(len(scales), -1)

    def rows(start: int, stop: int) -> Rows:
        codes = _unpacked(table[start:stop], bits)[:, :columns]
        return _blocks(codes, scales[start:stop], zeros if zeros is None else zeros[start:stop], bits, block)

    return QuantizedMatrix(node.input[0], (len(scales), columns), rows, padding=block - 1)


def _lookup(node: Any, read: Tensors, nodes: Any) -> QuantizedMatrix | None:
    """The table of bytes, `[rows, blocks, bytes of a block]`, that a Gather reads; None for a table of another kind.

    Other Gathers read the scales and the zero points of the same rows. A byte has several codes where it is shifted.
    """
    data = read(node.input[0])
    if data.dtype != np.uint8 or data.ndim != 3:  # noqa: PLR2004 - rows, blocks, bytes
        return None
    count, blocks, size = data.shape
    same_rows = [other for other in nodes if other.op_type == "Gather" and other.input[1] == node.input[1]]
    tensors = [read(other.input[0]) for other in same_rows if _is_initializer(other.input[0], read)]
    scales = next((array for array in tensors if array.shape == (count, blocks) and array.dtype.kind == "f"), None)
    zeros = next((array for array in tensors if array.dtype == np.uint8 and array.ndim == 2), None)  # noqa: PLR2004
    if scales is None:
        return None
    per_byte = _codes_per_byte(node.output[0], nodes, read)
    bits, block = 8 // per_byte, size * per_byte

    def rows(start: int, stop: int) -> Rows:
        codes = _unpacked(data[start:stop], bits).reshape(stop - start, blocks * block)
        return _blocks(codes, scales[start:stop], zeros if zeros is None else zeros[start:stop], bits, block)

    return QuantizedMatrix(node.input[0], (count, blocks * block), rows, padding=block - 1)


def _codes_per_byte(value: str, nodes: Any, read: Tensors) -> int:
    """The number of codes in a byte of a value: the number of shift distances of a BitShift."""
    names = {value}
    for node in nodes:  # in the order in which they run
        if names & {*node.input} and node.op_type == "Unsqueeze":
            names.update(node.output)
        elif node.op_type == "BitShift" and node.input[0] in names:
            return int(read(node.input[1]).size)
    return 1


def _integers(name: str, data: Array, scales: Array, zeros: Array | None) -> QuantizedMatrix:
    """A matrix of 8-bit integers with one scale, or one for each column. A kernel of a convolution has a row for each.

    The scales of a kernel are those of its rows.
    """
    limits = np.iinfo(data.dtype)
    matrix = data.reshape(data.shape[0], -1) if data.ndim != 1 else data.reshape(1, -1)
    zero = np.zeros(1, np.float32) if zeros is None else zeros.astype(np.float32).reshape(-1)
    scale = scales.astype(np.float32).reshape(-1)
    is_kernel = data.ndim > 2 and scale.size == len(matrix) > 1  # noqa: PLR2004 - rows and columns

    def rows(start: int, stop: int) -> Rows:
        own = scale[start:stop, None] if is_kernel else scale
        return _within(np.asarray(matrix[start:stop]), zero, own, limits.min, limits.max, _rounding(scales))

    return QuantizedMatrix(name, (matrix.shape[0], matrix.shape[1]), rows)


def _matmul_integer(node: Any, read: Tensors, nodes: Any) -> QuantizedMatrix | None:
    """The matrix of a MatMulInteger, `[K, N]`. Its scale is what a Mul multiplies the product with."""
    scale = _scale_name(node.output[0], nodes, read)
    if scale is None:
        return None
    return _integers(node.input[1], read(node.input[1]), read(scale), _zero_points(node, read))


def _scale_name(product: str, nodes: Any, read: Tensors) -> str | None:
    """The name of the initializer that a product of integers is multiplied with, behind a Cast and other factors."""
    producers = {name: node for node in nodes for name in node.output}
    names: set[str] = {product}
    factors: list[str] = []
    for node in nodes:  # in the order in which they run
        if names & {*node.input} and node.op_type in ("Cast", "Mul"):
            names.update(node.output)
            factors.extend(name for name in node.input if node.op_type == "Mul" and name not in names)
        if factors:
            break
    while factors:
        name = factors.pop()
        if name in producers and producers[name].op_type == "Mul":
            factors.extend(producers[name].input)
        elif name not in producers and _is_initializer(name, read):
            return name
    return None


def _is_initializer(name: str, read: Tensors) -> bool:
    try:
        read(name)
    except KeyError:
        return False
    return True


def _matmul_bnb4(node: Any, read: Tensors, _: Any) -> QuantizedMatrix:
    """The matrix of a MatMulBnb4, `[N, K]`: levels of a table times the largest element of a block; high bits first."""
    facts = _attributes(node)
    columns, count, block = (int(facts[key]) for key in ("K", "N", "block_size"))
    levels = np.array(NF4, np.float32)
    ordered = np.sort(levels)
    gaps = np.maximum(np.diff(ordered, prepend=ordered[0]), np.diff(ordered, append=ordered[-1]))
    reach = gaps[np.searchsorted(ordered, levels)] / 2
    data, largest = read(node.input[1]).reshape(-1), read(node.input[2]).reshape(-1)

    def rows(start: int, stop: int) -> Rows:
        first, last = start * columns, stop * columns
        elements = np.arange(first, last)
        codes = (data[elements // 2] >> np.where(elements % 2, 0, 4).astype(np.uint8)) & 15
        scales = largest[elements // block].astype(np.float32)
        shape, slack = (stop - start, columns), 2 * _rounding(largest).relative + EPSILON
        values = levels[codes] * scales
        return values.reshape(shape), (reach[codes] * np.abs(scales) + np.abs(scales) * slack).reshape(shape)

    return QuantizedMatrix(node.input[1], (count, columns), rows)


READERS: Mapping[str, Callable[[Any, Tensors, Any], QuantizedMatrix | None]] = MappingProxyType(
    {
        "MatMulNBits": _matmul_nbits,
        "Gather": _lookup,
        "GatherBlockQuantized": _gather_blocks,
        "MatMulInteger": _matmul_integer,
        "MatMulBnb4": _matmul_bnb4,
        "ConvInteger": _matmul_integer,
    }
)
"""An operator with a quantized matrix -> the function that returns its matrix."""

CODES_SECOND = ("MatMulNBits", "MatMulInteger", "MatMulBnb4", "ConvInteger")
"""The operators whose second input holds the codes; of the others it is the first."""
