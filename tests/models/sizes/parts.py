"""Sizes of models that see or hear and write, where those of `derived.py` leave out a tower or do not fit it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

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
        "fun_asr_nano": {"audio_config": {"max_position_embeddings": 512}},
        "granite_speech": {"window_size": 4, "downsample_rate": 2},
        "granite_speech_plus": {"window_size": 4, "downsample_rate": 2},
        "gemma4_unified": {"audio_config": {"model_type": "gemma4_unified_audio", "audio_embed_dim": 40}},
        "gemma4": {"vision_config": dict(GEMMA4_VISION), "audio_config": dict(GEMMA4_AUDIO)},
        "lfm2_vl": {"text_config": {"layer_types": ["conv", "full_attention"]}},
        "got_ocr2": {"vision_config": {"output_channels": 16}},
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
        "qwen3_asr": {"audio_config": {"output_dim": 32, "n_window_infer": 200}},
        "t5gemma2": {"encoder": {"mm_tokens_per_image": 16}},
        "shieldgemma2": {"mm_tokens_per_image": 16, "yes_token_index": 5, "no_token_index": 6},
        "voxtral": {"audio_token_id": 120},
        "vipllava": {"vision_feature_layers": [-1, -2], "vision_feature_layer": [-1, -2]},
    }
)
"""By model type."""
