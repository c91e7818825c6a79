"""An alias in `config.json`: a model type that clients know, in place of the true one. Only on request.

transformers.js uses the type only for the names of the cache, ORTModel for its heads and widths. So `config.json` may
say `gemma` for any decoder with keys and values: both clients then take heads and width from `config.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxfn.export.clients.caches import KEY, VALUE, cache_of, decoder_of, sizes_of, templates
from onnxfn.export.clients.folder import CONFIG, Folder, changed, json_object
from onnxfn.export.clients.ort_model import ort_model_limits
from onnxfn.export.clients.tokenizer import TOKENIZER, TOKENIZER_CONFIG
from onnxfn.export.clients.transformers_js import transformers_js_limits
from onnxfn.specs.algebra.planned import Plan

ALIAS = "gemma"
"""A type with keys and values, grouped heads, and a width of its own."""


def alias_of(plan: Plan, config: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of a configuration by an alias; empty if clients load the plan anyway, or not even with an alias."""
    part, limits = decoder_of(plan), (*transformers_js_limits(plan, config), *ort_model_limits(plan, config))
    if part is None or not limits or not {*templates(cache_of(part))} <= {KEY, VALUE}:
        return {}
    cache = cache_of(part)
    sizes = sizes_of(cache, KEY)
    if len({*sizes, *sizes_of(cache, VALUE)}) > 1:
        return {}
    layers = max(tensor.layer for tensor in cache) + 1
    heads = {"num_key_value_heads": sizes[0][1], "head_dim": sizes[0][-1]}
    return {"model_type": ALIAS, "num_hidden_layers": layers, **heads}


def alias(folder: Folder) -> dict[str, str]:
    """`config.json` with an alias, and a tokenizer whose class does not follow from it."""
    config = json_object(folder, CONFIG)
    change = alias_of(folder.plan, config) if config is not None else {}
    if config is None or not change:
        return {}
    tokenizer = json_object(folder, TOKENIZER_CONFIG)
    named = {"tokenizer_class": "PreTrainedTokenizerFast", **tokenizer} if tokenizer is not None else None
    fast = changed(folder, TOKENIZER_CONFIG, named) if TOKENIZER in folder.names else {}
    return {**changed(folder, CONFIG, {**config, **change}), **fast}


def alias_remarks(change: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str, ...]:
    """The remark of a plan about an alias: the stated values, and the real type."""
    stated = ", ".join(f"{name} {value}" for name, value in change.items() if config.get(name) != value)
    return (f"as requested, config.json says {stated}; the real type is {config.get('model_type')}",)
