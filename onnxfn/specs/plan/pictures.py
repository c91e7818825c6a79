"""Pictures that are made from random numbers, in place of photographs."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator as Random

from onnxfn.specs.algebra.dummies import Array


def picture(random: Random, height: int, width: int) -> Array:
    """A picture `[height, width, 3]` in bytes: waves over a gradient, up to four disks and boxes with waves, and noise.

    >>> picture(np.random.default_rng(0), 2, 3).shape
    (2, 3, 3)
    """
    y, x = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")

    def waves() -> Array:
        (angle, phase), rate = random.uniform(0, 2 * np.pi, 2), random.uniform(1, 40)
        along = np.cos(angle) * x + np.sin(angle) * y
        first, second = random.uniform(0, 1, (2, 3))
        share = 0.5 * along + random.uniform(0, 0.5) * np.sin(rate * along + phase)
        return np.asarray(first + share[..., None] * (second - first))

    image = waves()
    for _ in range(random.integers(5)):
        size, *center = random.uniform(0.05, 0.95, 3)
        distances = np.abs(np.stack([y, x]) - np.reshape(center, (2, 1, 1)))
        order = random.choice([2, np.inf])  # a disk or a box
        image = np.where((np.linalg.norm(distances, order, axis=0) < size / 2)[..., None], waves(), image)
    image = image + random.normal(0, random.uniform(0, 0.1), image.shape)
    return (image.clip(0, 1) * 255).astype(np.uint8)
