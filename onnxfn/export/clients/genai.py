"""onnxruntime-genai 0.18: its model types, its limits, and `genai_config.json`, also for Whisper."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.export.clients.caches import KEYS, VALUES, CacheTensor, cache_of, decoder_of, of_attribute, other_inputs
from onnxfn.export.clients.configuration import config_value
from onnxfn.export.clients.folder import CONFIG, GENERATION_CONFIG, Folder, changed, json_object
from onnxfn.export.clients.genai_images import VISION_PROCESSOR, decoder_with_images, image_blocks, sees_in_genai
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP
from onnxfn.specs.edits.token_embeddings import EMBEDS

ENCODER, DECODER = "encoder", "decoder"
SIZES = (
    ("head_size", None),
    ("hidden_size", "d_model"),
    ("num_attention_heads", "{}_attention_heads"),
    ("num_key_value_heads", "{}_attention_heads"),
    ("num_hidden_layers", "{}_layers"),
)
"""Keys of a part, and the keys of Whisper's configuration. A head is as wide as the model divided by its heads."""

PORTS: Mapping[str, Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        ENCODER: {
            "inputs": {"audio_features": "audio_features"},
            "outputs": {
                "encoder_hidden_states": "hidden_states",
                "cross_present_key_names": "present_key_cross_%d",
                "cross_present_value_names": "present_value_cross_%d",
            },
        },
        DECODER: {
            "inputs": {
                "input_ids": "input_ids",
                "past_key_names": "past_key_self_%d",
                "past_value_names": "past_value_self_%d",
                "cross_past_key_names": "past_key_cross_%d",
                "cross_past_value_names": "past_value_cross_%d",
            },
            "outputs": {
                "logits": "logits",
                "present_key_names": "present_key_self_%d",
                "present_value_names": "present_value_self_%d",
            },
        },
    }
)
"""The parts of Whisper -> the names that the runtime reads of their inputs and outputs."""


def is_whisper(plan: Plan) -> bool:
    """Whether a plan is from `whisper_for_genai`, in one dtype."""
    stems = {part.name for part in plan.parts}
    return stems == {ENCODER, DECODER} and "audio_features" in plan[ENCODER].inputs


