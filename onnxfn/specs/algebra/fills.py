"""The functions of dummies: random numbers, token ids, masks, places in images, values beyond those of a sample."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import Generator as Random
from numpy.typing import NDArray

from onnxfn.specs.axes import LARGEST_SIZE
from onnxfn.specs.errors import refuse_unknown

Array = NDArray[Any]

Fill = Callable[..., Array]
"""From a random generator, a shape and keyword arguments to an array of this shape."""

Side = Literal["right", "left", "none"]
"""Where a mask has padding."""


def integers(random: Random, shape: tuple[int, ...], *, high: int, low: int = 0) -> Array:
    """Whole numbers from `low` up to and without `high`, also as floats."""
    return random.integers(low, high, shape, dtype=np.uint64 if high > LARGEST_SIZE else np.int64)


def repeated(_: Random, shape: tuple[int, ...], *, numbers: str) -> Array:
    """The whole numbers of a text in their order, from the first again where the shape has more elements."""
    return np.resize(np.array(numbers.split(), np.int64), shape)


def ids_with_end(random: Random, shape: tuple[int, ...], *, high: int, end: int) -> Array:
    """Whole numbers below `high`; the last of each row is `end`, and no other is."""
    ids = random.integers(0, high - 1, shape)
    ids += ids >= end
    ids[..., -1:] = end
    return ids


def ids_with_image(random: Random, shape: tuple[int, ...], *, high: int, image: int, count: int) -> Array:
    """Whole numbers below `high`; the first `count` of each row are the token `image`, and no others are."""
    if shape[-1] < count:
        raise ValueError(f"an image is {count} tokens long")
    ids = integers(random, shape, high=high - 1)
    ids += ids >= image
    ids[..., :count] = image
    return ids


def size(random: Random, shape: tuple[int, ...], *, of: Array) -> Array:  # noqa: ARG001
    """The length of another dummy, for a number that is the size of an axis: `size(of=NestedDummy("uniform", "n"))`."""
    return np.full(shape, len(of))


def uniform(random: Random, shape: tuple[int, ...], *, low: float = -1.0, high: float = 1.0) -> Array:
    """Uniformly distributed numbers between `low` and `high`."""
    return random.uniform(low, high, shape)


SCALES = (1.0, 0.125, 8.0)
"""The scales of the rows of a dummy that `scaled` makes."""


def scaled(random: Random, shape: tuple[int, ...], *, low: float, high: float) -> Array:
    """Uniformly distributed numbers between `low` and `high`, each row of the first axis times one of SCALES in turn.

    >>> rows = scaled(np.random.default_rng(0), (3, 4), low=1.0, high=1.0)
    >>> sorted(rows[:, 0].tolist())
    [0.125, 1.0, 8.0]
    """
    rows = (np.arange(shape[0] if shape else 1) + random.integers(len(SCALES))) % len(SCALES)
    scales = np.array(SCALES)[rows].reshape((-1, *[1] * (len(shape) - 1)) if shape else ())
    return np.asarray(random.uniform(low, high, shape) * scales)


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


def normal(random: Random, shape: tuple[int, ...], *, deviation: float = 1.0) -> Array:
    """Normally distributed numbers with mean 0."""
    return random.normal(0.0, deviation, shape)


def constant(_: Random, shape: tuple[int, ...], *, value: float = 0) -> Array:
    """The same value everywhere."""
    return np.full(shape, value)


def positions(_: Random, shape: tuple[int, ...], *, mask: Array | None = None) -> Array:
    """Position ids along the last axis: 0, 1, 2, ...; with a mask, those of its last tokens, padding not counted.

    >>> positions(np.random.default_rng(0), (1, 3), mask=np.array([[0, 0, 1, 1, 1]])).tolist()
    [[0, 1, 2]]
    """
    if mask is None:
        return np.broadcast_to(np.arange(shape[-1]), shape).copy()
    position_ids: Array = np.maximum(mask.cumsum(axis=-1) - 1, 0)
    return position_ids[..., position_ids.shape[-1] - shape[-1] :]


def mrope_positions(_: Random, shape: tuple[int, ...], *, text: Array) -> Array:
    """Positions in time, height and width, `[3, batch, length]`, from those of a text: as if each row had two tokens.

    >>> mrope_positions(np.random.default_rng(0), (3, 1, 4), text=np.array([[0, 1, 2, 3]])).tolist()
    [[[0, 1, 2, 3]], [[0, 0, 1, 1]], [[0, 1, 0, 1]]]
    """
    return np.stack([text, text // 2, text % 2]).reshape(shape)


def mask(_: Random, shape: tuple[int, ...], *, padding: str = "right", shortest: int = 1) -> Array:
    """1 for a token and 0 for padding, which is at the `right`, at the `left`, or nowhere (`none`).

    The last axis is the sequence. The first of several rows has no padding, each further row has more, at most half.
    No row has fewer tokens than `shortest`, unless the sequence is shorter.

    >>> mask(np.random.default_rng(0), (2, 4), padding="left").tolist()
    [[1, 1, 1, 1], [0, 1, 1, 1]]
    """
    refuse_unknown("padding", padding, get_args(Side))
    length = shape[-1]
    if padding == "none" or length < 2:  # noqa: PLR2004 - a sequence of one token has no room for padding
        return np.ones(shape, dtype=np.int64)
    rows = int(np.prod(shape[:-1]))
    order = np.arange(rows) + (rows == 1)
    pad_counts = np.maximum((order * length) // (2 * rows), order > 0)
    token_counts = np.maximum(length - pad_counts, min(shortest, length)).reshape(shape[:-1])[..., None]
    indices = np.arange(length)
    tokens: Array = indices < token_counts if padding == "right" else indices >= length - token_counts
    return tokens.astype(np.int64)


def in_buffer(_: Random, shape: tuple[int, ...], *, tokens: Array) -> Array:
    """A mask of tokens, and 0 up to the end of a buffer.

    >>> in_buffer(np.random.default_rng(0), (1, 4), tokens=np.array([[0, 1]])).tolist()
    [[0, 1, 0, 0]]
    """
    return np.pad(tokens, [(0, 0)] * (tokens.ndim - 1) + [(0, shape[-1] - tokens.shape[-1])])


def mixed_mask(_: Random, shape: tuple[int, ...], *, sides: str = "right left holes", shortest: int = 1) -> Array:
    """1 for a token and 0 for padding; each row has the padding that is the next word of `sides`.

    A third of a row is 0: at its `right`, at its `left`, or every third token but the first and last (`holes`). Or all
    of it is 0 but the first tokens, as many as `shortest` (`first`).

    >>> mixed_mask(np.random.default_rng(0), (4, 6), sides="right left holes first").tolist()
    [[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [1, 0, 0, 0, 0, 0]]
    """
    tokens, words, third = np.ones(shape, dtype=np.int64), sides.split(), shape[-1] // 3
    masked = {
        "right": slice(shape[-1] - third, None),
        "left": slice(0, third),
        "holes": slice(1, -1, 3),
        "first": slice(shortest, None),
        "none": slice(0, 0),
    }
    for index, row in enumerate(tokens.reshape(-1, shape[-1])):
        row[masked[words[index % len(words)]]] = 0
    return tokens


def special_ids(
    _: Random, shape: tuple[int, ...], *, ids: Array, mask: Array, pad: int | None = None, end: int | None = None
) -> Array:
    """Token ids with the token `pad` where the mask is 0, and with the token `end` after a third of each row.

    If a third of a row is followed by padding, its first token is `end`. End tokens among `ids` stay. The last axis of
    the mask may be longer: its last elements count.

    >>> ids, mask = np.array([[5, 6, 7, 8], [5, 6, 7, 8]]), np.array([[1, 1, 1, 0], [1, 0, 0, 0]])
    >>> special_ids(np.random.default_rng(0), (2, 4), ids=ids, mask=mask, pad=0, end=2).tolist()
    [[5, 2, 7, 0], [2, 0, 0, 0]]
    """
    special, length = ids.copy(), shape[-1]
    tokens = mask[..., mask.shape[-1] - length :]
    if pad is not None:
        special[(tokens == 0) & (ids != end)] = pad
    if end is not None:
        third = length // 3
        places = np.where(tokens[..., third] == 0, tokens.argmax(axis=-1), third)
        np.put_along_axis(special, places[..., np.newaxis], end, axis=-1)
    return special


def first_one(_: Random, shape: tuple[int, ...]) -> Array:
    """1 at the start of the last axis and 0 elsewhere."""
    array = np.zeros(shape, dtype=np.int64)
    array[..., :1] = 1
    return array


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
    return np.sort(random.integers(0, high, (*shape[:-1], 2, 2)), axis=-2).reshape(shape)


FILLS: Mapping[str, Fill] = MappingProxyType(
    {
        fill.__name__: fill
        for fill in (
            *(integers, ids_with_end, ids_with_image, size, uniform, scaled, two_values, normal, constant, positions),
            *(mrope_positions, mask, in_buffer, mixed_mask, special_ids, first_one, repeated),
            *(grids, packed_grids, rectangles, grid_mask, grid_positions, boxes),
        )
    }
)
"""The functions that generators name."""
