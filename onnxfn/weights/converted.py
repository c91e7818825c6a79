"""Tensors that are converted to another float dtype while their bytes are read, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from onnxfn.specs.errors import InvalidSpec

SOURCE = "onnxfn.source"
"""The key in the `meta` of a tensor that holds the tensor that it is converted from."""


def converted(tensor: Any, dtype: Any) -> Any:
    """An `onnx_ir` tensor in another float dtype, computed when it is read; the tensor itself if it has the dtype.

    Reading it raises InvalidSpec if the dtype cannot hold a finite value of the tensor.

    >>> import numpy, onnx_ir
    >>> weight = onnx_ir.Tensor(numpy.ones((2, 3), numpy.float32), name="weight")
    >>> converted(weight, onnx_ir.DataType.FLOAT16).numpy().dtype
    dtype('float16')
    """
    import onnx_ir

    if tensor.dtype == dtype:
        return tensor
    lazy = onnx_ir.LazyTensor(
        lambda: onnx_ir.Tensor(_all_elements(tensor, dtype), dtype, name=tensor.name),
        dtype=dtype,
        shape=tensor.shape,
        name=tensor.name,
    )
    lazy.meta[SOURCE] = tensor
    return lazy


def source_of(tensor: Any) -> Any:
    """The tensor that a tensor is converted from; the tensor itself if it is not converted."""
    return getattr(tensor, "meta", {}).get(SOURCE, tensor)


def converted_chunks(chunks: Iterable[Any], source: Any, dtype: Any) -> Iterator[Any]:
    """Contiguous arrays of elements of an `onnx_ir` tensor, each converted to a dtype of `onnx_ir`.

    The arrays have elements of the same size as the tensor, of any type. After the last one, InvalidSpec if the dtype
    cannot hold a finite value.
    """
    import torch
    from onnx_ir.tensor_adapters import to_torch_dtype

    before, after = to_torch_dtype(source.dtype), to_torch_dtype(dtype)
    is_narrower = torch.finfo(after).max < torch.finfo(before).max
    count, largest = 0, 0.0
    for chunk in chunks:
        bytes_ = chunk.reshape(-1).view(np.uint8)
        # torch warns of an array that it could write to by mistake, as one of a mapped file
        values = torch.from_numpy(bytes_ if bytes_.flags.writeable else bytes_.copy()).view(before)
        result = values.to(after)
        lost = values[torch.isinf(result) & torch.isfinite(values)].abs() if is_narrower else values[:0]
        if lost.numel():
            count, largest = count + lost.numel(), max(largest, float(lost.max()))
        yield result.view(torch.uint8).numpy()
    if count:
        name = str(after).removeprefix("torch.")
        raise InvalidSpec(
            f"{source.name} has {count} values that {name} cannot hold, the largest {largest:.3g}; "
            'export in another dtype: with_dtypes(spec, float="bfloat16"), or "float32"'
        )


def _all_elements(source: Any, dtype: Any) -> Any:
    """The elements of a tensor as an array of a dtype of `onnx_ir`."""
    array = np.ascontiguousarray(source.numpy())
    parts = [part.tobytes() for part in converted_chunks([array], source, dtype)]
    return np.frombuffer(b"".join(parts), dtype.numpy()).reshape(array.shape)
