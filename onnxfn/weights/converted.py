"""Weights that are converted to another float dtype while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnxfn.specs.errors import InvalidSpec
from onnxfn.weights.chunks import chunks, lazy_tensor, memory_key


def converted(tensor: Any, dtype: Any) -> Any:
    """An `onnx_ir` tensor in another float dtype, computed when it is read; the tensor itself if it has the dtype.

    Reading it raises InvalidSpec if the dtype cannot hold a finite value of the tensor.

    >>> import numpy, onnx_ir
    >>> weight = onnx_ir.Tensor(numpy.ones((2, 3), numpy.float32), name="weight")
    >>> converted(weight, onnx_ir.DataType.FLOAT16).numpy().dtype
    dtype('float16')
    """
    if tensor.dtype == dtype:
        return tensor
    key = memory_key(tensor)
    in_dtype = None if key is None else (key, dtype)
    return lazy_tensor(dtype, tensor.shape, lambda: _converted_chunks(tensor, dtype), in_dtype, tensor.name)


def _converted_chunks(tensor: Any, dtype: Any) -> Iterator[Any]:
    """The elements of a tensor in a dtype of `onnx_ir`, as arrays of bytes.

    After the last one, InvalidSpec if the dtype cannot hold a finite value.
    """
    import torch
    from onnx_ir.tensor_adapters import to_torch_dtype

    before, after = to_torch_dtype(tensor.dtype), to_torch_dtype(dtype)
    is_narrower = torch.finfo(after).max < torch.finfo(before).max
    count, largest = 0, 0.0
    for chunk in chunks(tensor):
        # torch warns of an array that it could write to by mistake, as one of a mapped file
        values = torch.from_numpy(chunk if chunk.flags.writeable else chunk.copy()).view(before)
        result = values.to(after)
        lost = values[torch.isinf(result) & torch.isfinite(values)].abs() if is_narrower else values[:0]
        if lost.numel():
            count, largest = count + lost.numel(), max(largest, float(lost.max()))
        yield result.view(torch.uint8).numpy()
    if count:
        name = str(after).removeprefix("torch.")
        raise InvalidSpec(
            f"{tensor.name} has {count} values that {name} cannot hold, the largest {largest:.3g}; "
            'export in another dtype: with_dtypes(spec, float="bfloat16"), or "float32"'
        )
