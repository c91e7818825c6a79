"""The quantization kernels of ONNX Runtime, which have private names: no other file knows these."""

from typing import Any

import numpy as np

NF4 = 1
"""The `quant_type` of NormalFloat4 in MatMulBnb4; 0 is FP4."""


def block_codes(rows: Any, bits: int, block_size: int, *, symmetric: bool) -> tuple[Any, Any, Any]:
    """The codes, `[row, block, byte]`, of the rows of a float32 matrix, their scales and packed zero points."""
    # The kernel reads columns. Rows of whole blocks already form a single column: half the time of a transposition.
    from onnxruntime.capi import _pybind_state as kernels

    count, width = rows.shape
    blocks = -(-width // block_size)
    codes = np.zeros((count, blocks, block_size * bits // 8), np.uint8)
    scales = np.zeros((count, blocks), np.float32)
    zero_points = np.zeros((count, -(-blocks * bits // 8)), np.uint8)
    quantize = getattr(kernels, f"quantize_matmul_{bits}bits")
    is_column = width % (block_size * 8 // bits) == 0
    columns = np.ascontiguousarray(rows).reshape(-1, 1) if is_column else np.ascontiguousarray(rows.T)
    height, number = columns.shape
    flat = codes.reshape(number, -1, codes.shape[-1])
    quantize(flat, columns, scales.reshape(-1), zero_points.reshape(-1), block_size, number, height, symmetric)
    return codes, scales, zero_points


def nf4_codes(rows: Any, block_size: int) -> tuple[Any, Any]:
    """The codes of the elements of a float32 matrix, two in a byte, and the largest magnitude of each block."""
    from onnxruntime.capi import _pybind_state as kernels

    count, width = rows.shape
    codes = np.zeros(-(-rows.size // 2), np.uint8)
    largest = np.zeros(-(-rows.size // block_size), np.float32)
    kernels.quantize_matmul_bnb4(codes, np.ascontiguousarray(rows), largest, block_size, NF4, count, width)
    return codes, largest
