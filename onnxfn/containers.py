"""Objects that `forward` takes and that hold tensors, made of the tensors at their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Kept = Mapping[str, Mapping[str, Any]]
"""Layer -> attribute of that layer of the cache -> tensor."""


def dynamic_cache(_: Any, kept: Kept) -> Any:
    """A cache of transformers that holds these tensors, layer by layer.

    A layer with a sliding window keeps everything here: the model's mask applies the window, and a cache that cuts
    itself to the window counts tokens in Python, which a trace would bake in (transformers.cache_utils, 5.23).
    """
    from transformers.cache_utils import DynamicCache

    cache = DynamicCache()
    cache.layers = [_layer(kept.get(str(index), {})) for index in range(1 + max(map(int, kept), default=-1))]
    return cache


def _layer(tensors: Mapping[str, Any]) -> Any:
    from transformers.cache_utils import DynamicLayer

    layer = DynamicLayer()
    layer.keys, layer.values = tensors["keys"], tensors["values"]
    layer.dtype, layer.device = layer.keys.dtype, layer.keys.device
    layer.is_initialized = True
    return layer


BUILDERS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType({"dynamic_cache": dynamic_cache})
