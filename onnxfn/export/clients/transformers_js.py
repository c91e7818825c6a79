"""transformers.js 4.3.1: the files that it loads, the names of its caches, and its limits."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.export.clients.configuration import text_architecture
from onnxfn.export.clients.folder import KEY, VALUE, Folder, cache_of, decoder_of, templates
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.tasks.tasks import WITH_PAST
from onnxfn.weights.layouts import dtype_suffix

_ROWS = Path(__file__).with_name("transformers_js_types.txt").read_text(encoding="utf-8").strip().replace("\n  ", " ")

TYPES_BY_TASK: Mapping[str, frozenset[str]] = MappingProxyType(
    {task: frozenset(types.split()) for task, _, types in (row.partition(": ") for row in _ROWS.splitlines())}
)
"""A task -> the model types whose class transformers.js has. `AutoModel`, of feature-extraction, loads any type."""

NAME = "transformers.js"

ENCODER_DECODER = ("encoder_model", "decoder_model_merged")
PARTS = ("embed_tokens", "decoder_model_merged")
AUDIO_PARTS = ("embed_tokens", "audio_encoder", "decoder_model_merged")
VISION_PARTS = ("embed_tokens", "vision_encoder", "decoder_model_merged")

FILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(TYPES_BY_TASK["text2text-generation"], ENCODER_DECODER),
        **dict.fromkeys(("whisper", "lite-whisper", "moonshine", "speecht5", "cohere_asr"), ENCODER_DECODER),
        **dict.fromkeys(TYPES_BY_TASK["image-to-text"], VISION_PARTS),
        **dict.fromkeys(("granite_speech", "ultravox", "voxtral", "voxtral_realtime"), AUDIO_PARTS),
        **dict.fromkeys(("gemma3n", "gemma4"), (*VISION_PARTS, "audio_encoder")),
        "vision-encoder-decoder": ENCODER_DECODER,
        "musicgen": ("text_encoder", "decoder_model_merged", "encodec_decode"),
    }
)
"""The type of a model that writes text or sound -> its files."""

WRITES = (
    *("text2text-generation", "automatic-speech-recognition", "image-to-text", "text-to-audio"),
    *("image-text-to-text", "audio-text-to-text", "any-to-any"),
)
"""The tasks for which `FILES` holds."""

KEYS_AND_VALUES = frozenset({KEY, VALUE})
CONV = "past_conv.%d"
CACHES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        **dict.fromkeys(("lfm2", "lfm2_moe"), KEYS_AND_VALUES | {CONV}),
        **dict.fromkeys(("granitemoehybrid", "falcon_h1", "nemotron_h"), KEYS_AND_VALUES | {CONV, "past_ssm.%d"}),
        **dict.fromkeys(("qwen3_next", "qwen3_5_text"), KEYS_AND_VALUES | {CONV, "past_recurrent.%d"}),
        "olmo_hybrid": KEYS_AND_VALUES
        | {f"{CONV}.{name}" for name in ("key", "value", "query")}
        | {"past_recurrent.%d"},
    }
)
"""A model type -> the names of its cache. All others have keys and values alone."""

POSITIONS_OF_RANK_3 = frozenset(
    {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "glm_ocr"}
)
"""Types whose `position_ids` are computed for text, height and width."""

DROPPED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("cohere_asr", "moonshine"), ("attention_mask", "encoder_attention_mask")),
        "llava_onevision": ("image_sizes",),
    }
)
"""A model type -> the inputs that the client never gives to its files. The hub has files without masks."""


def transformers_js_limits(plan: Plan, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Why transformers.js cannot load a plan, one line each; empty if nothing is known against it."""
    model_type, task = str(config.get("model_type") or ""), (plan.task or "").removesuffix(WITH_PAST)
    # `AutoModel`, of these tasks, loads `model.onnx` of any type.
    if not model_type or task in ("", "feature-extraction", "zero-shot-image-classification"):
        return ()
    if model_type not in TYPES_BY_TASK.get(task, ()):
        return (f"{NAME} has no session for {model_type} ({task})",)
    stems = {part.name.removesuffix(dtype_suffix(part.dtype)) for part in plan.parts}
    decoder = decoder_of(plan)
    missing = [file for file in _files(model_type, task, text_architecture(Folder(plan), config)) if file not in stems]
    if missing:
        return (f"{NAME} loads {missing[0]}.onnx for {model_type}, which this plan does not write",)
    takers = {name: part.name for name in DROPPED.get(model_type, ()) for part in plan.parts if name in part.inputs}
    if takers:
        name, file = next(iter(takers.items()))
        # Nothing can be computed without the sizes of images.
        flags = " ".join(f"--without {each}" for each in takers if each != "image_sizes")
        advice = f"; it loads the files of {flags}" if flags else ""
        return (f"{NAME} gives {model_type} no {name}, which {file}.onnx takes{advice}",)
    return tuple(_decoder_limits(decoder, model_type)) if decoder is not None else ()


def _files(model_type: str, task: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The files that a model of a type is loaded from."""
    if task in WRITES and model_type in FILES:
        return FILES[model_type]
    architecture = next(iter(config.get("architectures") or ()), "")
    return PARTS if task == "text-generation" and architecture.endswith("ForConditionalGeneration") else ("model",)


def _decoder_limits(part: Part, model_type: str) -> Iterator[str]:
    """The differences between the inputs that the client computes and the inputs of a decoder."""
    other = [name for name in templates(cache_of(part)) if name not in CACHES.get(model_type, KEYS_AND_VALUES)]
    if other:
        yield f"{NAME} has no name for the cache {other[0].replace('%d', '0')} of {model_type}"
    if model_type in ("mbart", "trocr"):  # their layers are counted under the names of an encoder-decoder
        yield f"{NAME} has no cache for {model_type} as a decoder alone"
    if model_type in POSITIONS_OF_RANK_3 and "position_ids" in part.spec.inputs:
        rank = len(part.spec.inputs["position_ids"].axes.axes)
        if rank != 3:  # noqa: PLR2004 - text, height and width: [3, batch, sequence]
            own = f"the graph takes rank {rank}: with_mrope(spec)"
            yield f"{NAME} computes position_ids of rank 3 for {model_type}, and {own}"
