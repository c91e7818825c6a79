"""Sizes of models that see or hear and write, where those of `derived.py` leave out a tower or do not fit it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import tiny

CODES = 64
"""The codes of an image in Chameleon's tiny model."""


def _code_name(code: int) -> str:
    """The name of a code in Chameleon's vocabulary, whose digits are letters."""
    return f"IMGIMG{''.join('ABCDEFGHIJ'[int(digit)] for digit in str(code))}Z"


GEMMA4_VISION: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "gemma4_vision",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "patch_size": 4,
        "pooling_kernel_size": 2,
        "position_embedding_size": 64,
        "initializer_range": 0.15,
    }
)

GEMMA4_AUDIO: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "gemma4_audio",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "subsampling_conv_channels": [16, 8],
        "output_proj_dims": 32,
    }
)

GEMMA3N: Mapping[str, Any] = MappingProxyType(
    {
        # MobileNet-v5 takes 2,048 channels in the variant of the checkpoints; this one has the same blocks, and a size
        # to choose.
        "vision_config": {
            "architecture": "mobilenetv5_base",
            "hidden_size": 32,
            "vocab_size": 16,
            "vocab_offset": 96,
            "model_args": {
                "channel_multiplier": 0.03125,
                "stem_size": 8,
                "num_features": 32,
                "msfa_indices": [-2, -1],
                "msfa_output_resolution": 2,
                "pad_type": "same",
                "pretrained_cfg_overlay": {"input_size": [3, 64, 64]},
            },
        },
        "audio_config": {
            "hidden_size": 32,
            "input_feat_size": 16,
            "vocab_size": 16,
            "vocab_offset": 112,
            "sscp_conv_channel_size": [8, 8],
        },
        "text_config": {
            **tiny.SPECIAL["gemma3n_text"],
            "intermediate_size": 48,
            "vocab_size_per_layer_input": 96,
        },
        "vision_soft_tokens_per_image": 4,
        "audio_soft_tokens_per_image": 20,
        **{f"{name}_token_id": token for token, name in enumerate(("eoi", "image"), 96)},
        **{f"{name}_token_id": token for token, name in enumerate(("eoa", "audio"), 112)},
        **{f"{name}_token_id": token for token, name in enumerate(("boi", "boa"), 94)},
    }
)
"""As in the checkpoints, the tokens of texts come first in the vocabulary, then those of images, then of sounds."""

TILINGS = [[64, 128], [128, 64], [128, 128], [192, 64], [64, 192]]
"""The sizes of images of tiles of 64 pixels, as LLaVA-NeXT has them of tiles of 336."""

PARAKEET: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "parakeet_encoder",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_mel_bins": 16,
        "subsampling_conv_channels": 8,
        "max_position_embeddings": 512,
        "projection_hidden_size": 32,
        "projection_bias": True,
    }
)

OVERRIDES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "aria": {"projector_patch_to_query_dict": {64: 16}},
        "chameleon": {
            "vocabulary_map": {"<image>": 127, **{_code_name(code): 20 + code for code in range(CODES)}},
        },
        "fast_vlm": {
            "vision_config": {
                "architecture": "fastvit_mci3",
                "hidden_size": 128,
                "model_args": {"inference_mode": True, "layers": [1] * 5, "embed_dims": [8, 16, 16, 32, 64]},
            },
        },
        "fun_asr_nano": {"audio_config": {"max_position_embeddings": 512}},
        "granite_speech": {"window_size": 4, "downsample_rate": 2},
        "granite_speech_plus": {"window_size": 4, "downsample_rate": 2},
        "gemma4_unified": {"audio_config": {"model_type": "gemma4_unified_audio", "audio_embed_dim": 40}},
        "gemma3n": GEMMA3N,
        "gemma4": {"vision_config": dict(GEMMA4_VISION), "audio_config": dict(GEMMA4_AUDIO)},
        "lfm2_vl": {"text_config": {"layer_types": ["conv", "full_attention"]}},
        "got_ocr2": {"vision_config": {"output_channels": 16}},
        "janus": {
            "vision_config": {"image_size": 32, "num_image_tokens": 16},
            "vq_config": {
                "channel_multiplier": [1, 1],
                "num_res_blocks": 1,
                "embed_dim": 8,
                "image_token_embed_dim": 32,
                "projection_dim": 32,
            },
        },
        "kosmos-2": {"latent_query_num": 6},
        "kosmos-2.5": {"latent_query_num": 6},
        "llama4": {
            "vision_config": {
                "intermediate_size": 128,
                "projector_input_dim": 32,
                "projector_output_dim": 32,
                "vision_output_dim": 32,
            }
        },
        "llava_next": {"image_grid_pinpoints": TILINGS},
        "llava_next_video": {"image_grid_pinpoints": TILINGS},
        "llava_onevision": {"image_grid_pinpoints": TILINGS},
        "minicpm_ocr": {"image_token_id": 120, "video_token_id": 121},
        "minicpmv4_6": {"image_token_id": 120, "video_token_id": 121},
        "muse_glimmer": {"out_hidden_size": 128},
        "muse_spark": {
            "audio_config": {"patch_sizes": [4, 2, 2, 2], "num_hidden_layers": 4, "depths": [1, 1, 1, 1]},
            "out_hidden_size": 128,
        },
        "nemotron_h_omni": {"audio_config": dict(PARAKEET), "audio_token_id": 120},
        "pp_chart2table": {"vision_config": {"output_channels": 16}},
        # With larger weights its convolutions give numbers in the thousands, and rounding errors to match.
        "pp_formulanet": {"vision_config": {"initializer_range": 0.02}},
        # Checkpoints have the start of an image, which the class of the configuration does not name.
        "qwen2_5_omni_thinker": {"audio_config": {"output_dim": 32, "n_window": 48}, "vision_start_token_id": 121},
        "qwen3_asr": {"audio_config": {"output_dim": 32, "n_window_infer": 200}},
        "t5gemma2": {"encoder": {"mm_tokens_per_image": 16}},
        "perception_lm": {
            "vision_config": {
                "architecture": "vit_pe_lang_large_patch14_448",
                "model_args": {
                    "embed_dim": 32,
                    "depth": 2,
                    "num_heads": 4,
                    "patch_size": 8,
                    "img_size": [32, 32],
                    "ref_feat_shape": [4, 4],
                },
            },
            "projector_pooling_ratio": 2,
        },
        "shieldgemma2": {"mm_tokens_per_image": 16, "yes_token_index": 5, "no_token_index": 6},
        "voxtral": {"audio_token_id": 120},
        "vipllava": {"vision_feature_layers": [-1, -2], "vision_feature_layer": [-1, -2]},
    }
)
"""By model type."""
