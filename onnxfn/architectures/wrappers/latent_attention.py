"""Multi-head latent attention whose cache holds the keys and values of all heads (DeepSeek-V3, transformers 5.23)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any

from onnxfn.architectures.private.renamed import name_among
from onnxfn.architectures.wrappers.modules import module

EXPAND = "expand_kv"
"""The method of an attention layer that computes keys and values of what is cached."""


def with_expanded_cache(model: Any) -> Any:
    """The model; each attention layer adds keys and values to the cache, in place of what they are computed from.

    A layer updates its cache and then expands what the cache gives (`DeepseekV3Attention.forward`). Here the update
    gives the new latents back, and the expansion of these updates the cache.
    """
    argument = name_among("past_key_values", signature(model.forward).parameters)

    @wraps(model.forward)
    def forward(*arguments: Any, **named: Any) -> Any:
        cache = named.get(argument)
        if cache is None and named.get("use_cache", model.config.use_cache):
            from transformers import DynamicCache

            cache = DynamicCache(config=model.config)
        with _expanding(model, cache):
            return model(*arguments, **{**named, argument: cache})

    return module(forward)


@contextmanager
def _expanding(model: Any, cache: Any) -> Iterator[None]:
    """Within it, the layers of a model with latent attention expand before they cache; nothing without a cache."""
    layers = [] if cache is None else [layer for layer in model.modules() if hasattr(layer, EXPAND)]
    if not layers:
        yield
        return
    update = cache.update
    for layer in layers:
        setattr(layer, EXPAND, _cached(getattr(layer, EXPAND), update, layer.layer_idx))
    cache.update = lambda latents, rotated, *_, **__: (latents, rotated)
    try:
        yield
    finally:
        del cache.update
        for layer in layers:
            delattr(layer, EXPAND)


def _cached(expand: Callable[..., Any], update: Callable[..., Any], index: int) -> Callable[..., Any]:
    """The expansion of new latents, and with it all keys and values that the cache then has."""

    def expanded(latents: Any, rotated: Any) -> Any:
        return update(*expand(latents, rotated), index)

    return expanded
