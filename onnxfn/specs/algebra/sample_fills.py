"""Dummies that go beyond the values of a sample: real numbers at other scales, both values of a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator as Random
from numpy.typing import NDArray

Array = NDArray[Any]

SCALES = (1.0, 0.125, 8.0)
"""The scales of the rows of a dummy that `scaled` makes."""


def scaled(random: Random, shape: tuple[int, ...], *, low: float, high: float) -> Array:
    """Uniformly distributed numbers between `low` and `high`, each row of the first axis times one of SCALES in turn.

    >>> rows = scaled(np.random.default_rng(0), (3, 4), low=1.0, high=1.0)
    >>> sorted(rows[:, 0].tolist())
    [0.125, 1.0, 8.0]
    """
    first = random.integers(len(SCALES))
    rows = (np.arange(shape[0] if shape else 1) + first) % len(SCALES)
    scales = np.array(SCALES)[rows].reshape((-1, *[1] * (len(shape) - 1)) if shape else ())
    numbers: Array = random.uniform(low, high, shape) * scales
    return numbers


def two_values(random: Random, shape: tuple[int, ...], *, first: float | str = 1, second: float | str = 0) -> Array:
    """Two values at random, as a mask has them. Each row of the last axis begins with `first` and has a `second`.

    A text is a number that JSON lacks: `-inf`.

    >>> two_values(np.random.default_rng(0), (2, 2)).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    is_second = random.integers(0, 2, shape).astype(bool)
    if is_second.ndim and shape[-1] > 1:
        is_second[..., 0] = False
        is_second[..., -1] |= ~is_second.any(axis=-1)
    return np.where(is_second, float(second), float(first))
