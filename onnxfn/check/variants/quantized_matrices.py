"""The quantized matrices in an ONNX file: their elements as numbers, some rows at a time, and their exactness."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.check.verdict.compare import all_elements
from onnxfn.graphs.nodes.slots import IN_TURN
from onnxfn.specs.algebra.dummies import Array
from onnxfn.weights.checkpoint_links import TensorEntry, numpy_dtype
from onnxfn.weights.onnx_files import graph_nodes, numbered_tensors, stored_tensors

NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""The levels of NormalFloat4 (QLoRA, arXiv 2305.14314, appendix E)."""

# Symmetric codes are -8 to 7. The scale maps the largest element to -8, so the opposite element is clipped.
HALF, END = 0.5, 1.0
"""Allowed rounding error in steps: half inside the range of codes, one at its two ends, where values are clipped."""

BYTE = 8
"""The bits of a byte."""

Index = slice | Array
"""Rows: those of a slice, or those of an array of indices."""


@frozen(eq=False)
class Tensor:
    """A tensor of a file, whose bytes stay there until `rows` reads some of its rows, by their number and indices."""

    dtype: Any
    shape: tuple[int, ...]
    rows: Callable[[int, Any], Array]

    def whole(self) -> Array:
        """The elements in their order."""
        return self.rows(1, slice(None)).reshape(-1)


Tensors = Callable[[str], Tensor]
"""From the name of an initializer to its tensor; KeyError for another name."""


@frozen
class Rounding:
    """The largest errors of rounding a number to a dtype: relative to it, and of a number that is nearly zero."""

    relative: float
    absolute: float


@frozen(eq=False)
class Elements:
    """Elements of some rows of a matrix: distances from zero in steps of a scale, in float32.

    `scales`: that of each, in the shape of the distances or in one that is broadcast to it. `reach` computes the error
    of rounding to the codes, in steps: half a step, or a step at the ends of the range. `rounding`: that of the weight
    and of the scale to the dtype of the scale. `as_rows`: from an array of the shape of the distances to the rows.
    """

    distances: Array
    scales: Array
    reach: Callable[[], Array]
    rounding: Rounding
    as_rows: Callable[[Array], Array] = field(default=all_elements)

    def values(self) -> Array:
        """The elements as numbers, `[rows, columns]`."""
        return self.as_rows(self.distances * self.scales)

    def allowed(self, reach: int) -> Array:
        """How far each element may be from the weight that it stands for: `reach` steps, and what rounding adds."""
        # A large code multiplies the error of the scale. Codes belong to the scale before its rounding, also next to 0.
        largest = np.abs(self.distances) + 1
        # 2**-15: the error of the float32 arithmetic of a quantizer, several roundings, as with reciprocals.
        steps = self.reach() + reach + largest * (2 * self.rounding.relative + 2.0**-15)
        return self.as_rows(np.abs(self.scales) * steps + largest * self.rounding.absolute)


@frozen
class QuantizedMatrix:
    """A quantized matrix in a file by the `name` of its codes; at most `padding` of its columns are padding."""

    name: str
    shape: tuple[int, int]
    elements: Callable[[Index], Elements]
    padding: int = 0


def quantized_matrices(file: Path) -> tuple[QuantizedMatrix, ...]:
    """The quantized matrices of an ONNX file, in the order of its nodes, each once."""
    stored, numbered = {tensor.name: tensor for tensor in stored_tensors(file)}, numbered_tensors(file)
    nodes = [each for node in graph_nodes(file) for each in (_as_lookups(node) if node.op_type == "QMoE" else [node])]
    # The output of these operators has the elements of their input.
    sources = {node.output[0]: node.input[0] for node in nodes if node.op_type in ("Reshape", "Identity", "Cast")}

    @cache
    def read(name: str) -> Tensor:
        name = _source(name, sources)
        if name not in numbered:
            return _in_file(stored[name])
        array = numbered[name]
        return Tensor(array.dtype, array.shape, lambda count, index: array.reshape(count, -1)[index])

    matrices: dict[tuple[str, tuple[int, int]], QuantizedMatrix] = {}
    for node in nodes:
        codes = _source(node.input[node.op_type in CODES_SECOND], sources) if node.op_type in READERS else ""
        matrix = READERS[node.op_type](node, read, nodes) if codes in stored else None
        if matrix is not None:
            matrix = _halves_apart(matrix, stored[codes].shape[1]) if IN_TURN in codes else matrix
            matrices.setdefault((codes, matrix.shape), evolve(matrix, name=codes))
    return tuple(matrices.values())


