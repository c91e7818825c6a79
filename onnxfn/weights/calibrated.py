"""Codes of weights in blocks that change products with real inputs little (GPTQ, arXiv 2210.17323, algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.specs.quantization import REACH, WeightRule

CLIPPED = (0.0, 0.35, 0.7, 1.05)
"""How many steps of the ends of a block the scales that are tried clip; the other elements are rounded less."""

DAMPING = 0.01
"""What is added to the mean square of each input, in means of all: some inputs are nearly sums of others."""


@frozen(eq=False)
class InputErrors:
    """The mean squares of a product's inputs; `factor`: the upper Cholesky factor of their inverse moments."""

    squares: Any
    factor: Any


def input_errors(moments: Any) -> InputErrors:
    """The `InputErrors` of second moments, a float32 tensor `[inputs, inputs]`."""
    import torch

    squares, factor = moments.diagonal().clone(), moments.clone()
    factor.diagonal().add_(DAMPING * float(squares.mean()) or 1.0)
    factor = torch.linalg.cholesky(factor)  # each step frees the result of the one before
    factor = torch.cholesky_inverse(factor)
    return InputErrors(squares, torch.linalg.cholesky(factor, upper=True))


def calibrated_codes(rows: Any, inputs: InputErrors, rule: WeightRule) -> tuple[Any, Any, Any]:
    """The codes, scales and zero points of a float32 matrix in blocks, as of `block_codes`, within `REACH` steps."""
    import torch

    weights, (count, width) = torch.from_numpy(rows), rows.shape
    left, last, size = weights.clone(), 2.0**rule.bits - 1, rule.block_size
    blocks = -(-width // size)
    codes, scales = torch.zeros(count, blocks * size, dtype=torch.uint8), torch.zeros(count, blocks)
    zeros = torch.full((count, blocks), 2.0 ** (rule.bits - 1))
    for block, start in enumerate(range(0, width, size)):
        columns = slice(start, min(start + size, width))
        own, part, factor = weights[:, columns], left[:, columns], inputs.factor[columns, columns]
        scale, zero = _scale(own, part, inputs.squares[columns], rule)
        scales[:, block], zeros[:, block] = scale[:, 0], zero[:, 0]
        exact, errors = own / scale + zero, torch.zeros_like(part)
        least, most = (exact - REACH).ceil_().clamp_(0, last), (exact + REACH).floor_().clamp_(0, last)
        for index in range(part.shape[1]):
            column = slice(index, index + 1)
            code = (part[:, column] / scale + zero).round_().clamp_(least[:, column], most[:, column])
            codes[:, start + index] = code[:, 0]
            errors[:, column] = (part[:, column] - (code - zero) * scale) / factor[index, index]
            part[:, index + 1 :].addmm_(errors[:, column], factor[column, index + 1 :], alpha=-1)
        left[:, columns.stop :].addmm_(errors, inputs.factor[columns, columns.stop :], alpha=-1)
    stored = codes.numpy().reshape(count, blocks, size)
    return packed_codes(stored, rule.bits), scales.numpy(), packed_codes(zeros.numpy().astype(np.uint8), rule.bits)


def _scale(own: Any, part: Any, squares: Any, rule: WeightRule) -> tuple[Any, Any]:
    """The scale and the zero point of each row of a block: those with the smallest error of the corrected weights."""
    import torch

    last, best = 2.0**rule.bits - 1, tuple[Any, ...]()
    for scale, zero in _candidates(own, rule):
        stored = scale.half().float()
        stored = torch.where(stored == 0, 1.0, stored)
        values = (part / stored + zero).round_().clamp_(0, last).sub_(zero).mul_(stored)
        error = values.sub_(part).square_().mul_(squares).sum(1, keepdim=True)
        new = (error, stored, zero)
        best = tuple(torch.where(error < best[0], *pair) for pair in zip(new, best, strict=True)) if best else new
    _, scale, zero = best
    return scale, zero


def _candidates(own: Any, rule: WeightRule) -> Iterator[tuple[Any, Any]]:
    """Scales and zero points for the rows of a block, `[rows, 1]`; without zero points the larger side has one more."""
    import torch

    last = 2.0**rule.bits - 1
    least, most = own.amin(1, keepdim=True).clamp(max=0), own.amax(1, keepdim=True).clamp(min=0)
    middle = torch.full_like(least, (last + 1) / 2)
    for steps in CLIPPED:
        if rule.symmetric:
            step = torch.maximum(-least, most) / (middle + steps)
            yield from ((step, middle), (-step, middle))
        else:
            step = (most - least) / (last + 2 * steps)
            yield step, (-least / step - steps).nan_to_num().round().clamp(0, last)


def packed_codes(codes: Any, bits: int) -> Any:
    """Codes in bytes, packed along the last axis, the first in the low bits."""
    each = 8 // bits
    padded = np.pad(codes, [*[(0, 0)] * (codes.ndim - 1), (0, -codes.shape[-1] % each)])
    return reduce(or_, (padded[..., index::each] << index * bits for index in range(each)))
