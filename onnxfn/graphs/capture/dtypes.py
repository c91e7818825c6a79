"""The float dtypes of a model, and copies of a model in another float dtype."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, cast

from onnxfn.graphs.capture.quiet import traces_awaited
from onnxfn.specs.edits.tensors import FLOAT_DTYPES, with_dtypes
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.spec import ExportSpec, FloatDtype
from onnxfn.weights.updates import has_updates, update_of, weight_in_dtype

BLOCK = 1 << 22
"""The elements of a tensor that are converted at once."""


SMALL_COPY = 1 << 28
"""The bytes of a copy of a model in another dtype up to which the copy is made."""


def in_dtype(model: Any, dtype: str | None) -> Any:
    """The model with its floating-point weights in a dtype: a copy, or the model itself if they have it already.

    The copy shares no tensor of another dtype with the model, and each tensor is copied once. Its weights are merged
    with an adapter that changes them.
    """
    import torch

    if dtype is None or (float_dtypes(model) <= {dtype} and not has_updates(model)):
        return model
    with traces_awaited():
        return copy.deepcopy(
            model, {id(tensor): _converted(tensor, getattr(torch, dtype)) for tensor in float_tensors(model)}
        )


def in_dtype_if_small(model: Any, dtype: str | None) -> Any:
    """A copy of a model in a dtype if the copy has at most `SMALL_COPY` bytes; else the model itself.

    PyTorch computes in the dtype with either: `cast_on_use` converts weights that have another. A copy is faster.
    """
    import torch

    if dtype is None:
        return model
    size = sum(tensor.numel() for tensor in float_tensors(model)) * getattr(torch, dtype).itemsize
    return in_dtype(model, dtype) if size <= SMALL_COPY else model


def without_values(model: Any, dtype: str | None) -> Any:
    """A copy of a model to trace, in a dtype: its buffers are converted, its parameters have no values.

    The parameters are memory that nothing reads or writes, so they take none. The model itself if it has the dtype.
    """
    import torch

    if dtype is None or float_dtypes(model) <= {dtype}:
        return model
    to = getattr(torch, dtype)
    with traces_awaited():
        return copy.deepcopy(
            model,
            {
                id(tensor): _parameter(torch.empty_like(tensor, dtype=to), tensor)
                if isinstance(tensor, torch.nn.Parameter)
                else _converted(tensor, to)
                for tensor in float_tensors(model)
            },
        )


def float_dtype(model: Any) -> Any:
    """The torch dtype of the first floating-point parameter of a model; float32 if there is none."""
    import torch

    return next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), torch.float32)


def float_dtypes(model: Any) -> set[str]:
    """The names of the dtypes of a model's floating-point parameters."""
    return {
        str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters() if parameter.is_floating_point()
    }


def with_model_dtype(spec: ExportSpec, model: Any) -> ExportSpec:
    """The spec for the float dtype of a model that is not float32, if the spec has no float dtype yet.

    float64 counts only if all parameters have it: a model may keep a scale of its loss in float64. InvalidSpec if the
    parameters have several other float dtypes: then the spec must choose.
    """
    every = float_dtypes(model)
    dtypes = every - {"float64"} or every
    if spec.target.float_dtype is not None or not dtypes <= {*FLOAT_DTYPES} or dtypes <= {"float32"}:
        return spec
    if len(dtypes) > 1:
        raise InvalidSpec(
            f"the parameters of {type(model).__name__} have the dtypes {listed(sorted(dtypes))}; "
            'choose that of the graph: with_dtypes(spec, float="float32")'
        )
    return with_dtypes(spec, float=cast("FloatDtype", dtypes.pop()))


def float_tensors(model: Any) -> Iterator[Any]:
    """The floating-point parameters and buffers of a model, each once."""
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return (tensor for tensor in tensors.values() if tensor.is_floating_point())


def _row_blocks(tensor: Any) -> Iterator[Any]:
    """Indices of blocks of a tensor along its first axis, of about `BLOCK` elements each."""
    if tensor.numel() <= BLOCK:
        yield ...
        return
    rows = max(1, BLOCK * len(tensor) // tensor.numel())
    yield from (slice(start, start + rows) for start in range(0, len(tensor), rows))


def _converted(tensor: Any, dtype: Any) -> Any:
    """A copy of a tensor in a dtype; of a parameter, a parameter.

    A large tensor is converted some rows at a time, so that an export can be stopped between them.
    """
    import torch

    if update_of(tensor) is not None:
        return _parameter(weight_in_dtype(tensor, dtype), tensor)
    with torch.no_grad():
        converted = torch.empty_like(tensor.detach(), dtype=dtype)
        for rows in _row_blocks(tensor):
            converted[rows].copy_(tensor[rows])
    return _parameter(converted, tensor) if isinstance(tensor, torch.nn.Parameter) else converted


def _parameter(values: Any, like: Any) -> Any:
    """A parameter with these values that requires a gradient if another one does."""
    import torch

    return torch.nn.Parameter(values.detach(), requires_grad=like.requires_grad)
