"""onnxruntime-genai 0.18 and Whisper: the block `model` of its `genai_config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.specs.planned import Plan

ENCODER, DECODER = "encoder", "decoder"
SIZES = (
    ("head_size", None),
    ("hidden_size", "d_model"),
    ("num_attention_heads", "{}_attention_heads"),
    ("num_key_value_heads", "{}_attention_heads"),
    ("num_hidden_layers", "{}_layers"),
)
"""Keys of a part, and the keys of Whisper's configuration. A head is as wide as the model divided by its heads."""

ENCODER_PORTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "inputs": {"audio_features": "audio_features"},
        "outputs": {
            "encoder_hidden_states": "hidden_states",
            "cross_present_key_names": "present_key_cross_%d",
            "cross_present_value_names": "present_value_cross_%d",
        },
    }
)
DECODER_PORTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
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
    }
)


def is_whisper(plan: Plan) -> bool:
    """Whether a plan is that of `whisper_for_genai`, in one dtype."""
    stems = {part.name for part in plan.parts}
    return stems == {ENCODER, DECODER} and "audio_features" in plan[ENCODER].inputs


def whisper_parts(config: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The type and the blocks of both files in `model`."""
    parts = {
        name: {"filename": f"{folder}/{name}.onnx".removeprefix("/"), **_sizes(config, name), **ports}
        for name, ports in ((ENCODER, ENCODER_PORTS), (DECODER, DECODER_PORTS))
    }
    return {"type": "whisper", **parts}


def _sizes(config: Mapping[str, Any], part: str) -> dict[str, int]:
    sizes = {key: config[source.format(part)] for key, source in SIZES if source is not None}
    return {"head_size": sizes["hidden_size"] // sizes["num_attention_heads"], **sizes}
