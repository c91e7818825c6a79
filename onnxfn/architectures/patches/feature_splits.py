"""Features of all images, whole: transformers (5.23) splits them into a list, which a graph cannot have."""

from collections.abc import Iterator
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

FEATURE_AXES = 3
"""The axes of the features of images: images, tokens, and the width of an embedding."""


@frozen(eq=False)
class Sizes:
    """The list of the numbers in a traced tensor; they are read only on access."""

    tensor: Tensor

    def __iter__(self) -> Iterator[Any]:
        return iter(_listed(self.tensor))

    def __getitem__(self, index: Any) -> Any:
        return _listed(self.tensor)[index]

    def __len__(self) -> int:
        return int(self.tensor.shape[0])


def sizes(tensor: Tensor) -> Any:
    """For tolist of a traced tensor: a `Sizes` for a 1-D integer tensor, whose values are unknown during tracing."""
    return Sizes(tensor) if tensor.ndim == 1 and not tensor.is_floating_point() else _listed(tensor)


def whole(tensor: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """For Tensor.split: the tensor as the only part, if `Sizes` say how long the parts are."""
    if isinstance(split_size, Sizes):
        return (tensor,)
    split = torch.ops.aten.split_with_sizes if isinstance(split_size, (list, tuple)) else torch.ops.aten.split
    return tuple(split(tensor, split_size, dim))


UNSPLIT = property(lambda _: Sizes(torch.empty(0)))
"""For Qwen3OmniMoeAudioEncoder.conv_chunksize: it convolves so many chunks at a time, only to use less memory."""


def items(tensor: Tensor) -> Iterator[Tensor]:
    """For Tensor.__iter__: the features of all images as the only item, if their number is not known."""
    return iter((tensor,) if _is_of_unknown_number(tensor) else tensor.unbind(0))


def length(tensor: Tensor) -> int:
    """For Tensor.__len__: TypeError if the number of images is not known; `list` then does without it."""
    if _is_of_unknown_number(tensor):
        raise TypeError("the number of images is not known while a model is traced")
    if not tensor.ndim:
        raise TypeError("len() of a 0-d tensor")
    return int(tensor.shape[0])


def _is_of_unknown_number(tensor: Tensor) -> bool:
    is_features = tensor.ndim == FEATURE_AXES and tensor.is_floating_point()
    return is_features and not isinstance(tensor.shape[0], int)


def _listed(tensor: Tensor) -> Any:
    """The numbers in a tensor without values, each a symbol."""
    return [_listed(each) for each in tensor.unbind(0)] if tensor.ndim else tensor.item()
