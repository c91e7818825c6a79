"""A copy of a model on the CPU, for a model that is on another device or was made in inference mode."""

from __future__ import annotations

from typing import Any

from onnxfn.models.model_copy import copied, tensors_of
from onnxfn.specs.errors import InvalidSpec, first_line

CPU, META = "cpu", "meta"
"""Types of devices. Tensors of the second have no values to copy."""


def with_plain_tensors(model: Any) -> Any:
    """The model if its weights are plain tensors; else a copy that has such tensors in their place.

    A plain tensor is on the CPU, and was not made under `torch.inference_mode`: torch.export traces no other.
    InvalidSpec if the model cannot be copied.
    """
    import torch

    if all(map(_is_plain, tensors_of(model))):
        return model
    try:
        with torch.inference_mode(mode=False):
            return copied(model, plain_tensor)
    except Exception as error:
        name = type(model).__name__
        raise InvalidSpec(
            f"{name} is on another device than the CPU, or was made in inference mode, and cannot be copied "
            f"({type(error).__name__}: {first_line(error)}); pass a {name} that was loaded on the CPU"
        ) from error


def plain_tensor(tensor: Any) -> Any:
    """A tensor with the values of another one, on the CPU; the tensor itself if it is plain. A weight stays a weight.

    >>> import torch
    >>> with torch.inference_mode():
    ...     weight = torch.nn.Parameter(torch.ones(2))
    >>> plain_tensor(weight).is_inference(), plain_tensor(weight)
    (False, Parameter containing:
    tensor([1., 1.]))
    """
    import torch

    if _is_plain(tensor):
        return tensor
    values = tensor.detach().to(CPU)
    values = values.clone() if values.is_inference() else values
    return torch.nn.Parameter(values, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else values


def _is_plain(tensor: Any) -> bool:
    return tensor.device.type in (CPU, META) and not tensor.is_inference()
