"""Dummies for places in images, and dummies with values beyond those of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator as Random
from numpy.typing import NDArray

Array = NDArray[Any]


def grids(_: Random, shape: tuple[int, ...], *, mask: Array, merge: int = 1) -> Array:
    """Height and width of a grid with one cell for each 1 in a row of a mask. The last axis has size 2.

    Both are multiples of `merge`.

    >>> grids(np.random.default_rng(0), (2, 2), mask=np.array([[1] * 12, [1] * 10 + [0] * 2])).tolist()
    [[3, 4], [2, 5]]
    """
    sides = np.ones(shape, dtype=np.int64)
    for row, cells in enumerate((mask.sum(axis=-1) // merge**2).tolist()):
        height = max(divisor for divisor in range(1, int(cells**0.5) + 1) if cells % divisor == 0)
        sides[row] = height * merge, cells // height * merge
    return sides


def grid_mask(_: Random, shape: tuple[int, ...], *, merge: int = 1) -> Array:
    """Ones for the patches of images, and zeros for padding after them, about a third in every second image.

    The number of ones is a multiple of the square of `merge`.

    >>> grid_mask(np.random.default_rng(0), (2, 6)).tolist()
    [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
    """
    mask = np.zeros(shape, dtype=np.int64)
    cells = shape[-1] // merge**2
    for row, image in enumerate(mask.reshape(-1, shape[-1])):
        image[: (cells - cells // 3 * (row % 2)) * merge**2] = 1
    return mask


def packed_grids(_: Random, shape: tuple[int, ...], *, patches: Array, merge: int = 1, frames: int = 1) -> Array:
    """Frames, height and width of images; their patches together are the rows of `patches`.

    A last axis of size 2 has the height and the width alone.

    Heights and widths are multiples of `merge`. The first image has `frames` frames if its number of patches allows it.

    >>> packed_grids(np.random.default_rng(0), (2, 3), patches=np.zeros((48, 5)), merge=2, frames=2).tolist()
    [[2, 2, 6], [1, 4, 6]]
    """
    blocks = np.full(shape[0], len(patches) // merge**2 // shape[0])
    blocks[0] += len(patches) // merge**2 - blocks.sum()
    sides = np.ones(shape, dtype=np.int64)
    for row, cells in enumerate(blocks.tolist()):
        count = frames if row == 0 and cells % frames == 0 else 1
        height = max(side for side in range(1, int((cells // count) ** 0.5) + 1) if cells // count % side == 0)
        sides[row] = (count, height * merge, cells // count // height * merge)[-shape[-1] :]
    return sides


def grid_positions(_: Random, shape: tuple[int, ...], *, merge: int = 1) -> Array:
    """Column and row of each patch of an image, whose sides are multiples of `merge`; -1 for padding.

    The axes are images, patches, and column and row. Every second image has padding, about a third of its patches.

    >>> grid_positions(np.random.default_rng(0), (2, 3, 2)).tolist()
    [[[0, 0], [1, 0], [2, 0]], [[0, 0], [1, 0], [-1, -1]]]
    """
    places = np.full(shape, -1, dtype=np.int64)
    for row, image in enumerate(places):
        cells = shape[1] // merge**2
        cells -= cells // 3 * (row % 2)
        width = cells // max(side for side in range(1, int(cells**0.5) + 1) if cells % side == 0) * merge
        index = np.arange(cells * merge**2)
        image[: len(index)] = np.stack([index % width, index // width], axis=-1)
    return places


def rectangles(random: Random, shape: tuple[int, ...], *, side: int = 1) -> Array:
    """Ones in the upper left of each image, whose last two axes are its rows and columns, and zeros elsewhere.

    The height and the width of the ones are multiples of `side`, at least half of those of the image.

    >>> rectangles(np.random.default_rng(1), (1, 2, 4), side=2).tolist()
    [[[1, 1, 0, 0], [1, 1, 0, 0]]]
    """
    mask = np.zeros(shape, dtype=np.int64)
    for image in mask.reshape(-1, *shape[-2:]):
        cells = np.array(shape[-2:]) // side
        height, width = random.integers((cells + 1) // 2, cells, endpoint=True) * side
        image[:height, :width] = 1
    return mask


def boxes(random: Random, shape: tuple[int, ...], *, high: int) -> Array:
    """Left, top, right and bottom of boxes, whole numbers below `high`. The last axis has size 4."""
    corners = random.integers(0, high, (*shape[:-1], 2, 2))
    return np.sort(corners, axis=-2).reshape(shape)


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
