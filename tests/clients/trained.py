"""A tiny model that is trained until its results do not depend on rounding."""

from itertools import product
from typing import Any

import torch

MASK = 16
"""The height and width of the masks that a tiny DETR gives for an image of 64 x 64 points."""

BACKGROUND = 5
"""The class of no object."""

CLASSES = (0, 1, 2, 3, *[BACKGROUND] * 3)
"""The class of each query: the first four see the quarters of an image."""

STEPS, RATE = 400, 3e-3


def quarter_masks() -> torch.Tensor:
    masks, half = torch.zeros(4, MASK, MASK), MASK // 2
    for mask, (row, column) in zip(masks, product((0, half), (0, half)), strict=True):
        mask[row : row + half, column : column + half] = 1
    return masks


def train_on_quarters(model: Any, image: torch.Tensor) -> None:
    """Trains a DETR to give an image's quarters as segments of four classes; random weights give ties of all queries.

    Args:
        model: A `DetrForSegmentation` with seven queries and five classes.
        image: The image as the model gets it, `[1, 3, 64, 64]`.
    """
    classes, masks = torch.tensor(CLASSES), quarter_masks()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    with torch.enable_grad():
        for _ in range(STEPS):
            given = model(pixel_values=image)
            of_classes = torch.nn.functional.cross_entropy(given.logits[0], classes)
            of_masks = torch.nn.functional.binary_cross_entropy_with_logits(given.pred_masks[0, : len(masks)], masks)
            optimizer.zero_grad()
            (of_classes + 5 * of_masks).backward()
            optimizer.step()
