"""Tiny sizes: models that read and see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "max_position_embeddings": 96,
    "initializer_range": 0.15,
    "initializer_factor": 4.0,
    "bos_token_id": 1,
    "eos_token_id": 127,
    "pad_token_id": 0,
    "projection_dim": 16,
}
VISION = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 24,
    "patch_size": 8,
    "initializer_range": 0.15,
    "initializer_factor": 4.0,
    "projection_dim": 16,
}
TWO = {"text_config": TEXT, "vision_config": VISION, "projection_dim": 16}


# What Optimum calls otherwise than transformers.
CALLED: Mapping[str, str] = {
    "siglip-text": "siglip_text_model",
    "siglip-text-with-projection": "siglip_text_model",
}

OWL = {
    "text_config": {**TEXT, "max_position_embeddings": 24},
    "vision_config": VISION,
    "projection_dim": 32,
}
SIGLIP_TEXT = {**TEXT, "projection_size": 24}

SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "clap": {
        "text_config": {**TEXT, "pad_token_id": 1, "bos_token_id": 0},
        "audio_config": {
            "spec_size": 32,
            "num_mel_bins": 16,
            "window_size": 4,
            "patch_embeds_hidden_size": 8,
            "hidden_size": 16,
            "depths": [2, 2],
            "num_attention_heads": [2, 2],
            "num_hidden_layers": 2,
            "projection_dim": 16,
            "initializer_range": 0.15,
        },
        "projection_dim": 16,
    },
    "colpali": {
        "vlm_config": {
            "model_type": "paligemma",
            "vision_config": {**VISION, "model_type": "siglip_vision_model"},
            "text_config": {
                **TEXT,
                "model_type": "gemma",
                "num_key_value_heads": 2,
                "head_dim": 8,
            },
            "image_token_id": 99,
            "projection_dim": 32,
        },
        "embedding_dim": 12,
    },
    "clip": TWO,
    "chinese_clip": TWO,
    "clip_text_model": TEXT,
    "clip_vision_model": VISION,
    "groupvit": {
        **TWO,
        "vision_config": {
            **VISION,
            "depths": [1, 1, 1],
            "num_group_tokens": [6, 4, 0],
            "num_output_groups": [6, 4, 0],
        },
        "projection_intermediate_dim": 20,
    },
    "layoutlmv3": {
        "coordinate_size": 4,
        "shape_size": 8,
        "input_size": 24,
        "patch_size": 8,
        "max_2d_position_embeddings": 64,
        "rel_pos_bins": 8,
        "rel_2d_pos_bins": 8,
        "max_rel_pos": 16,
        "max_rel_2d_pos": 32,
        "pad_token_id": 1,
    },
    "metaclip_2": TWO,
    "owlv2": OWL,
    "owlvit": OWL,
    "siglip": {"text_config": SIGLIP_TEXT, "vision_config": VISION},
    "siglip-text": SIGLIP_TEXT,
    "siglip-text-with-projection": SIGLIP_TEXT,
    "siglip_text_model": SIGLIP_TEXT,
    "siglip_vision_model": VISION,
    "visual_bert": {"visual_embedding_dim": 20},
}
