"""The list of layers in a model that hand hidden states on, and the shapes of the values between them in a graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from onnxfn.check.cuts.cut import CHECK_WHOLE, Fits
from onnxfn.specs.errors import InvalidSpec

LEAST_LAYERS = 2
"""The least number of layers of a chain."""


def layer_paths(model: Any, weights: Collection[str]) -> tuple[str, ...]:
    """The paths of the layers of a model, in their order: of its lists of modules the one with the most parameters.

    Each layer must have weights among the names `weights`, those of a graph. InvalidSpec if there is no such list.
    """
    import torch

    lists = [
        (sum(weight.numel() for weight in module.parameters()), path, len(module))
        for path, module in model.named_modules()
        if type(module) in (torch.nn.ModuleList, torch.nn.Sequential) and len(module) >= LEAST_LAYERS
    ]
    for _, path, length in sorted(lists, key=lambda each: -each[0]):
        paths = tuple(f"{path}.{index}".removeprefix(".") for index in range(length))
        if all(any(name.startswith(f"{each}.") for name in weights) for each in paths):
            return paths
    raise InvalidSpec(f"{type(model).__name__} has no list of layers with weights in this graph; {CHECK_WHOLE}")


def fits_shapes(graph: Any, shapes: Iterable[tuple[int, ...]], sizes: Mapping[str, int]) -> Fits:
    """Whether a value of a graph may have the shape of the hidden states before a layer, or after the last one.

    `shapes` and `sizes`: those of the hidden states and of the symbols in a case, as far as they are known.
    """
    axes = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input, *graph.output)}
    expected = tuple(shapes)

    def fits(name: str, layer: int) -> bool:
        if name not in axes or not axes[name].HasField("shape"):
            return True
        dims = axes[name].shape.dim
        known = [dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param) for dim in dims]
        shape = expected[layer]
        return len(known) == len(shape) and all(own in (None, size) for own, size in zip(known, shape, strict=True))

    return fits
