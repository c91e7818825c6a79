"""One sequence of embeddings from the tokens of a text and the features of images and sounds; its positions."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import InvalidSpec

Positions = Callable[[Array], Array]
"""From the mask of texts, `[batch, length]`, to the positions of tokens: of that shape, or `[3, batch, length]`."""


def merged_embeddings(embeddings: Array, input_ids: Array, features: Mapping[int, Array]) -> Array:
    """The embeddings of tokens, `[batch, length, width]`, with features in the places of placeholder tokens.

    By the id of a placeholder token, `features` has the rows that replace its embeddings in order, `[rows, width]`.
    InvalidSpec if there are more or fewer rows than placeholder tokens, or if they have another width.
    """
    merged = embeddings.copy()
    for token, rows in features.items():
        is_placeholder = input_ids == token
        if (count := int(is_placeholder.sum())) != len(rows):
            raise InvalidSpec(
                f"{len(rows)} rows of features for {count} placeholder tokens (id {token}); "
                "a prompt has one for each row"
            )
        if count and rows.shape[-1] != merged.shape[-1]:
            raise InvalidSpec(f"features of the width {rows.shape[-1]} for embeddings of the width {merged.shape[-1]}")
        merged[is_placeholder] = rows
    return merged


def token_positions(mask: Array, first: int = 0) -> Array:
    """The position of each token in its text; those of padding are the first.

    >>> token_positions(np.array([[0, 1, 1]])).tolist(), token_positions(np.array([[1, 1]]), first=1).tolist()
    ([[0, 0, 1]], [[1, 2]])
    """
    positions: Array = np.maximum(mask.cumsum(axis=1) - 1, 0) + first
    return positions


def mrope_positions(
    mask: Array, input_ids: Array, grids: Mapping[int, Array], *, merge_size: int, newlines: int = 0
) -> Array:
    """The positions in time, height and width of the tokens of texts with images (M-RoPE).

    An image has a grid of positions that begins after the token before it. The next token follows on its largest one.
    The texts of the mask may be longer than `input_ids`: then the last tokens are not images. By the id of a
    placeholder token, `grids` has the patches of each image in time, height and width, `[images, 3]`, in order.
    `merge_size` patches in height, and in width, become one token; `newlines` tokens follow each row of these. The
    result is `[3, batch, length]`, 0 for padding.

    Source: "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution", arXiv 2409.12191.
    """
    positions = np.zeros((3, *mask.shape), dtype=np.int64)
    merges, last = [1, merge_size, merge_size], [0, 0, newlines]
    sizes = {token: of_token.reshape(-1, 3) // merges for token, of_token in grids.items()}
    left: dict[int | None, Iterator[Array]] = {token: iter(each + last) for token, each in sizes.items()}
    for row, tokens in enumerate(input_ids):
        is_token = mask[row].astype(bool)
        new = mask.shape[1] - len(tokens)
        ids = [*tokens[is_token[: len(tokens)]].tolist(), *[None] * new]
        positions[:, row, is_token] = _text_positions(ids, left)
    return positions


def _next_grid(grids: Iterator[Array]) -> tuple[int, ...]:
    """The tokens of the next image in time, height and width. InvalidSpec if there is none."""
    grid = next(grids, None)
    if grid is None:
        raise InvalidSpec(
            "a text has more tokens of images than merged patches: the positions are not those of Qwen2-VL, nor known"
        )
    return tuple(map(int, grid))


def _text_positions(ids: Sequence[int | None], grids: Mapping[int | None, Iterator[Array]]) -> Array:
    """The positions of the tokens of one text without padding, `[3, length]`. `grids` are those of the images left."""
    columns, index, start = [np.zeros((3, 0), dtype=np.int64)], 0, 0
    while index < len(ids):
        left = grids.get(ids[index])
        grid = (1, 1, 1) if left is None else _next_grid(left)
        of_grid = np.indices(grid).reshape(3, -1)
        columns.append(of_grid + start)
        index, start = index + of_grid.shape[1], start + max(grid[1:])
    return np.concatenate(columns, axis=1)
