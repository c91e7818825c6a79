"""Sizes that no pattern of names gives, for model types without a row."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import tiny
from sizes.detection import HGNET, RT_DETR

SHARED_CACHE: Mapping[str, Any] = tiny.SPECIAL["gemma4_text"]
ASSISTANT: Mapping[str, Any] = MappingProxyType(
    {
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0,
        "num_kv_shared_layers": 2,
    }
)
CODEC: Mapping[str, Any] = MappingProxyType(
    {
        "num_filters": 8,
        "codebook_size": 32,
        "codebook_dim": 16,
        "vector_quantization_hidden_dimension": 16,
        "upsample_groups": 32,
        "num_quantizers": 4,
        "max_position_embeddings": 2000,
        "sliding_window": 250,
    }
)
WAVTOKENIZER: Mapping[str, Any] = MappingProxyType(
    {
        "num_filters": 4,
        "upsampling_ratios": [4, 2],
        "hidden_size": 32,
        "codebook_size": 16,
        "codebook_dim": 32,
        "decoder_hidden_size": 32,
        "decoder_num_layers": 2,
        "decoder_attention_num_groups": 8,
    }
)
PP_LCNET_STAGES = ["stage2", "stage3", "stage4", "stage5"]
VIBEVOICE: Mapping[str, Any] = MappingProxyType(
    {"num_filters": 4, "downsampling_ratios": [2, 4], "depths": [1, 1, 1], "hidden_size": 16}
)
MUSE_AUDIO: Mapping[str, Any] = MappingProxyType({"num_hidden_layers": 4, "depths": [1, 1, 1, 1]})
IMAGE_TOKEN: Mapping[str, Any] = MappingProxyType({"vocabulary_map": {"<image>": 100, "<|extra_200|>": 101}})
SERIES: Mapping[str, Any] = MappingProxyType({"prediction_length": 7, "context_length": 14, "lags_sequence": [1, 2]})

SAM2: Mapping[str, Any] = tiny.SPECIAL["sam2"]["vision_config"]

# By the type of the configuration, also of one inside another.
OVERRIDES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # The tokens of images are 64 to 95, those of sounds 96 to 111.
        "apertus1p5": {
            "image_token_offset": 64,
            "audio_token_offset": 96,
            "vision_config": {
                "codebook_size": 32,
                "embed_dim": 16,
                "latent_channels": 16,
                "base_channels": 32,
                "channel_multiplier": [1, 2],
                "num_res_blocks": 1,
                "resolution": 32,
            },
        },
        "wavtokenizer": WAVTOKENIZER,
        "wavtokenizer_encoder": WAVTOKENIZER,
        "deepseek_ocr2": {"text_config": {"num_experts_per_tok": 2}},
        # A token for padding has zeros as its embedding, so all experts have one score, and any of them may be picked.
        "jetmoe": {"pad_token_id": None},
        "autoformer": SERIES,
        "informer": SERIES,
        "dbrx": {
            "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0},
            "ffn_config": {"moe_top_k": 2},
        },
        "blt_patcher": {"vocab_size": 260},
        "chameleon": IMAGE_TOKEN,
        "emu3": IMAGE_TOKEN,
        "cohere_compass_text": {
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
            }
        },
        "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
        "diffusion_gemma_text": {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 24},
        # A layer before the loops, two layers that run twice, and one after them.
        "dory": {
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "n_input_layers": 1,
            "n_recurrent_layers": 2,
            "n_output_layers": 1,
        },
        "dots3_note_vision_encoder": {"adapter_in_dim": 32, "adapter_out_dim": 32},
        "dots3_note_audio_encoder": {"adapter_input_size": 32, "adapter_out_dim": 32},
        "dots3_note_text": {"index_head_dim": 8, "index_n_heads": 4, "shared_experts_intermediate_size": 24},
        "ernie4_5_vl_moe_text": {
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
        },
        "fun_asr_nano": {"adaptor_config": {"intermediate_size": 8}},
        "gemma4_assistant": {"text_config": ASSISTANT},
        "granite4_vision": {"deepstack_layer_map": [[-1, 0]]},
        "nemotron_h_omni": {"vision_config": {"video_temporal_patch_size": 2}},
        "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 24},
        "gemma4_text": {**SHARED_CACHE, "num_experts": None},
        "gemma4_unified_text": SHARED_CACHE,
        "glm5_next_text": {
            "qk_rope_head_dim": 0,
            "head_dim": 0,
            "index_kpool": 4,
            "index_topk": 8,
            "index_head_dim": 8,
            # The scores of a pool are 0 where all heads are below 0: with few heads, several pools have the same score.
            "index_n_heads": 16,
            "linear_num_heads": 4,
            "linear_head_dim": 8,
        },
        "hunyuan_vl_text": {"head_dim": 8},
        "hy_v4_vl_text": {
            "pad_token_id": None,
            "num_hidden_layers": 3,
            "mlp_layer_types": None,
            "layer_types": None,
            "indexer_types": None,
            "qk_rope_head_dim": 8,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]},
            "index_topk": 8,
            "index_head_dim": 8,
            "index_n_heads": 16,
        },
        # A layer before the loops, two layers that run twice, and one after them.
        "inkling2_loop_text": {
            "num_hidden_layers": 4,
            "layer_types": ["hybrid_sliding", "hybrid"] * 2,
            "n_layers_per_attn_res_block": 1,
            "loop_layer_index_start": 1,
            "loop_layer_index_end": 3,
            "loop_num_passes": 2,
            "loop_gate_rank": 8,
        },
        "instructblip": {"image_token_index": 100},
        "instructblipvideo": {"video_token_index": 100},
        "mimi": CODEC,
        "mimi_encoder": CODEC,
        "mimi_decoder": CODEC,
        "pocket_tts_audio_tokenizer": CODEC,
        "pocket_tts_audio_tokenizer_encoder": CODEC,
        "pocket_tts_audio_tokenizer_decoder": CODEC,
        "molmo2_adapter": {"vision_feature_layer": [-1, 0]},
        "muse_spark_audio": MUSE_AUDIO,
        "moshi": {"num_codebooks": 4, "depth_decoder_config": {"num_codebooks": 4}},
        "nemo_speechlm": {"text_config": {"num_key_value_heads": 2}},
        "nemotron3_5_transcribe_asr_audio": {"num_key_value_heads": 4},
        "nemotron3_diarization_audio": {"num_key_value_heads": 4},
        "neomme": {"head_dim": 16},
        "paligemma": {"text_config": {"num_key_value_heads": 2}},
        "nemotron3_5_transcribe_word_timestamp": {"num_key_value_heads": 4},
        "qwen4_exp_text": {
            # With few heads, or for a pad token, all scores may be 0: then any choice of blocks is right.
            "pad_token_id": None,
            "indexer_n_heads": 16,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 8,
            "indexer_budget": 8,
            "indexer_compress_ratio": 4,
            "ngram_vocab_size_base": 64,
            "make_ngram_vocab_size_divisible_by": 8,
            "split_ngram_parts": 4,
            "hc_lowrank": 8,
        },
        "minicpm_ocr_vision": {"insert_layer_id": 0},
        "minicpmv4_7_vision": {"insert_layer_id": 0},
        "mistral4": {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 1.0,
                "llama_4_scaling_beta": 0.1,
                "original_max_position_embeddings": 64,
            }
        },
        "pp_doclayout_v4": {
            **RT_DETR,
            "backbone_config": {**HGNET["backbone_config"], "out_indices": [2, 3, 4]},
            "hidden_size": 32,
            "global_pointer_head_size": 8,
        },
        "sam2_hiera_det_model": {name: size for name, size in SAM2["backbone_config"].items() if name != "model_type"},
        "sam2_vision_model": SAM2,
        "slanet": {
            "backbone_config": {"model_type": "pp_lcnet", "out_features": PP_LCNET_STAGES, "out_indices": [2, 3, 4, 5]},
        },
        "shieldgemma2": {"yes_token_index": 5, "no_token_index": 6},
        "step3p7": {"text_config": {"sliding_window": 5}},
        "timm_backbone": {"backbone": "resnet18"},
        "timm_wrapper": {"architecture": "resnet18"},
        "tvp": {"max_img_size": 64},
        # Its encoder of the waveform has a frame for each step of HuBERT's convolutions: 320 samples.
        "xcodec": {"acoustic_model_config": {"downsampling_ratios": [8, 5, 4, 2], "upsampling_ratios": [8, 5, 4, 2]}},
        "reformer": {
            "axial_pos_embds_dim": [8, 24],
            "axial_pos_shape": [16, 32],
            "max_position_embeddings": 512,
            "attention_head_size": 8,
        },
        "t5gemma2_text": {"dropout_rate": 0.0},
        "vibevoice_acoustic_tokenizer": VIBEVOICE,
        "vibevoice_acoustic_tokenizer_encoder": VIBEVOICE,
        "vibevoice_acoustic_tokenizer_decoder": VIBEVOICE,
        "vibevoice_semantic_tokenizer": VIBEVOICE,
        "vibevoice_semantic_tokenizer_encoder": VIBEVOICE,
    }
)

# Sections of a head that turn with time, height and width, where the code has them and no configuration does.
SECTIONS: Mapping[str, list[int]] = MappingProxyType(
    {
        "glm4v_text": [2, 1, 1],
        "glm4v_moe_text": [1, 1, 0],
        "glm_image_text": [2, 1, 1],
        "glm_ocr_text": [2, 1, 1],
        "paddleocr_vl_text": [2, 1, 1],
        "qwen2_vl_text": [2, 1, 1],
        "qwen2_5_vl_text": [2, 1, 1],
        "qwen2_5_omni_text": [2, 1, 1],
        "qwen2_5_omni_talker": [2, 1, 1],
        "cosmos3_edge_text": [2, 1, 1],
        "hunyuan_vl_text": [1, 1, 1, 1],
    }
)
