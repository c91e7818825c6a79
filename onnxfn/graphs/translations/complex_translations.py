"""Translations to ONNX of operators on complex numbers, which are pairs of real numbers along a last axis in ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript import opset18 as op
from onnxscript.function_libs.torch_lib.ops import core, fft

from onnxfn.graphs.translations.ops import integers


def complex_translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values of complex tensors."""
    return {
        torch.ops.aten._fft_c2r.default: _real_signal,
        torch.ops.aten.mul.Tensor: _product,
        torch.ops.aten.sym_size.int: _size,
        torch.ops.aten.unsqueeze.default: _with_axis,
    }


def _real_signal(spectrum: Any, dim: Sequence[int], normalization: int, last_dim_size: Any) -> Any:
    """The real signal of half a spectrum; torch's table has an inverse DFT of one side, which ONNX Runtime lacks.

    The other half is the mirrored conjugate of the first.
    """
    axis = dim[-1]
    conjugate = op.Mul(spectrum, op.Constant(value_floats=[1.0, -1.0]))
    last = integers((last_dim_size - 1) // 2) if isinstance(last_dim_size, int) else _half(last_dim_size)
    mirrored = op.Slice(conjugate, last, integers(0), integers(axis), integers(-1))
    spectrum = op.Concat(spectrum, mirrored, axis=axis)
    signal = fft.aten__fft_c2c(spectrum, dim, normalization, False)
    return op.Squeeze(op.Slice(signal, integers(0), integers(1), integers(-1)), integers(-1))


def _product(left: Any, right: Any) -> Any:
    """The product of two complex tensors, or of one and a real number, which torch's table takes for complex."""
    if _is_real_number(right):
        return op.Mul(left, op.CastLike(right, left))
    return op.Mul(op.CastLike(left, right), right) if _is_real_number(left) else core.aten_mul_complex(left, right)


def _is_real_number(value: Any) -> bool:
    """Whether a value is no complex tensor, which has at least the axis of its two parts."""
    shape = getattr(value, "shape", ())
    return not isinstance(value, complex) and shape is not None and len(shape) == 0


def _size(tensor: Any, dim: int = 0) -> Any:
    """The size of an axis of a complex tensor; torch's table has it for real tensors."""
    axis = dim if dim >= 0 else dim - 1
    return op.Squeeze(op.Shape(tensor, start=axis, end=axis + 1 or None))


def _with_axis(tensor: Any, dim: int) -> Any:
    """A complex tensor with one more axis of size 1; torch's table has it for real tensors."""
    return op.Unsqueeze(tensor, integers(dim if dim >= 0 else dim - 1))


def _half(size: Any) -> Any:
    """Half of a size minus one, as a vector."""
    return op.Div(op.Sub(op.Reshape(size, integers(-1)), integers(1)), integers(2))
