"""Codes of blocks whose zero is the middle code: what ONNX Runtime's kernel computes, by vectors instead of numbers.

The kernel calls `roundf` for each element and takes five times as long. Both give the same bits: a test compares them.
"""

from __future__ import annotations

from typing import Any

HALF = 0.5
BYTE = 8


def symmetric_codes(rows: Any, bits: int, block_size: int) -> tuple[Any, Any] | None:
    """The codes of the rows of a float32 matrix in blocks, and their scales, as `block_codes` returns them.

    The largest element of a block, by magnitude, has the code 0. None if the last block of a row is not full, or if a
    scale or its reciprocal is not finite.

    >>> import numpy as np
    >>> codes, scales = symmetric_codes(np.array([[-8.0, 0.0, 7.0, 1.4]], np.float32), 4, 4)
    >>> codes.tolist(), scales.tolist()
    ([[[128, 159]]], [[1.0]])
    """
    import torch

    count, width = rows.shape
    if width % block_size:
        return None
    blocks, middle = torch.from_numpy(rows).view(-1, block_size), 1 << (bits - 1)
    highest, lowest = blocks.amax(1), blocks.amin(1)
    scales = torch.where(highest.abs() > lowest.abs(), highest, lowest) / -middle
    reciprocals = torch.where(scales == 0, 0.0, 1 / scales)
    if not (torch.isfinite(scales) & torch.isfinite(reciprocals)).all():
        return None
    # Adding one half and dropping the fraction rounds as `roundf` does: all sums are positive.
    sums = (blocks * reciprocals[:, None]).add_(middle + HALF).clamp_(max=2 * middle - HALF)
    codes = _packed(sums.to(torch.uint8), bits).view(count, width // block_size, -1)
    return codes.numpy(), scales.view(count, -1).numpy()


def _packed(codes: Any, bits: int) -> Any:
    """The codes in bytes, each of so many bits; the first code is in the low bits."""
    import torch

    while bits < BYTE:
        pairs = codes.view(torch.int16)  # the first byte is the low one
        codes, bits = (pairs | pairs >> (BYTE - bits)).to(torch.uint8), 2 * bits
    return codes
