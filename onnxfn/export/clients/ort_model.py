"""ORTModel of optimum-onnx 0.1.0: its model types, its rule for the empty cache, and its limits."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.export.clients.configuration import config_value, separate_heads
from onnxfn.export.clients.folder import KEY, VALUE, Cache, cache_of, decoder_of, other_inputs, sizes_of, templates
from onnxfn.specs.algebra.planned import Plan

KNOWN_TYPES = frozenset(Path(__file__).with_name("ort_model_types.txt").read_text(encoding="utf-8").split())
"""The types of transformers 4.57.6, the last version that optimum-onnx 0.1.0 allows."""

NAME = "ORTModel"

INPUTS = ("input_ids", "attention_mask", "position_ids")
"""The inputs that it computes for a decoder."""

OWN_WIDTH = frozenset({"gemma", "gemma3", "gemma3_text", "gpt_oss", "nemotron"})
"""Types with heads of the width `head_dim`; for all others it is the hidden size divided by the number of heads."""

GROUPED_HEADS = OWN_WIDTH | frozenset(
    {
        *("arcee", "cohere", "deepseek_v3", "glm", "granite", "helium", "llama", "mistral", "qwen2", "qwen3"),
        *("qwen3_moe", "smollm3", "stablelm"),
    }
)
"""Types with `num_key_value_heads` in the cache; all others have `num_attention_heads`."""

WIDTHS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"deepseek_v3": MappingProxyType({KEY: ("qk_nope_head_dim", "qk_rope_head_dim"), VALUE: ("v_head_dim",)})}
)
"""Types with latent attention: a key and a value of a head are each as wide as these values together."""


def ort_model_limits(plan: Plan, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Why ORTModel cannot load a plan; empty if nothing is known against it."""
    model_type, decoder = str(config.get("model_type") or ""), decoder_of(plan)
    if model_type and model_type not in KNOWN_TYPES:
        return (f"{NAME} does not know {model_type}: it needs transformers 4.57",)
    if decoder is None:
        return _unlike_heads(plan, model_type, config)
    if not model_type:
        return ()
    extra = other_inputs(decoder, INPUTS)
    if extra:
        return (f"{NAME} gives no {extra[0]}, which the graph takes",)
    cache = cache_of(decoder)
    other = [name for name in templates(cache) if name not in (KEY, VALUE)]
    if other:
        return (f"{NAME} has no cache but keys and values, and {model_type} has {other[0].replace('%d', '0')}",)
    return _size_limits(cache, model_type, config)


def _unlike_heads(plan: Plan, model_type: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The fault of the empty cache of an encoder-decoder: ORTModel gives it the heads of the encoder."""
    encoder, decoder = (config.get(f"{half}_attention_heads") for half in ("encoder", "decoder"))
    with_cache = ("text2text-generation-with-past", "automatic-speech-recognition-with-past")
    if plan.task not in with_cache or encoder is None or decoder in (None, encoder):
        return ()
    return (f"{NAME} starts {model_type} with a cache of {encoder} heads, those of the encoder, not {decoder}",)


def _size_limits(cache: Cache, model_type: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The fault of the empty cache that ORTModel starts from, and whether it is right for the root layout."""
    wrong = _wrong_sizes(cache, _expected(model_type, separate_heads(None, config)))
    if wrong is None:
        return ()
    started, own = (f"{heads} x {width}" for heads, width in wrong)
    loads = "" if _wrong_sizes(cache, _expected(model_type, config)) else "; it loads the folder of --layout optimum"
    if model_type in WIDTHS and all(sizes[1] == 1 for sizes in sizes_of(cache, KEY)):
        loads = "; it loads the cache of --expanded-cache"
    return (f"{NAME} starts {model_type} with a cache of {started} for heads and width, not {own}{loads}",)


def _wrong_sizes(cache: Cache, expected: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any] | None:
    """The first heads and width of a cache that are not the expected ones: these, and its own; None if all are."""
    every = ((expected[name], (sizes[1], sizes[-1])) for name in expected for sizes in sizes_of(cache, name))
    return next(((right, own) for right, own in every if own != right), None)


def _expected(model_type: str, config: Mapping[str, Any]) -> Mapping[str, tuple[Any, Any]]:
    """The heads of the empty cache and the width of each, for keys and for values."""
    attention_heads, hidden = config_value(config, "num_attention_heads"), config_value(config, "hidden_size")
    grouped = config_value(config, "num_kv_heads" if model_type == "falcon" else "num_key_value_heads")
    has_groups = grouped and (model_type in GROUPED_HEADS or model_type == "falcon")
    heads = 1 if separate_heads(None, config) != config else grouped if has_groups else attention_heads
    own = config_value(config, "head_dim") if model_type in OWN_WIDTH else None
    width = own or (hidden // attention_heads if hidden and attention_heads else None)
    parts = WIDTHS.get(model_type, {})
    return {
        name: (heads, sum(config.get(part) or 0 for part in parts[name]) if name in parts else width)
        for name in (KEY, VALUE)
    }
