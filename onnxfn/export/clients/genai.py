"""onnxruntime-genai 0.18: its model types, its limits, and `genai_config.json`, also for Whisper and models that see.

The runtime runs `embedding.onnx`, which merges features of images, transformers.js `embed_tokens.onnx`, a part of it:
both share one table of weights. `vision_processor.json` has the steps of onnxruntime-extensions; the default name of
the runtime, `processor_config.json`, is that of transformers.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from onnxfn.architectures.families.features import VISION
from onnxfn.architectures.placeholders import IMAGE_FEATURES, placeholders
from onnxfn.export.clients.configuration import config_value
from onnxfn.export.clients.folder import (
    CONFIG,
    GENERATION_CONFIG,
    KEYS,
    VALUES,
    Cache,
    Folder,
    cache_of,
    changed,
    decoder_of,
    first_parts,
    json_object,
    of_attribute,
    other_inputs,
)
from onnxfn.export.clients.tokenizer import PREPROCESSOR, PROCESSOR
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.edits.behaviors import MERGED_DECODER
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, EMBEDS, IDS
from onnxfn.weights.layouts import dtype_suffix

ENCODER, DECODER = "encoder", "decoder"
SIZES = (
    ("hidden_size", "d_model"),
    ("num_attention_heads", "{}_attention_heads"),
    ("num_key_value_heads", "{}_attention_heads"),
    ("num_hidden_layers", "{}_layers"),
)
"""Keys of a part, and the keys of Whisper's configuration."""


def _cache_names(key: str, name: str) -> dict[str, str]:
    """The names of keys and of values, with `{}` for the kind."""
    return {f"{key}_{kind}_names": name.format(kind) for kind in ("key", "value")}


PORTS: Mapping[str, Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        ENCODER: {
            "inputs": {"audio_features": "audio_features"},
            "outputs": {
                "encoder_hidden_states": "hidden_states",
                **_cache_names("cross_present", "present_{}_cross_%d"),
            },
        },
        DECODER: {
            "inputs": {
                "input_ids": "input_ids",
                **_cache_names("past", "past_{}_self_%d"),
                **_cache_names("cross_past", "past_{}_cross_%d"),
            },
            "outputs": {"logits": "logits", **_cache_names("present", "present_{}_self_%d")},
        },
    }
)
"""The parts of Whisper -> the names that the runtime reads of their inputs and outputs."""


def is_whisper(plan: Plan) -> bool:
    """Whether a plan is from `whisper_for_genai`, in one dtype."""
    return {part.name for part in plan.parts} == {ENCODER, DECODER} and "audio_features" in plan[ENCODER].inputs


