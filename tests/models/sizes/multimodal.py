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
    "vision_config": {**VISION, "initializer_factor": 1.0},
    "projection_dim": 32,
}
SIGLIP_TEXT = {**TEXT, "projection_size": 24}

EFFICIENT = {
    "image_size": 32,
    "width_coefficient": 1.0,
    "depth_coefficient": 1.0,
    "kernel_sizes": [3, 3],
    "in_channels": [32, 16],
    "out_channels": [16, 32],
    "strides": [1, 2],
    "num_block_repeats": [1, 1],
    "expand_ratios": [1, 4],
    "hidden_dim": 32,
    "initializer_range": 0.6,
}
SHALLOW = {**VISION, "initializer_factor": 1.0}

GROUPED = {
    **VISION,
    "depths": [1, 1, 1],
    "num_group_tokens": [6, 4, 0],
    "num_output_groups": [6, 4, 0],
}
CLIPS = {
    **VISION,
    "num_frames": 4,
    "mit_hidden_size": 16,
    "mit_intermediate_size": 24,
    "mit_num_hidden_layers": 1,
    "mit_num_attention_heads": 2,
}

FILMED = {
    **VISION,
    "num_frames": 4,
    "tubelet_size": [1, 8, 8],
    "num_spatial_layers": 2,
    "num_temporal_layers": 2,
    "num_auxiliary_layers": 1,
}

READING = (
    "align",
    "altclip",
    "blip",
    "chinese_clip",
    "clap",
    "clipseg",
    "flava",
    "groupvit",
    "metaclip_2",
    "owlv2",
    "owlvit",
    "xclip",
)
SEEING = (
    "altclip",
    "blip",
    "blip_2",
    "clipseg",
    "git",
    "instructblip",
    "instructblipvideo",
    "metaclip_2",
    "owlv2",
    "owlvit",
)

SPECIAL: Mapping[str, Mapping[str, Any]] = {
    **{f"{name}_text_model": TEXT for name in READING},
    **{f"{name}_vision_model": VISION for name in SEEING},
    "mlcd_vision_model": {**SHALLOW, "hidden_size": 32},
    "siglip2_text_model": SIGLIP_TEXT,
    "altclip_text_model": {**TEXT, "project_dim": 20, "pad_token_id": 1, "bos_token_id": 0},
    "flava_image_model": SHALLOW,
    "janus_vision_model": {**SHALLOW, "mlp_ratio": 2.0, "projection_dim": 20, "hidden_dropout_rate": 0.0},
    "videoprism_text_model": {**TEXT, "hidden_size": 24},
    "videoprism_vision_model": FILMED,
    "groupvit_vision_model": GROUPED,
    "aimv2_vision_model": VISION,
    "align": {"text_config": TEXT, "vision_config": EFFICIENT, "projection_dim": 32, "initializer_range": 0.6},
    "altclip": {
        "text_config": {**TEXT, "project_dim": 20, "pad_token_id": 1, "bos_token_id": 0},
        "vision_config": VISION,
        "projection_dim": 16,
    },
    "blip-2": {
        "vision_config": {**SHALLOW, "model_type": "blip_2_vision_model"},
        "qformer_config": {
            **TEXT,
            "encoder_hidden_size": 24,
            "model_type": "blip_2_qformer",
            "use_qformer_text_input": True,
        },
        "text_config": {
            "model_type": "opt",
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "ffn_dim": 24,
            "word_embed_proj_dim": 16,
            "max_position_embeddings": 96,
            "init_std": 0.15,
            "vocab_size": 128,
        },
        "num_query_tokens": 5,
        "image_text_hidden_size": 16,
        "image_token_index": 99,
        "initializer_range": 0.15,
    },
    "blip": {
        "text_config": {**TEXT, "encoder_hidden_size": 24},
        "vision_config": VISION,
        "projection_dim": 16,
        "image_text_hidden_size": 16,
    },
    "bridgetower": {
        "text_config": {**TEXT, "num_hidden_layers": 3, "pad_token_id": 1, "initializer_factor": 1},
        "vision_config": {**SHALLOW, "hidden_size": 64, "num_hidden_layers": 3},
        "hidden_size": 32,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "contrastive_hidden_size": 16,
        "initializer_factor": 4,
    },
    "chinese_clip_vision_model": VISION,
    "clipseg": {
        "text_config": TEXT,
        "vision_config": VISION,
        "projection_dim": 16,
        "extract_layers": [0, 1],
        "reduce_dim": 32,
        "decoder_num_attention_heads": 2,
        "decoder_intermediate_size": 24,
        "conditional_layer": 0,
    },
    "flava": {
        "text_config": TEXT,
        "image_config": SHALLOW,
        "multimodal_config": {**TEXT, "hidden_size": 28},
        "image_codebook_config": {"hidden_size": 8, "num_groups": 4, "num_blocks_per_group": 1, "vocab_size": 32},
        "hidden_size": 32,
        "projection_dim": 16,
        "initializer_range": 0.15,
    },
    "lxmert": {
        "l_layers": 2,
        "x_layers": 2,
        "r_layers": 2,
        "num_qa_labels": 11,
        "visual_feat_dim": 20,
    },
    "tipsv2": {
        "text_config": {**TEXT, "hidden_size": 24},
        "vision_config": {**VISION, "num_register_tokens": 1, "layerscale_value": 0.7},
        "temperature_init_value": 0.1,
    },
    "tipsv2_text_model": TEXT,
    "tipsv2_vision_model": {**VISION, "num_register_tokens": 1, "layerscale_value": 0.7},
    "videoprism": {
        "text_config": {**TEXT, "hidden_size": 24},
        "vision_config": FILMED,
    },
    "vision-text-dual-encoder": {
        "text_config": {**TEXT, "model_type": "bert"},
        "vision_config": {**VISION, "model_type": "vit"},
        "projection_dim": 16,
    },
    "xclip": {
        "text_config": TEXT,
        "vision_config": CLIPS,
        "projection_dim": 16,
        "prompt_num_attention_heads": 2,
    },
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
        "vision_config": GROUPED,
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
    "siglip2": {"text_config": SIGLIP_TEXT, "vision_config": {**VISION, "num_patches": 16}},
    "siglip2_vision_model": {**VISION, "num_patches": 16},
    "siglip_text_model": SIGLIP_TEXT,
    "siglip_vision_model": VISION,
    "visual_bert": {"visual_embedding_dim": 20},
}
