"""Modules of libraries that onnxfn has no rows for, and the inputs at which their files are tried.

A line of `modules.txt` is a Python module, an expression in its names that makes a `torch.nn.Module`, and a key of
`INPUTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

LIBRARIES = (
    *("torchvision", "segmentation-models-pytorch", "monai", "kornia", "x-transformers", "vit-pytorch", "conformer"),
    *("pytorch-tabnet", "tab-transformer-pytorch", "torch-geometric", "speechbrain", "asteroid-filterbanks", "nnaudio"),
)
"""The distributions whose modules these are."""


@frozen
class Inputs:
    """The inputs of a module.

    Attributes:
        make: Makes the tensors from the sizes of the moving axes.
        axes: The axes of each tensor.
        sample: The sizes of the sample.
        far: The sizes at which the files are compared, where PyTorch takes these.
    """

    make: Callable[..., Sequence[Tensor]]
    axes: Sequence[str]
    sample: Mapping[str, int]
    far: Sequence[Mapping[str, int]]


def _sides(*sizes: tuple[int, int, int]) -> list[dict[str, int]]:
    return [dict(zip(("batch_size", "height", "width"), each, strict=True)) for each in sizes]


def _images(channels: int, batch_size: int, height: int, width: int) -> list[Tensor]:
    return [torch.randn(batch_size, channels, height, width)]


def _pictures(channels: int, batch_size: int, height: int, width: int) -> list[Tensor]:
    return [torch.rand(batch_size, channels, height, width)]


FAR_IMAGES = _sides((1, 33, 47), (3, 97, 131), (1, 128, 192), (3, 224, 160), (1, 320, 256))
SIDES = "height width"


def _of_images(make: Callable[..., list[Tensor]], channels: int, sample: tuple[int, int, int] = (2, 64, 96)) -> Inputs:
    return Inputs(
        lambda **sizes: make(channels, **sizes), (f"batch_size {channels} {SIDES}",), _sides(sample)[0], FAR_IMAGES
    )


def _lengths(make: Callable[[int, int], Tensor], name: str, axes: str, sample: int, *far: int) -> Inputs:
    """One tensor with a batch and a length."""
    sizes = [{"batch_size": 1 + number % 3, name: length} for number, length in enumerate((sample, *far), start=1)]
    return Inputs(lambda **each: [make(each["batch_size"], each[name])], (axes,), sizes[0], sizes[1:])


def _fixed(channels: int, side: int) -> Inputs:
    """Square images of one size: the batch alone moves."""
    return Inputs(
        lambda batch_size: [torch.rand(batch_size, channels, side, side)],
        (f"batch_size {channels} {side} {side}",),
        {"batch_size": 2},
        [{"batch_size": size} for size in (1, 3, 17)],
    )


def _graph(nodes: int, edges: int) -> list[Tensor]:
    return [torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges))]


INPUTS: Mapping[str, Inputs] = {
    "image": _of_images(_images, 3),
    "large image": Inputs(
        lambda **sizes: _images(3, **sizes),
        (f"batch_size 3 {SIDES}",),
        _sides((2, 288, 320))[0],
        _sides((1, 320, 384), (3, 128, 192), (1, 449, 301), (1, 608, 512)),
    ),
    "one picture": Inputs(
        lambda height, width: [torch.rand(3, height, width)],
        (f"3 {SIDES}",),
        {"height": 96, "width": 128},
        [{"height": height, "width": width} for height, width in ((64, 100), (131, 97), (200, 160), (128, 128))],
    ),
    "gray image": _of_images(_images, 1),
    "picture": _of_images(_pictures, 3),
    "gray picture": _of_images(_pictures, 1),
    "two images": Inputs(
        lambda **sizes: [*_images(3, **sizes), *_images(3, **sizes)],
        (f"batch_size 3 {SIDES}",) * 2,
        _sides((2, 128, 160))[0],
        _sides((1, 160, 128), (3, 192, 256), (1, 256, 320)),
    ),
    "image of patches": Inputs(
        lambda **sizes: _images(3, **sizes),
        (f"batch_size 3 {SIDES}",),
        _sides((2, 128, 192))[0],
        _sides((1, 192, 128), (3, 64, 64), (1, 320, 256)),
    ),
    "fixed image": _fixed(3, 64),
    "patch": _fixed(1, 32),
    "video": Inputs(
        lambda batch_size, frames, height, width: [torch.randn(batch_size, 3, frames, height, width)],
        (f"batch_size 3 frames {SIDES}",),
        {"batch_size": 2, "frames": 4, "height": 32, "width": 48},
        [{"frames": 4 + 3 * number, **sizes} for number, sizes in enumerate(FAR_IMAGES[:4])],
    ),
    "volume": Inputs(
        lambda batch_size, depth, height, width: [torch.randn(batch_size, 1, depth, height, width)],
        (f"batch_size 1 depth {SIDES}",),
        {"batch_size": 2, "depth": 16, "height": 32, "width": 24},
        [{"depth": 16 * number, **sizes} for number, sizes in enumerate(FAR_IMAGES[1:4], start=1)],
    ),
    "tokens": _lengths(lambda *shape: torch.randint(0, 50, shape), "length", "batch_size length", 12, 1, 33, 100, 255),
    "frames": _lengths(lambda *shape: torch.randn(*shape, 32), "length", "batch_size length 32", 20, 7, 33, 250),
    "features": _lengths(lambda *shape: torch.randn(*shape, 40), "length", "batch_size length 40", 50, 33, 101, 400),
    "samples": _lengths(torch.randn, "samples", "batch_size samples", 4000, 1601, 9000, 48000),
    "long samples": _lengths(torch.randn, "samples", "batch_size samples", 32000, 24001, 48000, 90000),
    "sound": _lengths(
        lambda batch, samples: torch.randn(batch, 1, samples),
        "samples",
        "batch_size 1 samples",
        4000,
        1601,
        9000,
        48000,
    ),
    "spectrum": _lengths(lambda *shape: torch.rand(*shape, 201), "frames", "batch_size frames 201", 50, 33, 101, 400),
    "table": Inputs(
        lambda rows: [torch.randn(rows, 8)], ("rows 8",), {"rows": 4}, [{"rows": rows} for rows in (1, 7, 1000)]
    ),
    "columns": Inputs(
        lambda rows: [torch.zeros(rows, 0, dtype=torch.long), torch.randn(rows, 8)],
        ("rows 0", "rows 8"),
        {"rows": 4},
        [{"rows": rows} for rows in (1, 7, 1000)],
    ),
    "graph": Inputs(
        _graph,
        ("nodes 8", "2 edges"),
        {"nodes": 10, "edges": 24},
        [{"nodes": nodes, "edges": edges} for nodes, edges in ((5, 5), (7, 40), (300, 200), (100, 2000))],
    ),
}


@frozen
class Row:
    """A module of a library: its Python module, the expression that makes it, and the key of its inputs."""

    module: str
    expression: str
    inputs: str

    @property
    def name(self) -> str:
        """The library and the class, with its arguments where a class is tried twice."""
        return f"{self.module.split('.')[0]}.{self.expression}"


def rows() -> list[Row]:
    """The rows of `modules.txt`."""
    lines = Path(__file__).with_suffix(".txt").read_text().splitlines()
    return [Row(*line.split(" | ")) for line in lines]


def made(row: Row) -> Any:
    """The module of a row, with random weights."""
    torch.manual_seed(0)
    # The expressions are those of the file next to this one.
    return eval(row.expression, {"torch": torch, **vars(import_module(row.module))}).eval()  # noqa: S307
