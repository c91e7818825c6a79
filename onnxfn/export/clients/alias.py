"""An alias in `config.json`: a model type that clients know, in place of the true one. Only on request.

transformers.js reads the type for the names of the cache alone, ORTModel for its heads and widths. So a decoder with
keys and values of any other type can pass for a gemma, whose heads and width are what `config.json` says.
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
    """What an alias changes in a configuration; nothing if clients load the plan anyway, or would not with an alias."""
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
    """The line of a plan that says what the alias states, and what is true."""
    stated = ", ".join(f"{name} {value}" for name, value in change.items() if config.get(name) != value)
    return (f"config.json is not true of this model, on request: {stated}; it is {config.get('model_type')}",)
