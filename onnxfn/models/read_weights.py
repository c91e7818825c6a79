"""Weights that have other values than their tensors: they are read from elsewhere when a function needs them."""

from collections.abc import Callable, Mapping
from typing import Any

from onnxfn.models.model_state import model_copy, tensors_of
from onnxfn.specs.errors import InvalidSpec

READ = "onnxfn_rows"
"""The attribute of a tensor that holds the `Rows` of its values."""

EVERY = slice(None)

Rows = Callable[[Any], Any]
"""From a slice or a tensor of indices along the first axis of a weight to these rows, a new float tensor."""


def with_rows(model: Any, rows: Mapping[str, Rows]) -> Any:
    """A copy of a model, on its tensors; some weights have the values of functions. Names with the same are tied."""
    import torch

    duplicate = model_copy(model)
    if duplicate is model:
        raise InvalidSpec(
            f"{type(model).__name__} cannot be copied, so it cannot run with the weights of a quantized file; "
            "export it without a check: check=False"
        )
    modules, known = dict(duplicate.named_modules(remove_duplicate=False)), dict[int, Any]()
    for name, function in rows.items():
        path, _, own = name.rpartition(".")
        tensors = modules[path]._parameters if own in modules[path]._parameters else modules[path]._buffers
        if id(function) not in known:
            known[id(function)] = torch.nn.Parameter(tensors[own].detach(), requires_grad=False)  # in the same memory
            setattr(known[id(function)], READ, function)
        tensors[own] = known[id(function)]
    return duplicate


def rows_of(tensor: Any) -> Rows | None:
    """The function that returns the values of a weight; None if its tensor holds them."""
    rows: Rows | None = getattr(tensor, READ, None)
    return rows


def reads_weights(model: Any) -> bool:
    """Whether a weight of a model is read from elsewhere."""
    return any(rows_of(tensor) is not None for tensor in tensors_of(model))


def read(tensor: Any, dtype: Any, index: Any = EVERY) -> Any:
    """The values of a weight in a torch dtype, or those of some of its rows."""
    rows = rows_of(tensor)
    values = rows(index) if rows else tensor if index is EVERY else tensor[index]
    return values.to(dtype)


def looked_up(tensor: Any, dtype: Any, indices: Any) -> Any:
    """The rows of a weight at a tensor of indices, in a torch dtype: `[*indices, *row]`. Each row is read once."""
    chosen, places = indices.unique(return_inverse=True)
    return read(tensor, dtype, chosen)[places]
