"""Modules that branch on the sizes of their inputs: in one way at the sizes of a sample, in another at others."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch.nn import functional as F  # noqa: N812 - torch's own habit

Function = Callable[[torch.Tensor], torch.Tensor]


def either(holds: Callable[..., bool]) -> Function:
    """A function with one result where a condition on the shape is true, and another where it is not."""
    return lambda x: x * 2 + 1 if holds(*x.shape) else x.cos()


def nested(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] % 2:
        return x + 1 if x.shape[1] > 50 else x * 3
    return x.sin() if x.shape[0] > 4 else x


def looped(x: torch.Tensor) -> torch.Tensor:
    for number in range(math.ceil(x.shape[1] / 8)):
        x = x * 0.9 + number
    return x


def halved(x: torch.Tensor) -> torch.Tensor:
    length = x.shape[1]
    while length > 12:
        x, length = x.sin() + x, length // 2
    return x


def rolled(x: torch.Tensor) -> torch.Tensor:
    """Windows of 8 that are shifted, unless the padded image is one window: as in Swin."""
    high, wide = (math.ceil(size / 8) * 8 for size in x.shape[1:])
    shifts = [0 if size <= 8 else 4 for size in (high, wide)]
    return torch.roll(F.pad(x, (0, wide - x.shape[2], 0, high - x.shape[1])), shifts, (1, 2))


def chunked(x: torch.Tensor) -> torch.Tensor:
    return sum(chunk.sum(1) * number for number, chunk in enumerate(x.chunk(3, dim=1)))  # type: ignore[return-value]


def padded_if_odd(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 1)).cumsum(1)[:, ::2] if x.shape[1] % 2 else x.cumsum(1)[:, 1::2]


def grown(x: torch.Tensor) -> torch.Tensor:
    table = torch.arange(64.0) if x.shape[1] <= 64 else torch.arange(float(2 * x.shape[1]))
    return x * table[: x.shape[1]] / table.shape[0]


def tried(x: torch.Tensor) -> torch.Tensor:
    try:
        return x.reshape(x.shape[0], -1, 5).sum(2)
    except RuntimeError:
        return x.sin()


TEXTS: Mapping[str, Function] = MappingProxyType(
    {
        "length % 7": either(lambda _, length: length % 7 == 2),
        "length % 16": either(lambda _, length: length % 16 == 0),
        "length % 2": either(lambda _, length: length % 2 == 0),
        "length == 100": either(lambda _, length: length == 100),
        "length in": either(lambda _, length: length in (31, 64, 127)),
        "length == 1": either(lambda _, length: length == 1),
        "length > 64": either(lambda _, length: length > 64),
        "length <= 3": either(lambda _, length: length <= 3),
        "length // 2": either(lambda _, length: length // 2 > 32),
        "ceil": either(lambda _, length: math.ceil(length / 8) > 4),
        "a window": either(lambda _, length: (length // 4 + 7) // 8 == 1),
        "floor": either(lambda _, length: math.floor(length * 0.3) > 4),
        "sqrt": either(lambda _, length: math.sqrt(length) > 5.5),
        "square": either(lambda _, length: length**2 > 1000),
        "batch * length": either(lambda batch, length: batch * length > 120),
        "numel": lambda x: x * 2 if x.numel() > 2000 else x.cos(),
        "length > 20 * batch": either(lambda batch, length: length > 20 * batch),
        "batch > 4": either(lambda batch, _: batch > 4),
        "batch == 1": either(lambda batch, _: batch == 1),
        "batch % 2": either(lambda batch, _: batch % 2 == 1),
        "between": either(lambda _, length: 12 < length < 40),
        "multiples above 16": either(lambda _, length: length > 16 and length % 5 == 0),
        "several above 16": either(lambda batch, length: batch > 1 and length > 16),
        "single ones below 5": either(lambda batch, length: length > 1 and batch > 4),
        "not between": either(lambda _, length: length < 5 or length > 70),
        "max of batch and length": either(lambda *shape: max(shape) > 40),
        "min of batch and length": either(lambda *shape: min(shape) >= 3),
        "length - batch": either(lambda batch, length: abs(length - 5 * batch) < 4),
        "nested": nested,
        "looped": looped,
        "halved": halved,
        "chunked": chunked,
        "padded if odd": padded_if_odd,
        "grown": grown,
        "tried": tried,
        "squeezed": lambda x: x.squeeze(1).sum(-1),
    }
)
"""Name -> function of `[batch, length]`."""

IMAGES: Mapping[str, Function] = MappingProxyType(
    {
        "height * width": either(lambda _, height, width: height * width > 5000),
        "height > width": either(lambda _, height, width: height > width),
        "height / width": either(lambda _, height, width: height / width > 1.2),
        "height == width": either(lambda _, height, width: height == width),
        "height % 4 and width % 4": either(lambda _, height, width: height % 4 == 0 and width % 4 == 0),
        "max of sides": either(lambda _, *sides: max(sides) > 48),
        "min of sides": either(lambda _, *sides: min(sides) < 9),
        "sum of sides": either(lambda _, height, width: height + width > 90),
        "rolled": rolled,
        "windows": either(lambda _, height, width: math.ceil(height / 7) * math.ceil(width / 7) <= 9),
        "even product": either(lambda _, height, width: height * width % 6 == 0),
    }
)
"""Name -> function of `[batch, height, width]`."""
