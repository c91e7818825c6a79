"""The float dtypes of a model, and copies of a model in another float dtype."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, cast

from onnxfn.graphs.capture.quiet import traces_awaited
from onnxfn.specs.edits.tensors import FLOAT_DTYPES, with_dtypes
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.spec import ExportSpec, FloatDtype

BLOCK = 1 << 22
"""The elements of a tensor that are converted at once."""


def in_dtype(model: Any, dtype: str | None) -> Any:
    """The model with its floating-point weights in a dtype: a copy, or the model itself if they have it already.

    The copy shares no tensor of another dtype with the model, and each tensor is copied once.
    """
    import torch

    if dtype is None or float_dtypes(model) <= {dtype}:
        return model
    with traces_awaited():
        return copy.deepcopy(
            model, {id(tensor): _converted(tensor, getattr(torch, dtype)) for tensor in _floats(model)}
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


def float_count(model: Any) -> int:
    """The number of floating-point numbers in the parameters and buffers of a model."""
    return sum(tensor.numel() for tensor in _floats(model))


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


def _floats(model: Any) -> Iterator[Any]:
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

    with torch.no_grad():
        converted = torch.empty_like(tensor.detach(), dtype=dtype)
        for rows in _row_blocks(tensor):
            converted[rows].copy_(tensor[rows])
    if not isinstance(tensor, torch.nn.Parameter):
        return converted
    return torch.nn.Parameter(converted, requires_grad=tensor.requires_grad)