def _sizes(config: Mapping[str, Any], part: str) -> dict[str, int]:
    """The sizes of a part. A head is as wide as the model divided by its heads."""
    sizes = {key: config[source.format(part)] for key, source in SIZES}
    return {"head_size": sizes["hidden_size"] // sizes["num_attention_heads"], **sizes}


NAME = "onnxruntime-genai"
GENAI_CONFIG = "genai_config.json"

WORDS = frozenset(
    {
        *("ernie4_5", "gemma", "gemma2", "gemma3_text", "granite", "lfm2", "llama", "mistral", "nemotron", "olmo"),
        *("phi", "phi3", "phimoe", "qwen2", "qwen3", "smollm3"),
    }
)
"""The values of `model.type` that are model types, for decoders of keys and values; that of others is `decoder`."""

INPUTS = ("input_ids", "attention_mask", "position_ids")
"""The inputs that the runtime computes for each step, under the names in `genai_config.json`."""

CACHE_WORDS: Mapping[str, str] = MappingProxyType(
    {KEYS: "key", VALUES: "value", "conv_states.0": "conv", "recurrent_states.0": "recurrent"}
)
"""The attribute of a layer of the cache -> the word for it in `past_<word>_names` and `present_<word>_names`."""

SEARCH = (
    *("do_sample", "temperature", "top_k", "top_p", "repetition_penalty"),
    *("no_repeat_ngram_size", "length_penalty", "min_length"),
)
"""Keys of `search` that have the meaning of the same keys in `generation_config.json`."""


def genai_config(folder: Folder) -> dict[str, str]:
    """`genai_config.json` for a decoder that the runtime can load; nothing for other plans."""
    config = json_object(folder, CONFIG) or {}
    part = parts_by_stem(folder.plan)[MERGED_DECODER] if sees_in_genai(folder.plan, config) else decoder_of(folder.plan)
    if part is None or not config or genai_limits(folder.plan, config):
        return {}
    length = config_value(config, "max_position_embeddings") or config.get("max_target_positions") or 2048
    generation = json_object(folder, GENERATION_CONFIG) or {}
    vocabulary = config_value(config, "vocab_size")
    model = {
        "type": config["model_type"] if config.get("model_type") in WORDS else "decoder",
        "vocab_size": vocabulary,
        "context_length": length,
        **_tokens(config, generation, vocabulary),
        **_parts(folder, part, config),
    }
    chosen = {key: generation[key] for key in SEARCH if generation.get(key) is not None}
    # Other graphs append to the cache, so that past and present cannot lie in one buffer.
    search = {**chosen, "max_length": length, "past_present_share_buffer": bool(part.spec.target.shared_cache)}
    return changed(folder, GENAI_CONFIG, {"model": _without_none(model), "search": search})


def genai_limits(plan: Plan, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Why the runtime cannot load a plan, or gets no files for it; empty if it can, or if the plan has no decoder."""
    part = decoder_of(plan)
    if {VISION, EMBEDDING_FILE} <= {*parts_by_stem(plan)} and not sees_in_genai(plan, config):
        return (f"{NAME} gets no genai_config.json for {config.get('model_type')} with images",)
    if part is None or is_whisper(plan):
        return ()
    cache, model = cache_of(part), part.spec.name or "this model"
    others = other_inputs(part, (*INPUTS, NUM_LOGITS_TO_KEEP))
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
    """The blocks of the files in `model`; for Whisper also the type, for a model that sees also its tokens."""
    start = f"{folder.subfolder}/".removeprefix("/")
    if is_whisper(folder.plan):
        parts = {name: {"filename": f"{start}{name}.onnx", **_sizes(config, name), **PORTS[name]} for name in PORTS}
        return {"type": "whisper", **parts}
    decoder = _decoder(part, config, f"{start}{part.name}.onnx")
    if not sees_in_genai(folder.plan, config):
        return {"decoder": decoder}
    vision, sizes = parts_by_stem(folder.plan)[VISION], {**config, **(config.get("vision_config") or {})}
    return {
        "decoder": decoder,
        "type": config["model_type"],
        **{key: config[key] for key in ("image_token_id", "video_token_id", "vision_start_token_id") if key in config},
        "embedding": {
            "filename": f"{start}{EMBEDDING}.onnx",
            "inputs": {IDS: IDS, IMAGE_FEATURES: IMAGE_FEATURES},
            "outputs": {EMBEDS: EMBEDS},
        },
        "vision": {
            "filename": f"{start}{vision.name}.onnx",
            **({"config_filename": VISION_PROCESSOR} if VISION_PROCESSOR in folder.names else {}),
            **{key: sizes[key] for key in ("spatial_merge_size", "patch_size") if key in sizes},
            "inputs": {name: name for name in vision.inputs},
            "outputs": {IMAGE_FEATURES: IMAGE_FEATURES},
        },
    }


def _tokens(config: Mapping[str, Any], generation: Mapping[str, Any], vocabulary: Any) -> dict[str, Any]:
    """The ids of special tokens, from the generation configuration, else from that of the model."""
    keys = ("bos_token_id", "eos_token_id", "pad_token_id")
    stated = {key: generation[key] if generation.get(key) is not None else config_value(config, key) for key in keys}
    # The runtime cannot load a model with an invalid token id, such as a `pad_token_id` of -1. Without an end it ends a
    # text at the token for padding.
    known = {key: _known_tokens(value, vocabulary) for key, value in stated.items()}
    return known if known["eos_token_id"] is not None else {**known, "pad_token_id": None}


def _known_tokens(value: Any, vocabulary: Any) -> Any:
    """An id or a list of ids without those outside a vocabulary; None if none is left."""
    if isinstance(value, list):
        return [token for token in value if _known_tokens(token, vocabulary) is not None] or None
    return value if isinstance(value, int) and 0 <= value < (vocabulary or value + 1) else None


def _decoder(part: Part, config: Mapping[str, Any], filename: str) -> dict[str, Any]:
    """The block `model.decoder`: the file, sizes, and the names of inputs and outputs."""
    cache = cache_of(part)
    _, heads, *_, width = of_attribute(cache, KEYS)[0].sizes
    layers = config_value(config, "num_hidden_layers") or max(tensor.layer for tensor in cache) + 1
    hidden_size = config_value(config, "hidden_size")
    if EMBEDS in part.spec.inputs:  # rows of some models carry more than an embedding
        hidden_size = int(graph_axes(part.spec, part.spec.inputs[EMBEDS]).axes[-1].symbol)
    inputs = {name: name for name in (*INPUTS, EMBEDS) if name in part.spec.inputs}
    return _without_none(
        {
            "filename": filename,
            "hidden_size": hidden_size,
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


def _layer_types(config: Mapping[str, Any], cache: Cache, layers: int) -> list[str] | None:
    """The kind of each layer, for the types whose kinds the runtime reads."""
    if config.get("model_type") not in ("lfm2", "lfm2_moe", "lfm3"):
        return None
    attention = {tensor.layer for tensor in of_attribute(cache, KEYS)}
    return ["full_attention" if layer in attention else "conv" for layer in range(layers)]


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


VISION_PROCESSOR = "vision_processor.json"

NUMBERS = ("patch_size", "temporal_patch_size", "merge_size", "rescale_factor", "image_mean", "image_std")
"""The other keys of an image processor that the steps follow from."""

STEPS = ("do_convert_rgb", "do_resize", "do_rescale", "do_normalize")
"""The keys by which an image processor leaves out a step; the runtime has all of them."""


def vision_processor(folder: Folder) -> dict[str, str]:
    """`vision_processor.json` for a model with images that the runtime can load; nothing for others."""
    # None without an image processor, or for one that leaves out a step.
    stated = _image_processor(folder) if sees_in_genai(folder.plan, json_object(folder, CONFIG) or {}) else None
    steps = stated and {"processor": {"name": "image_processor", "transforms": [*_steps(stated)]}}
    return changed(folder, VISION_PROCESSOR, steps)


def _image_processor(folder: Folder) -> dict[str, Any] | None:
    """The keys of an image processor that makes patches in a row; None if the folder has none."""
    inner = (json_object(folder, PROCESSOR) or {}).get("image_processor")
    stated: Mapping[str, Any] = inner if isinstance(inner, Mapping) else json_object(folder, PREPROCESSOR) or {}
    size = stated.get("size")
    sizes: Mapping[str, Any] = size if isinstance(size, Mapping) else {}
    filters = {0: "NEAREST", 1: "LANCZOS", 2: "LINEAR", 3: "CUBIC"}
    known = {
        **{name: stated.get(name) for name in NUMBERS},
        "min_pixels": stated.get("min_pixels") or sizes.get("shortest_edge"),
        "max_pixels": stated.get("max_pixels") or sizes.get("longest_edge"),
        "interpolation": filters.get(stated.get("resample", 3)),
    }
    return known if None not in known.values() and all(stated.get(step, True) for step in STEPS) else None


def _steps(stated: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps from the bytes of a picture to its patches."""
    yield _step("DecodeImage", color_space="RGB")
    yield _step("ConvertRGB")
    sizes = {name: stated[name] for name in ("min_pixels", "max_pixels", "patch_size", "merge_size", "interpolation")}
    # A smart size follows from that of the picture; the runtime wants others all the same.
    side = stated["patch_size"] * stated["merge_size"]
    yield _step("Resize", height=side, width=side, smart_resize=1, **sizes)
    yield _step("Rescale", rescale_factor=stated["rescale_factor"])
    # The word is that of the values in a row, for all types of this kind.
    yield _step("Normalize", mean=stated["image_mean"], std=stated["image_std"], qwen2_5_vl=1)
    yield _step("PatchImage", **{name: stated[name] for name in ("patch_size", "temporal_patch_size", "merge_size")})


def _step(kind: str, **attributes: Any) -> dict[str, Any]:
    return {"operation": {"name": kind.lower(), "type": kind, **({"attrs": attributes} if attributes else {})}}


EMBEDDING = "embedding"
"""The stem of the file, as onnxruntime-genai calls the part."""

TYPES = ("qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe", "mistral3")
"""The values of `model.type` for which the runtime passes the inputs of the files: model types."""


def sees_in_genai(plan: Plan, config: Mapping[str, Any]) -> bool:
    """Whether onnxruntime-genai has a runtime for a plan with images."""
    return {VISION, EMBEDDING_FILE, MERGED_DECODER} <= {*parts_by_stem(plan)} and config.get("model_type") in TYPES


def parts_by_stem(plan: Plan) -> dict[str, Part]:
    """The parts of the first dtype of a plan, by the stem of their files without the suffix of the dtype."""
    return {part.name.removesuffix(dtype_suffix(part.dtype)): part for part in first_parts(plan)}


def write_embedding(folder: Path, plan: Plan, config: Mapping[str, Any]) -> tuple[Path, ...]:
    """Writes `embedding.onnx` next to `embed_tokens.onnx`; nothing for plans that the runtime cannot use."""
    if not sees_in_genai(plan, config):
        return ()
    import onnx

    table = onnx.load(folder / f"{parts_by_stem(plan)[EMBEDDING_FILE].name}.onnx", load_external_data=False)
    path = folder / f"{EMBEDDING}.onnx"
    path.write_bytes(merging_graph(table, placeholders(config).tokens[IMAGE_FEATURES]).SerializeToString())
    return (path,)


def merging_graph(table: Any, placeholder: int) -> Any:
    """The graph of a table of embeddings that also takes `image_features`, `[rows, width]`, in place of a token."""
    # A placeholder token without a row keeps its own embedding: the model may write the token.
    from onnx import TensorProto, helper, numpy_helper

    merging = type(table)()
    merging.CopyFrom(table)
    graph, node = merging.graph, helper.make_node
    for each in graph.node:
        each.output[:] = ["token_embeddings" if name == EMBEDS else name for name in each.output]
    width = graph.output[0].type.tensor_type.shape.dim[2].dim_value
    constants = {
        "placeholder": np.int64(placeholder),
        "last_axis": np.array([-1]),
        "first_axis": np.int64(0),
        "no_features": np.zeros((1, width), np.float32),
    }
    graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
    graph.node.extend(
        [
            node("Equal", [IDS, "placeholder"], ["is_placeholder"]),
            node("Cast", ["is_placeholder"], ["ones"], to=TensorProto.INT64),
            node("Reshape", ["ones", "last_axis"], ["ones_in_a_row"]),
            node("CumSum", ["ones_in_a_row", "first_axis"], ["counts"]),
            node("Shape", [IDS], ["shape"]),
            node("Reshape", ["counts", "shape"], ["numbers"]),
            node("Shape", [IMAGE_FEATURES], ["row_count"], start=0, end=1),
            node("LessOrEqual", ["numbers", "row_count"], ["has_row"]),
            node("And", ["is_placeholder", "has_row"], ["is_row"]),
            node("Where", ["is_row", "numbers", "first_axis"], ["row_numbers"]),
            node("Concat", ["no_features", IMAGE_FEATURES], ["rows"], axis=0),
            node("Gather", ["rows", "row_numbers"], ["features"], axis=0),
            node("Unsqueeze", ["is_row", "last_axis"], ["is_feature"]),
            node("Where", ["is_feature", "features", "token_embeddings"], [EMBEDS]),
        ]
    )
    graph.input.append(helper.make_tensor_value_info(IMAGE_FEATURES, TensorProto.FLOAT, ["num_image_tokens", width]))
    return merging