def whisper_parts(config: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The type and the blocks of both files in `model`."""
    parts = {
        name: {"filename": f"{folder}/{name}.onnx".removeprefix("/"), **_sizes(config, name), **ports}
        for name, ports in PORTS.items()
    }
    return {"type": "whisper", **parts}


def _sizes(config: Mapping[str, Any], part: str) -> dict[str, int]:
    sizes = {key: config[source.format(part)] for key, source in SIZES if source is not None}
    return {"head_size": sizes["hidden_size"] // sizes["num_attention_heads"], **sizes}


NAME = "onnxruntime-genai"
GENAI_CONFIG = "genai_config.json"

GENERIC_WORD = "decoder"
"""The value of `model.type` for a decoder of any type."""

WORDS = frozenset(
    {
        *("ernie4_5", "gemma", "gemma2", "gemma3_text", "granite", "lfm2", "llama", "mistral", "nemotron", "olmo"),
        *("phi", "phi3", "phimoe", "qwen2", "qwen3", "smollm3"),
    }
)
"""The model types that are values of `model.type` for a decoder of keys and values; `gpt2` is one for fused caches."""

INPUTS = ("input_ids", "attention_mask", "position_ids")
"""The inputs that the runtime computes for each step, under the names in `genai_config.json`."""

GIVEN = (*INPUTS, NUM_LOGITS_TO_KEEP)
"""The inputs that it passes to a decoder, if the decoder takes them."""

CACHE_WORDS: Mapping[str, str] = MappingProxyType(
    {KEYS: "key", VALUES: "value", "conv_states.0": "conv", "recurrent_states.0": "recurrent"}
)
"""The attribute of a layer of the cache -> the word for it in `past_<word>_names` and `present_<word>_names`."""

LAYER_TYPES_NEEDED = ("lfm2", "lfm2_moe", "lfm3")
"""Model types for which the runtime reads the kind of each layer from `decoder.layer_types`."""

TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")

SEARCH = (
    *("do_sample", "temperature", "top_k", "top_p", "repetition_penalty"),
    *("no_repeat_ngram_size", "length_penalty", "min_length"),
)
"""Keys of `search` that have the meaning of the same keys in `generation_config.json`."""

DEFAULT_LENGTH = 2048
"""The longest text of a model whose configuration states none."""


def genai_config(folder: Folder) -> dict[str, str]:
    """`genai_config.json` for a decoder that the runtime can load; nothing for other plans."""
    config = json_object(folder, CONFIG) or {}
    part = decoder_with_images(folder.plan) if sees_in_genai(folder.plan, config) else decoder_of(folder.plan)
    if part is None or not config or genai_limits(folder.plan):
        return {}
    length = config_value(config, "max_position_embeddings") or config.get("max_target_positions") or DEFAULT_LENGTH
    generation = json_object(folder, GENERATION_CONFIG) or {}
    vocabulary = config_value(config, "vocab_size")
    model = {
        "type": config["model_type"] if config.get("model_type") in WORDS else GENERIC_WORD,
        "vocab_size": vocabulary,
        "context_length": length,
        **_tokens(config, generation, vocabulary),
        **_parts(folder, part, config),
    }
    chosen = {key: generation[key] for key in SEARCH if generation.get(key) is not None}
    # Other graphs append to the cache, so that past and present cannot lie in one buffer.
    search = {**chosen, "max_length": length, "past_present_share_buffer": bool(part.spec.target.shared_cache)}
    return changed(folder, GENAI_CONFIG, {"model": _without_none(model), "search": search})


def genai_limits(plan: Plan) -> tuple[str, ...]:
    """Why the runtime cannot load the decoder of a plan; empty if it can, or if the plan has no decoder."""
    part = decoder_of(plan)
    if part is None or is_whisper(plan):
        return ()
    cache, model, others = cache_of(part), part.spec.name or "this model", other_inputs(part, GIVEN)
    unknown = [tensor.template for tensor in cache if tensor.attribute not in CACHE_WORDS]
    keys, values = ({(each.layer, each.sizes[-1]) for each in of_attribute(cache, name)} for name in (KEYS, VALUES))
    if others:
        return (f"{NAME} gives no {others[0]}, which the graph takes",)
    if unknown:
        return (f"{NAME} cannot have a cache such as {unknown[0].replace('%d', '0')} ({model})",)
    if not keys:
        return (f"{NAME} cannot have a cache without keys and values ({model})",)
    return (f"{NAME} cannot have keys and values of unlike width ({model})",) if keys != values else ()


def _parts(folder: Folder, part: Part, config: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of the files in `model`."""
    if is_whisper(folder.plan):
        return whisper_parts(config, folder.subfolder)
    processor = VISION_PROCESSOR if VISION_PROCESSOR in folder.names else None
    sees = sees_in_genai(folder.plan, config)
    images = image_blocks(folder.plan, config, folder.subfolder, processor) if sees else {}
    return {"decoder": _decoder(part, config, f"{folder.subfolder}/{part.name}.onnx".removeprefix("/")), **images}


def _tokens(config: Mapping[str, Any], generation: Mapping[str, Any], vocabulary: Any) -> dict[str, Any]:
    """The ids of special tokens, from the generation configuration, else from that of the model.

    The runtime cannot load a model with an invalid token id, such as a `pad_token_id` of -1: such ids are left out.
    Without an end it ends a text at the token for padding, so that is left out, too.
    """
    stated = {key: generation[key] if generation.get(key) is not None else config_value(config, key) for key in TOKENS}
    known = {key: _known_tokens(value, vocabulary) for key, value in stated.items()}
    return known if known["eos_token_id"] is not None else {**known, "pad_token_id": None}


def _known_tokens(value: Any, vocabulary: Any) -> Any:
    """An id or a list of ids without those outside a vocabulary; None if none is left.

    >>> _known_tokens([2, 128001], 128), _known_tokens(-1, 128), _known_tokens(5, 128)
    ([2], None, 5)
    """
    if isinstance(value, list):
        return [token for token in value if _known_tokens(token, vocabulary) is not None] or None
    return value if isinstance(value, int) and 0 <= value < (vocabulary or value + 1) else None


def _decoder(part: Part, config: Mapping[str, Any], filename: str) -> dict[str, Any]:
    """The block `model.decoder`: the file, sizes, and the names of inputs and outputs."""
    cache = cache_of(part)
    _, heads, *_, width = of_attribute(cache, KEYS)[0].sizes
    layers = config_value(config, "num_hidden_layers") or max(tensor.layer for tensor in cache) + 1
    inputs = {name: name for name in (*INPUTS, EMBEDS) if name in part.spec.inputs}
    return _without_none(
        {
            "filename": filename,
            "hidden_size": _width(part, config),
            "num_attention_heads": config_value(config, "num_attention_heads"),
            "num_key_value_heads": heads,
            "head_size": width,
            "num_hidden_layers": layers,
            "layer_types": _layer_types(config, cache, layers),
            "inputs": inputs | {f"past_{CACHE_WORDS[each.attribute]}_names": each.template for each in cache},
            "outputs": {"logits": "logits"}
            | {f"present_{CACHE_WORDS[each.attribute]}_names": each.output for each in cache},
        }
    )


def _width(part: Part, config: Mapping[str, Any]) -> Any:
    """The width of the rows that a decoder takes; rows of some models carry more than an embedding."""
    if EMBEDS not in part.spec.inputs:
        return config_value(config, "hidden_size")
    return int(graph_axes(part.spec, part.spec.inputs[EMBEDS]).axes[-1].symbol)


def _layer_types(config: Mapping[str, Any], cache: tuple[CacheTensor, ...], layers: int) -> list[str] | None:
    """The kind of each layer, for the types whose kinds the runtime reads."""
    if config.get("model_type") not in LAYER_TYPES_NEEDED:
        return None
    attention = {tensor.layer for tensor in of_attribute(cache, KEYS)}
    return ["full_attention" if layer in attention else "conv" for layer in range(layers)]


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
