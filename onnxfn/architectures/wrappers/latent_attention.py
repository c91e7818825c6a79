"""Multi-head latent attention whose cache holds the keys and values of all heads (DeepSeek-V3, transformers 5.23)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from typing import Any

from onnxfn.architectures.private.renamed import name_among, renamed
from onnxfn.architectures.wrappers.modules import module

EXPAND = "expand_kv"
"""The method of an attention layer that computes keys and values from cached latents."""


def with_expanded_cache(model: Any) -> Any:
    """The model; each attention layer adds keys and values to the cache, in place of latents.

    In the original a layer updates its cache, then expands it. Here the expansion of new latents updates the cache.
    """
    names = signature(model.forward).parameters
    argument = name_among("past_key_values", names)

    @wraps(model.forward)
    def forward(*arguments: Any, **named: Any) -> Any:
        named = renamed(named, names)
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
    update, passed = cache.update, dict[int, Any]()

    def expanded(expand: Callable[..., Any], index: int, kv_nope: Any, k_rot: Any) -> Any:
        arguments, named = passed[index]
        return update(*expand(kv_nope, k_rot), index, *arguments, **named)

    for layer in layers:
        setattr(layer, EXPAND, partial(expanded, getattr(layer, EXPAND), layer.layer_idx))
    cache.update = unexpanded(passed)
    try:
        yield
    finally:
        del cache.update
        for layer in layers:
            delattr(layer, EXPAND)


def unexpanded(passed: dict[int, Any]) -> Callable[..., tuple[Any, Any]]:
    """A function for Cache.update that returns the unexpanded states; `passed` gets what layers hand it beside them."""

    def update(key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        passed[layer_idx] = (args, kwargs)
        return key_states, value_states

    return update