def _as_lookups(node: Any) -> Sequence[Any]:
    """Lookups of the two weights of a QMoE."""
    from onnx import helper

    own: Any = {"bits": _integers(node)["expert_weight_bits"], "block_size": _integers(node)["block_size"]}
    inputs = ([node.input[at], "", node.input[at + 1]] for at in (2, 5))
    return [helper.make_node("GatherBlockQuantized", each, [""], **own) for each in inputs]


def _halves_apart(matrix: QuantizedMatrix, rows: int) -> QuantizedMatrix:
    """A matrix of items of so many rows, those of one half of an item after the other; in the file they are in turn."""

    def elements(index: Index) -> Elements:
        item, row = np.divmod(np.arange(matrix.shape[0])[index], rows)
        return matrix.elements(item * rows + row % (rows // 2) * 2 + row // (rows // 2))

    return evolve(matrix, elements=elements)


def _source(name: str, sources: Mapping[str, str]) -> str:
    """The name of the initializer that a value is, with other axes."""
    while name in sources:
        name = sources[name]
    return name


def _in_file(tensor: TensorEntry) -> Tensor:
    """The tensor, whose file is mapped while rows are read: so no row of an earlier read stays in memory."""
    dtype = numpy_dtype(tensor.dtype)

    def rows(count: int, index: Any) -> Array:
        shape = (count, tensor.length // count)  # in bytes: their offset may be any
        chosen = np.memmap(tensor.file, np.uint8, "r", offset=tensor.offset, shape=shape)[index]
        return np.array(chosen, order="C").view(dtype)

    return Tensor(dtype, tensor.shape, rows)


def _integers(node: Any) -> dict[str, int]:
    """The attributes of a node that are integers, by their names."""
    return {attribute.name: attribute.i for attribute in node.attribute}


def _unpacked(data: Array, bits: int) -> Array:
    """The codes in bytes, along the last axis; the first code is in the low bits."""
    if bits == BYTE:
        return data
    codes = np.empty((*data.shape, BYTE // bits), np.uint8)
    for position in range(BYTE // bits):  # a broadcast over the few places would be three times as slow
        np.right_shift(data, position * bits, out=codes[..., position])
    codes &= (1 << bits) - 1
    return codes.reshape(*data.shape[:-1], -1)


def _coded(codes: Array, zeros: Array, scales: Array, limits: tuple[int, int], dtype: Any) -> Elements:
    """The elements `(codes - zeros) * scales`, whose scales are stored in a dtype."""
    distances = codes.astype(np.float32)
    distances -= zeros

    def reach() -> Array:
        return np.where((codes == limits[0]) | (codes == limits[1]), np.float32(END), np.float32(HALF))

    return Elements(distances, scales, reach, _rounding(dtype))


def _rounding(dtype: Any) -> Rounding:
    """The errors of rounding a number to the dtype of scales."""
    if "bfloat16" in dtype.name:
        return Rounding(2.0**-8, 0.0)
    facts = np.finfo(dtype)
    return Rounding(float(facts.eps) / 2, float(facts.smallest_subnormal))


@frozen(eq=False)
class Blocks:
    """Rows in blocks: codes, scales, and zero points packed as the codes or as numbers; None: zero is in the middle."""

    codes: Tensor
    scales: Tensor
    zeros: Tensor | None
    bits: int
    block: int

    def elements(self, count: int, columns: int, index: Index) -> Elements:
        """The elements of some of all rows, without the columns after the first ones."""
        scales = self.scales.rows(count, index).astype(np.float32)
        rows, blocks = scales.shape
        codes = _unpacked(self.codes.rows(count, index), self.bits)
        width = blocks * self.block
        missing = width - codes.shape[1]  # the last block of a table may be short
        codes = np.pad(codes, ((0, 0), (0, missing))) if missing > 0 else codes[:, :width]
        zeros, limits = self.zero_points(count, blocks, index), (0, (1 << self.bits) - 1)
        coded = _coded(codes.reshape(rows, blocks, self.block), zeros, scales[..., None], limits, self.scales.dtype)
        return evolve(coded, as_rows=lambda array: array.reshape(rows, -1)[:, :columns])

    def zero_points(self, count: int, blocks: int, index: Index) -> Any:
        """The zero points of the blocks of rows, with an axis for the elements; or their middle."""
        if self.zeros is None:
            return np.float32(1 << (self.bits - 1))
        points = self.zeros.rows(count, index)
        numbers = points if self.zeros.dtype.kind == "f" else _unpacked(points, self.bits)[:, :blocks]
        return numbers.astype(np.float32)[..., None]


def _in_blocks(blocks: Blocks, count: int, columns: int, padding: int = 0) -> QuantizedMatrix:
    return QuantizedMatrix("", (count, columns), partial(blocks.elements, count, columns), padding)


def _matmul_nbits(node: Any, read: Tensors, _: Any) -> QuantizedMatrix:
    """The matrix of a MatMulNBits, `[N, K]`: each row in blocks along K."""
    facts = _integers(node)
    columns, count, bits, block = (facts[key] for key in ("K", "N", "bits", "block_size"))
    blocks = Blocks(read(node.input[1]), read(node.input[2]), _zero_points(node, read), bits, block)
    return _in_blocks(blocks, count, columns)


def _zero_points(node: Any, read: Tensors) -> Tensor | None:
    """The zero points of an operator, its fourth input; None without."""
    return read(node.input[3]) if len(node.input) > 3 and node.input[3] else None  # noqa: PLR2004 - the fourth


def _gather_blocks(node: Any, read: Tensors, _: Any) -> QuantizedMatrix:
    """The tables of a GatherBlockQuantized as one matrix, in blocks along the last axis."""
    facts, codes, scales = _integers(node), read(node.input[0]), read(node.input[2])
    bits, block = facts["bits"], facts["block_size"]
    count = prod(scales.shape[:-1])
    columns = min(prod(codes.shape) // count * (BYTE // bits), scales.shape[-1] * block)
    return _in_blocks(Blocks(codes, scales, _zero_points(node, read), bits, block), count, columns, block - 1)


def _lookup(node: Any, read: Tensors, nodes: Any) -> QuantizedMatrix | None:
    """The table of bytes, `[rows, blocks, bytes of a block]`, that a Gather reads; None for a table of another kind."""
    data = read(node.input[0])
    if data.dtype != np.uint8 or len(data.shape) != 3:  # noqa: PLR2004 - rows, blocks, bytes
        return None
    count, blocks, size = data.shape
    # Other Gathers read the scales and the zero points of the same rows.
    same_rows = [other for other in nodes if other.op_type == "Gather" and other.input[1] == node.input[1]]
    tensors = [read(other.input[0]) for other in same_rows if _is_initializer(other.input[0], read)]
    scales = next((each for each in tensors if each.shape == (count, blocks) and each.dtype.kind == "f"), None)
    zeros = next((each for each in tensors if each.dtype == np.uint8 and len(each.shape) == 2), None)  # noqa: PLR2004
    if scales is None:
        return None
    per_byte = _codes_per_byte(node.output[0], nodes, read)
    block = size * per_byte
    return _in_blocks(Blocks(data, scales, zeros, BYTE // per_byte, block), count, blocks * block, block - 1)


def _codes_per_byte(value: str, nodes: Any, read: Tensors) -> int:
    """The number of codes in a byte of a value: the number of shift distances of a BitShift."""
    names = {value}
    for node in nodes:  # in the order in which they run
        if names & {*node.input} and node.op_type in ("Unsqueeze", "BitwiseAnd"):
            names.update(node.output)
        elif node.op_type == "BitShift" and node.input[0] in names:
            return prod(read(node.input[1]).shape)
    return 1


def _matmul_integer(node: Any, read: Tensors, nodes: Any) -> QuantizedMatrix | None:
    """The matrix of a MatMulInteger, whose codes are `[K, N]`; or of a ConvInteger, whose codes are kernels."""
    # The scale is what a Mul multiplies the product with: one, or one for each output.
    name = _scale_name(node.output[0], nodes, read)
    if name is None:
        return None
    return _of_integers(read(node.input[1]), read(name), _zero_points(node, read), node.op_type == "ConvInteger")


def _dequantized(node: Any, read: Tensors, _: Any) -> QuantizedMatrix | None:
    """The matrix of a DequantizeLinear of codes: kernels or `[N, K]` along the first axis, else `[K, N]`."""
    codes = read(node.input[0])
    if len(codes.shape) < 2 or not _is_initializer(node.input[1], read):  # noqa: PLR2004 - rows and columns
        return None
    points = read(node.input[2]) if len(node.input) > 2 else None  # noqa: PLR2004 - the third
    return _of_integers(codes, read(node.input[1]), points, _integers(node).get("axis", 1) == 0)


def _of_integers(codes: Tensor, scales: Tensor, points: Tensor | None, is_kernel: bool) -> QuantizedMatrix:  # noqa: FBT001
    """The matrix of integers with a scale for all outputs or each: the first axis of a kernel, else the last."""
    scale = scales.whole().astype(np.float32)[:, None]
    zero = np.zeros((1, 1), np.float32) if points is None else points.whole().astype(np.float32)[:, None]
    limits, inputs = np.iinfo(codes.dtype), codes.shape[0]

    def elements(index: Index) -> Elements:
        data = codes.rows(inputs, index) if is_kernel else codes.rows(inputs, (slice(None), index)).T
        zeros, steps = (each[index] if len(each) > 1 else each for each in (zero, scale))
        return _coded(data, zeros, steps, (limits.min, limits.max), scales.dtype)

    shape = (inputs, prod(codes.shape[1:]))
    return QuantizedMatrix("", shape if is_kernel else shape[::-1], elements)


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
    """The matrix of a MatMulBnb4, `[N, K]`: levels of a table times the largest element of a block."""
    facts = _integers(node)
    columns, count, block = (facts[key] for key in ("K", "N", "block_size"))
    ordered, bytes_ = np.array(NF4, np.float32), np.arange(256)
    levels = ordered[np.stack([bytes_ >> 4, bytes_ & 15], axis=-1)]  # the two levels in each byte
    gaps = np.maximum(np.diff(ordered, prepend=ordered[0]), np.diff(ordered, append=ordered[-1]))
    data, largest = read(node.input[1]), read(node.input[2])
    total, blocks = prod(data.shape), prod(largest.shape)

    def elements(index: Index) -> Elements:
        if not isinstance(index, slice):  # no operator looks up rows of these codes
            every = elements(slice(None))
            return evolve(every, as_rows=lambda array: every.as_rows(array)[index])
        # The blocks go on from row to row.
        start, stop, _ = index.indices(count)
        first, last = start * columns // block, min(-(-stop * columns // block), blocks)
        codes = np.zeros((last - first) * block // 2, np.uint8)  # the last block may be short
        stored = data.rows(total, slice(first * block // 2, min(last * block // 2, total))).reshape(-1)
        codes[: len(stored)] = stored
        distances = levels[codes].reshape(-1, block)
        scales = largest.rows(blocks, slice(first, last)).astype(np.float32)
        skipped = start * columns - first * block

        def as_rows(array: Array) -> Array:
            return array.reshape(-1)[skipped : skipped + (stop - start) * columns].reshape(-1, columns)

        def reach() -> Array:
            return gaps[np.searchsorted(ordered, distances)] / 2  # of the larger gap between neighbours

        return Elements(distances, scales, reach, _rounding(largest.dtype), as_rows)

    return QuantizedMatrix("", (count, columns), elements)


READERS: Mapping[str, Callable[[Any, Tensors, Any], QuantizedMatrix | None]] = MappingProxyType(
    {
        "MatMulNBits": _matmul_nbits,
        "Gather": _lookup,
        "GatherBlockQuantized": _gather_blocks,
        "MatMulInteger": _matmul_integer,
        "MatMulBnb4": _matmul_bnb4,
        "ConvInteger": _matmul_integer,
        "DequantizeLinear": _dequantized,
    }
)
"""An operator with a quantized matrix -> the function that returns its matrix."""

CODES_SECOND = ("MatMulNBits", "MatMulInteger", "MatMulBnb4", "ConvInteger")
"""The operators whose second input holds the codes; of the others it is the first."""
