"""Codes of weights in blocks that change products with real inputs little (GPTQ, arXiv 2210.17323, algorithm 1)."""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.specs.quantization import REACH, WeightRule

DAMPING, DAMPING_OF_FEW, ENOUGH = 0.01, 0.3, 2.5
"""What is added to the mean square of each input, in means of all: some inputs are nearly sums of others.

The second number counts once for each input that there is for a token beyond one for `ENOUGH` tokens: moments of few
tokens fit no other text. Errors of four products of SmolLM2 with another text, in those of the nearest codes:

    tokens for each input    1/16          1/4           1
    0.01 alone               0.57 to 1.00  0.62 to 1.18  0.44 to 1.17
    and 0.3 in all           0.49 to 0.90  0.41 to 0.68  0.30 to 0.65

With more tokens the errors are smaller, too, but the model as a whole is not better: a KL of 0.154 in place of 0.146.
"""


@frozen(eq=False)
class InputErrors:
    """The mean squares of a product's inputs; `factor`: the upper Cholesky factor of their inverse moments.

    `along_rows`: whether the weights of an input are a row of the stored matrix, whose blocks lie along outputs.
    """

    squares: Any
    factor: Any
    along_rows: bool = False


def input_errors(moments: Any, tokens: int, *, along_rows: bool = False) -> InputErrors:
    """The `InputErrors` of the second moments of some tokens, a float32 tensor `[inputs, inputs]`."""
    import torch

    squares, factor = moments.diagonal().clone(), moments.clone()
    damping = DAMPING + DAMPING_OF_FEW * max(0.0, len(moments) / max(tokens, 1) - 1 / ENOUGH)
    factor.diagonal().add_(damping * float(squares.mean()) or 1.0)
    factor = torch.linalg.cholesky(factor)  # each step frees the result of the one before
    factor = torch.cholesky_inverse(factor)
    return InputErrors(squares, torch.linalg.cholesky(factor, upper=True), along_rows)


def calibrated_codes(rows: Any, inputs: InputErrors, rule: WeightRule) -> tuple[Any, Any, Any]:
    """The codes, scales and zero points of a float32 matrix in blocks, as of `block_codes`, within `REACH` steps."""
    import torch

    size, last = rule.block_size, 2.0**rule.bits - 1
    padded = torch.from_numpy(np.pad(rows, [(0, 0), (0, -rows.shape[1] % size)]))
    weights = padded.mT if inputs.along_rows else padded[:, : rows.shape[1]]  # a column for each input
    left, codes = weights.clone(), torch.zeros(padded.shape, dtype=torch.uint8)
    scales = torch.zeros(len(rows), padded.shape[1] // size)
    zeros, by_inputs = torch.zeros_like(scales), codes.mT if inputs.along_rows else codes
    for start in range(0, weights.shape[1], size):
        columns = slice(start, min(start + size, weights.shape[1]))
        own, part, factor = weights[:, columns], left[:, columns], inputs.factor[columns, columns]
        if inputs.along_rows:
            blocks = (own.mT.reshape(-1, size), part.mT.reshape(-1, size), torch.ones(size))
            scales[columns], zeros[columns] = (each.reshape(own.shape[1], -1) for each in _scale(*blocks, rule))
            scale, zero = (each[columns].repeat_interleave(size, 1).mT for each in (scales, zeros))
        else:
            block = slice(start // size, start // size + 1)
            scales[:, block], zeros[:, block] = _scale(own, part, inputs.squares[columns], rule)
            scale, zero = (each[:, block].expand(own.shape) for each in (scales, zeros))
        exact, errors = own / scale + zero, torch.zeros_like(part)
        least, most = (exact - REACH).ceil_().clamp_(0, last), (exact + REACH).floor_().clamp_(0, last)
        for index in range(part.shape[1]):
            column = slice(index, index + 1)
            code = (part[:, column] / scale[:, column] + zero[:, column]).round_()
            code = code.clamp_(least[:, column], most[:, column])
            by_inputs[:, start + index] = code[:, 0]
            errors[:, column] = (part[:, column] - ((code - zero[:, column]) * scale[:, column])) / factor[index, index]
            part[:, index + 1 :].addmm_(errors[:, column], factor[column, index + 1 :], alpha=-1)
        left[:, columns.stop :].addmm_(errors, inputs.factor[columns, columns.stop :], alpha=-1)
    stored = codes.numpy().reshape(*scales.shape, size)
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
    for steps in (0.0, 0.35, 0.7, 1.05):  # that are clipped at the ends, so that other elements are rounded less
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
