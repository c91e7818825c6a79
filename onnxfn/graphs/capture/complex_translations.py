"""Translations to ONNX of operators on complex numbers, which are pairs of real numbers along a last axis in ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def complex_translations() -> dict[Any, Callable[..., Any]]:
    """Operator of torch -> a function that computes it on onnxscript values of complex tensors."""
    import torch

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
    from onnxscript import opset18 as op
    from onnxscript.function_libs.torch_lib.ops.fft import aten__fft_c2c as complex_signal

    axis = dim[-1]
    conjugate = op.Mul(spectrum, op.Constant(value_floats=[1.0, -1.0]))
    last = _vector((last_dim_size - 1) // 2) if isinstance(last_dim_size, int) else _half(last_dim_size)
    mirrored = op.Slice(conjugate, last, _vector(0), _vector(axis), _vector(-1))
    spectrum = op.Concat(spectrum, mirrored, axis=axis)
    signal = complex_signal(spectrum, dim, normalization, False)
    return op.Squeeze(op.Slice(signal, _vector(0), _vector(1), _vector(-1)), _vector(-1))


def _product(left: Any, right: Any) -> Any:
    """The product of two complex tensors, or of one and a real number, which torch's table takes for complex."""
    from onnxscript import opset18 as op
    from onnxscript.function_libs.torch_lib.ops.core import aten_mul_complex as from_table

    if _is_real_number(right):
        return op.Mul(left, op.CastLike(right, left))
    return op.Mul(op.CastLike(left, right), right) if _is_real_number(left) else from_table(left, right)


def _is_real_number(value: Any) -> bool:
    """Whether a value is no complex tensor, which has at least the axis of its two parts."""
    shape = getattr(value, "shape", ())
    return not isinstance(value, complex) and shape is not None and len(shape) == 0


def _size(tensor: Any, dim: int = 0) -> Any:
    """The size of an axis of a complex tensor; torch's table has it for real tensors."""
    from onnxscript import opset18 as op

    axis = dim if dim >= 0 else dim - 1
    return op.Squeeze(op.Shape(tensor, start=axis, end=axis + 1 or None))


def _with_axis(tensor: Any, dim: int) -> Any:
    """A complex tensor with one more axis of size 1; torch's table has it for real tensors."""
    from onnxscript import opset18 as op

    return op.Unsqueeze(tensor, _vector(dim if dim >= 0 else dim - 1))


def _half(size: Any) -> Any:
    """Half of a size minus one, as a vector."""
    from onnxscript import opset18 as op

    return op.Div(op.Sub(op.Reshape(size, _vector(-1)), _vector(1)), _vector(2))


def _vector(number: int) -> Any:
    from onnxscript import opset18 as op

    return op.Constant(value_ints=[number])
