"""Weights that an adapter changes. The change is computed when a weight is read, one tile after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve, field, frozen

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
