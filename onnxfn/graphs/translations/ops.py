"""Pieces of translations as onnxscript values: constants, sizes, casts. Imported when a model is translated."""

from __future__ import annotations

from typing import Any

import onnx_ir
from onnx_ir import DataType
from onnxscript import opset18 as op


def integers(*numbers: int) -> Any:
    """A constant vector of int64."""
    return op.Constant(value_ints=list(numbers))


def scalar(number: float, dtype: Any = DataType.INT64) -> Any:
    """A constant without axes."""
    return op.Constant(value=onnx_ir.tensor(number, dtype=dtype))


def size(tensor: Any, axis: int) -> Any:
    """The size of an axis, as a vector of one number."""
    return op.Shape(tensor, start=axis, end=axis + 1 or None)


def counted(size: Any) -> Any:
    """The numbers from 0 up to a size, which is a vector of one number."""
    return op.Range(scalar(0), op.Squeeze(size, integers(0)), scalar(1))


def cast(tensor: Any, dtype: Any) -> Any:
    """A tensor in another dtype, which the translations of torch read, as they read the shape."""
    return typed(op.Cast(tensor, to=int(dtype)), dtype, tensor.shape)


def typed(value: Any, dtype: Any, shape: Any = None) -> Any:
    """A value that knows its dtype, and its shape if that is given."""
    value.type = onnx_ir.TensorType(dtype)
    if shape is not None:
        value.shape = shape
    return value
