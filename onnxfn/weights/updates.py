"""Weights that are converted or changed while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

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


ATTRIBUTE = "onnxfn_update"
"""The attribute of a torch parameter that holds its update."""

PARTS = "onnxfn.parts"
"""The key in the `meta` of an `onnx_ir` tensor that holds a function to the contiguous arrays of its elements."""

KEY = "onnxfn.key"
"""The key in the `meta` of an `onnx_ir` tensor that holds a value which is equal for tensors of the same elements."""

TILE = 256
"""Rows and columns of a tile. Every reader computes the same tiles, so all of them get the same bits."""


@frozen(eq=False)
class Update:
    """What an adapter makes of a weight W: `factor * (W + scale * left @ right)`.

    A weight with more than two axes is a matrix here: its last axes are columns.

    Attributes:
        left: A torch matrix with the rows of the weight.
        right: A torch matrix with the columns of the weight.
        scale: A number.
        factor: A torch column with a number for each row; None is 1.
    """

    left: Any = field(repr=False)
    right: Any = field(repr=False)
    scale: float
    factor: Any = field(default=None, repr=False)


def with_update(parameter: Any, update: Update) -> Any:
    """A new torch parameter on the memory of another one, with an update. PyTorch itself ignores the update."""
    import torch

    return _with_attribute(torch.nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad), update)


def update_of(tensor: Any) -> Update | None:
    """The update of a torch tensor; None if it has none."""
    update: Update | None = getattr(tensor, ATTRIBUTE, None)
    return update


def has_updates(model: Any) -> bool:
    """Whether a parameter of a model has an update."""
    return any(update_of(parameter) is not None for parameter in model.parameters())


def rows_of(tensor: Any, rows: slice) -> Any:
    """Rows of a torch tensor, a view, with the part of the update that belongs to them."""
    update = update_of(tensor)
    if update is None:
        return tensor[rows]
    factor = None if update.factor is None else update.factor[rows]
    return _with_attribute(tensor.detach()[rows], evolve(update, left=update.left[rows], factor=factor))


def weight_in_dtype(tensor: Any, dtype: Any) -> Any:
    """A torch tensor in a dtype, after its update if it has one."""
    import torch

    if update_of(tensor) is None:
        return tensor.to(dtype)
    matrix = tensor.flatten(1)
    result = torch.empty(matrix.shape, dtype=dtype)
    for start in range(0, len(matrix), TILE):
        result[start : start + TILE] = _updated_rows(tensor, start)
    return result.view(tensor.shape)


def updated_tensor(tensor: Any, perm: tuple[int, ...], name: str) -> Any:
    """The `onnx_ir` tensor of a torch tensor after its update, with its axes in the order of `perm`, () is its own.

    It is float32, or float64 if the tensor is. Its elements are computed when it is read.
    """
    import onnx_ir

    wide, axes = _wide_dtype(tensor), perm or tuple(range(tensor.dim()))

    def elements() -> Any:
        return weight_in_dtype(tensor, wide).permute(axes).contiguous().numpy()

    lazy = onnx_ir.LazyTensor(
        lambda: onnx_ir.Tensor(elements(), name=name),
        dtype=onnx_ir.tensor_adapters.from_torch_dtype(wide),
        shape=onnx_ir.Shape([tensor.shape[axis] for axis in axes]),
        name=name,
    )
    lazy.meta[PARTS] = _parts_function(tensor, axes) or (lambda: iter((elements(),)))
    lazy.meta[KEY] = (tensor.data_ptr(), tuple(tensor.shape), axes, id(update_of(tensor)))
    return lazy


def row_norms(tensor: Any) -> Any:
    """The Euclidean norm of each row of a torch matrix after its update, as a column."""
    import torch

    starts = range(0, len(tensor), TILE)
    return torch.cat([torch.linalg.norm(_updated_rows(tensor, start), dim=1, keepdim=True) for start in starts])


def _parts_function(tensor: Any, axes: tuple[int, ...]) -> Callable[[], Iterator[Any]] | None:
    """A function to the arrays of a tensor after its update, some rows in each; None for other orders of its axes."""
    if axes == tuple(range(tensor.dim())):
        return lambda: (_updated_rows(tensor, start).numpy() for start in range(0, len(tensor), TILE))
    if axes == (1, 0):
        return lambda: (_updated_columns(tensor, start).numpy() for start in range(0, tensor.shape[1], TILE))
    return None


def _updated_rows(tensor: Any, start: int) -> Any:
    """`TILE` rows of a tensor after its update, as a matrix."""
    import torch

    width = tensor.flatten(1).shape[1]
    return torch.cat([_updated_tile(tensor, start, column) for column in range(0, width, TILE)], dim=1)


def _updated_columns(tensor: Any, start: int) -> Any:
    """`TILE` columns of a matrix after its update, as rows."""
    import torch

    return torch.cat([_updated_tile(tensor, row, start).T for row in range(0, len(tensor), TILE)], dim=1)


def _updated_tile(tensor: Any, row: int, column: int) -> Any:
    """A tile of a tensor after its update, in float32, or in float64 if the tensor has that."""
    import torch

    update, wide = update_of(tensor), _wide_dtype(tensor)
    assert update is not None
    rows, columns = slice(row, row + TILE), slice(column, column + TILE)
    with torch.no_grad():
        left = update.left[rows].to(wide).contiguous()
        right = update.right[:, columns].to(wide).contiguous()
        weight = tensor.detach().flatten(1)[rows, columns].to(wide)
        updated = weight + update.scale * (left @ right)
        return updated if update.factor is None else update.factor[rows].to(wide) * updated


def _wide_dtype(tensor: Any) -> Any:
    import torch

    return torch.promote_types(tensor.dtype, torch.float32)


def _with_attribute(tensor: Any, update: Update) -> Any:
    setattr(tensor, ATTRIBUTE, update)
    return tensor
