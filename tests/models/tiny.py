"""Tiny random models of every architecture: small enough to export in seconds, uneven enough to show faults."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from norm_statistics import batch_norms, measured_statistics
from sizes import audio, detection, libraries, multimodal, series, vision

SIZES: Mapping[str, Any] = MappingProxyType(
    {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "vocab_size": 128,
        "max_position_embeddings": 96,
        "initializer_range": 0.15,  # ten times the usual: weights that matter
        "num_key_value_heads": 2,
        "head_dim": 8,
        "sliding_window": 5,
        "attention_chunk_size": 5,
        "num_experts": 8,
        "num_local_experts": 8,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 24,
        "n_shared_experts": 1,
        "n_group": 2,
        "topk_group": 1,
        "kv_lora_rank": 16,
        "q_lora_rank": 12,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 6,
        "first_k_dense_replace": 1,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 6,
        "linear_value_head_dim": 8,
        "mamba_n_heads": 8,
        "mamba_chunk_size": 8,
        "chunk_size": 8,
        "mamba_d_head": 8,
        "mamba_n_groups": 2,
        "mamba_d_state": 10,
        "n_mamba_heads": 8,
        "mamba_headdim": 8,
        "mamba_ngroups": 2,
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "n_groups": 2,
        "ssm_state_size": 10,
    }
)

T5: Mapping[str, Any] = MappingProxyType(
    {
        "num_layers": 3,
        "num_decoder_layers": 2,
        "d_kv": 12,
        "decoder_start_token_id": 0,
        "relative_attention_num_buckets": 8,  # more than twice the distance would have no bucket for a long text
        "relative_attention_max_distance": 9,
        "d_ff": 48,
    }
)

BART: Mapping[str, Any] = MappingProxyType(
    {
        "encoder_layers": 3,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 40,
        "init_std": 0.15,
    }
)

SEAMLESS: Mapping[str, Any] = MappingProxyType(
    {
        "hidden_size": 32,
        "initializer_range": 0.15,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 40,
        "speech_encoder_layers": 2,
        "speech_encoder_attention_heads": 4,
        "speech_encoder_intermediate_size": 48,
        "feature_projection_input_dim": 12,
        "conv_depthwise_kernel_size": 5,
        "t2u_vocab_size": 64,
        "t2u_encoder_layers": 2,
        "t2u_decoder_layers": 2,
        "t2u_encoder_attention_heads": 4,
        "t2u_decoder_attention_heads": 4,
        "t2u_encoder_ffn_dim": 48,
        "t2u_decoder_ffn_dim": 40,
        "unit_hifi_gan_vocab_size": 64,
        "unit_embed_dim": 16,
        "lang_embed_dim": 8,
        "spkr_embed_dim": 8,
        "upsample_initial_channel": 32,
    }
)

XLM: Mapping[str, Any] = MappingProxyType(
    {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "embed_init_std": 0.15, "init_std": 0.15}
)

LATENT: Mapping[str, Any] = MappingProxyType({"head_dim": 4, "num_key_value_heads": 4})

# What an architecture calls otherwise, or needs besides; windows are so small that 16 tokens reach past their ends.
SPECIAL: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **vision.SPECIAL,
        **detection.SPECIAL,
        **multimodal.SPECIAL,
        **audio.SPECIAL,
        **series.SPECIAL,
        **libraries.SPECIAL,
        "axk1": LATENT,
        "esmc": {"num_key_value_heads": 4},
        "gemma3n_text": {
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_kv_shared_layers": 2,
            "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0],
            "vocab_size_per_layer_input": 128,
            "hidden_size_per_layer_input": 8,
            "laurel_rank": 8,
            "altup_num_inputs": 2,
        },
        "gemma4_text": {
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_kv_shared_layers": 2,
            "global_head_dim": 16,
            "vocab_size_per_layer_input": 128,
            "hidden_size_per_layer_input": 8,
        },
        "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"], "shared_intermediate_size": 24},
        "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
        "kimi_linear": {
            **LATENT,
            "linear_num_heads": 4,
            "linear_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
            "mlp_layer_types": ["dense", "sparse"],
        },
        "bailing_hybrid": {**LATENT, "head_dim": 8, "layer_types": ["linear_attention", "full_attention"]},
        "gemma4_unified_text": {
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "global_head_dim": 16,
        },
        "lfm3": {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "sliding_attention"]},
        "longcat_flash": {**LATENT, "num_layers": 1},
        "nemotron_h": {"moe_shared_expert_intermediate_size": 24},
        "youtu": LATENT,
        "zamba": {
            "layers_block_type": ["hybrid", "linear_attention", "hybrid"],
            "num_hidden_layers": 3,
            "num_key_value_heads": 4,
            "head_dim": 16,
        },
        "zamba2": {"layers_block_type": ["linear_attention", "hybrid"], "num_key_value_heads": 4},
        "albert": {"embedding_size": 16},
        "bamba": {"attn_layer_indices": [1]},
        "big_bird": {"block_size": 8, "num_random_blocks": 1},
        "bros": {"hidden_size": 64},
        "canine": {"local_transformer_stride": 8, "num_hash_buckets": 96},
        "convbert": {"embedding_size": 16},
        "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": -1},
        "deberta-v2": {
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "position_buckets": 8,
            "conv_kernel_size": 3,
        },
        "codegen": {"rotary_dim": 4},
        "deepseek_v2": LATENT,
        "deepseek_v3": LATENT,
        "dots1": {"layer_types": ["sliding_attention", "full_attention"]},
        "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
        "electra": {"embedding_size": 16},
        "ernie": {"use_task_id": True},
        "esm": {"pad_token_id": 1, "mask_token_id": 32, "vocab_size": 33},
        "flaubert": XLM,
        "falcon": {"num_kv_heads": 4},
        "funnel": {
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 48,
            "block_sizes": [1, 1, 1],
            "architectures": ["FunnelModel"],
        },
        "gemma": {"head_dim": 12},
        "gemma2": {"head_dim": 12},
        "gemma3": {
            "text_config": {**SIZES, "head_dim": 12, "layer_types": ["sliding_attention", "full_attention"]},
            "vision_config": {
                "hidden_size": 16,
                "intermediate_size": 24,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": 28,
                "patch_size": 14,
            },
            "mm_tokens_per_image": 4,
            "image_token_id": 99,
            "boi_token_id": 97,
            "eoi_token_id": 98,
        },
        "gemma3_text": {"head_dim": 12},
        "glm4_moe_lite": LATENT,
        "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 5},
        "gpt_oss": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        "gptj": {"rotary_dim": 4},
        "laguna": {"layer_types": ["sliding_attention", "full_attention"]},
        "lilt": {"hidden_size": 48},
        "longformer": {"attention_window": 8},
        "luke": {"entity_vocab_size": 20, "entity_emb_size": 16},
        "bart": BART,
        "bigbird_pegasus": BART,
        "blenderbot": BART,
        "blenderbot-small": BART,
        "longt5": {**T5, "local_radius": 4, "global_block_size": 3},
        "led": {
            **BART,
            "attention_window": 8,
            "max_encoder_position_embeddings": 96,
            "max_decoder_position_embeddings": 96,
        },
        "m2m_100": BART,
        "marian": BART,
        "mbart": BART,
        "moonshine": {
            "encoder_num_hidden_layers": 3,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4,
            "encoder_num_key_value_heads": 4,
            "decoder_num_attention_heads": 2,
            "decoder_num_key_value_heads": 2,
        },
        "moonshine_streaming": {
            "initializer_range": 0.15,
            "num_key_value_heads": 4,
            "encoder_config": {
                "hidden_size": 24,
                "intermediate_size": 40,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "initializer_range": 0.15,
                "sliding_windows": [[4, 2], [3, 0], [5, 3]],
                "frame_ms": 2.0,
            },
        },
        "canary": {
            "vocab_size": 128,
            "initializer_range": 0.15,
            "encoder_config": {**audio.PARAKEET, "scale_input": False},
            "decoder_config": {
                "vocab_size": 128,
                "hidden_size": 32,
                "intermediate_size": 40,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "max_position_embeddings": 96,
                "initializer_range": 0.15,
            },
        },
        "cohere_asr": {"encoder_config": {**audio.PARAKEET, "hidden_size": 24, "scale_input": False}},
        "mt5": T5,
        "musicgen": {
            "text_encoder": {"model_type": "t5", "d_model": 24, "num_heads": 4, "vocab_size": 128, **T5},
            "audio_encoder": {
                "model_type": "encodec",
                "hidden_size": 16,
                "num_filters": 4,
                "codebook_size": 32,
                "codebook_dim": 16,
                "upsampling_ratios": [3, 2],
                "num_lstm_layers": 1,
                "sampling_rate": 32000,
                "target_bandwidths": [110.0],
                "use_causal_conv": False,
            },
            "decoder": {
                "model_type": "musicgen_decoder",
                "vocab_size": 32,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "ffn_dim": 40,
                "max_position_embeddings": 96,
                "initializer_factor": 0.15,
                "pad_token_id": 32,
                "bos_token_id": 32,
            },
        },
        "mvp": {**BART, "use_prompt": True, "prompt_length": 4, "prompt_mid_dim": 12},
        "pegasus": BART,
        "pegasus_x": {**BART, "block_size": 4, "num_global_tokens": 3},
        "pix2struct": {
            "text_config": {
                "vocab_size": 128,
                "hidden_size": 32,
                "d_kv": 8,
                "d_ff": 48,
                "num_layers": 2,
                "num_heads": 4,
                "relative_attention_num_buckets": 8,
                "relative_attention_max_distance": 9,
                "is_encoder_decoder": True,
                "tie_word_embeddings": False,
            },
            "vision_config": {
                "hidden_size": 32,
                "patch_embed_hidden_size": 12,
                "d_kv": 8,
                "d_ff": 40,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "patch_size": 2,
                "seq_len": 96,
            },
        },
        "encoder-decoder": {
            "encoder": {"model_type": "bert", **SIZES},
            "decoder": {
                "model_type": "gpt2",
                "n_embd": 32,
                "n_layer": 2,
                "n_head": 4,
                "vocab_size": 128,
                "n_positions": 96,
                "add_cross_attention": True,
                "is_decoder": True,
                "bos_token_id": 1,
                "eos_token_id": 1,
            },
        },
        "seamless_m4t": SEAMLESS,
        "seamless_m4t_v2": {
            **SEAMLESS,
            "speech_encoder_chunk_size": 24,
            "speech_encoder_left_chunk_num": 1,
            "left_max_position_embeddings": 6,
            "right_max_position_embeddings": 3,
        },
        "speech-encoder-decoder": {
            "encoder": {"model_type": "wav2vec2", **SIZES, **audio.CONVOLVED, "hidden_size": 24},
            "decoder": {"model_type": "mbart", **SIZES, **BART, "add_cross_attention": True, "is_decoder": True},
        },
        "vision-encoder-decoder": {
            "encoder": {"model_type": "vit", **SIZES, "image_size": 24, "patch_size": 6},
            "decoder": {
                "model_type": "trocr",
                "d_model": 32,
                "decoder_layers": 2,
                "decoder_attention_heads": 2,
                "decoder_ffn_dim": 40,
                "vocab_size": 128,
                "max_position_embeddings": 96,
                "init_std": 0.15,
            },
        },
        "plbart": BART,
        "pop2piano": {**T5, "composer_vocab_size": 7},
        "prophetnet": {
            "num_encoder_layers": 3,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 2,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 40,
            "init_std": 0.15,
            "num_buckets": 8,
            "relative_max_distance": 9,
        },
        "switch_transformers": {**T5, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
        "trocr": {
            "d_model": 32,
            "cross_attention_hidden_size": 24,
            "decoder_layers": 2,
            "decoder_attention_heads": 2,
            "decoder_ffn_dim": 40,
            "init_std": 0.15,
        },
        "umt5": T5,
        "whisper": {**BART, "max_source_positions": 15, "max_target_positions": 96, "num_mel_bins": 10},
        "markuplm": {
            "max_depth": 5,
            "xpath_unit_hidden_size": 8,
            "max_xpath_tag_unit_embeddings": 20,
            "max_xpath_subs_unit_embeddings": 20,
            "tag_pad_id": 1,
            "subs_pad_id": 1,
        },
        "falcon_mamba": {"intermediate_size": 64},
        "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
        "mamba": {"intermediate_size": 64},
        "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 10},
        "falcon_h1": {"mamba_d_ssm": 64},
        "mellum": {"layer_types": ["sliding_attention", "full_attention"]},
        "mimo_v2_flash": {
            "layer_types": ["sliding_attention", "full_attention"],
            "mlp_layer_types": ["dense", "sparse"],
        },
        "minicpm3": {"num_key_value_heads": 4},
        "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "expansion_ratio": 2},
        "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 32, "true_hidden_size": 32},
        "modernbert": {"pad_token_id": 0, "global_attn_every_n_layers": 2, "local_attention": 8},
        "modernbert-decoder": {"pad_token_id": 0, "global_attn_every_n_layers": 2, "local_attention": 8},
        "nystromformer": {"num_landmarks": 8, "segment_means_seq_len": 8},  # unequal, it reads one fixed length only
        "opt": {"init_std": 0.15, "word_embed_proj_dim": 16, "ffn_dim": 48},
        "phi3": {"sliding_window": 5},
        "qwen2": {
            "use_sliding_window": True,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        "qwen3": {
            "head_dim": 12,
            "use_sliding_window": True,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        "qwen3_moe": {"head_dim": 12},
        "rembert": {"input_embedding_size": 16, "output_embedding_size": 24},
        "roc_bert": {
            "pronunciation_vocab_size": 30,
            "pronunciation_embed_dim": 8,
            "shape_vocab_size": 40,
            "shape_embed_dim": 16,
        },
        "roformer": {"embedding_size": 16},
        "squeezebert": {"embedding_size": 32},
        "speech_to_text": {
            **BART,
            "max_source_positions": 96,
            "max_target_positions": 96,
            "conv_channels": 24,
            "input_feat_per_channel": 10,
        },
        "speecht5": {
            **BART,
            "num_mel_bins": 10,
            "speech_decoder_prenet_units": 24,
            "speaker_embedding_dim": 12,
            "speech_decoder_postnet_units": 20,
            "speech_decoder_postnet_layers": 3,
            "encoder_max_relative_position": 9,
            "max_speech_positions": 96,
            "max_text_positions": 96,
        },
        "speecht5_hifigan": {
            "model_in_dim": 10,
            "upsample_initial_channel": 16,
            "upsample_rates": [3, 2],
            "upsample_kernel_sizes": [7, 4],
            "resblock_kernel_sizes": [3, 5],
            "resblock_dilation_sizes": [[1, 3], [1, 2]],
        },
        "t5": T5,
        "t5gemma": {
            "encoder": {
                **SIZES,
                "num_hidden_layers": 3,
                "layer_types": ["full_attention", "sliding_attention", "full_attention"],
            },
            "decoder": {**SIZES, "layer_types": ["sliding_attention", "full_attention"]},
        },
        "tapas": {"type_vocab_sizes": [3, 8, 8, 2, 8, 8, 10]},
        "ultrabert": {
            "sliding_window": 4,
            "prediction_head_size": 24,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        "xlm": XLM,
        "xlnet": {"d_head": 8},
        "xmod": {"languages": ["en_XX", "de_DE"]},
    }
)

NORMED: Mapping[str, tuple[int, ...]] = MappingProxyType({**vision.NORMED, **detection.NORMED})

# Models that another one speaks with.
BESIDE: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"speecht5": {"vocoder": ("speecht5_hifigan", "SpeechT5HifiGan")}}
)


def config(model_type: str, **overrides: Any) -> Any:
    """A small configuration of this model type; `overrides` are its own arguments."""
    from transformers import AutoConfig

    default = AutoConfig.for_model(multimodal.CALLED.get(model_type, model_type))
    told = default.to_dict()
    sizes = {name: value for name, value in SIZES.items() if name in told or name in default.attribute_map}
    chosen = {**sizes, **_layer_types(told), **SPECIAL.get(model_type, {}), **overrides}
    return type(default)(**{**_tokens(told, chosen.get("vocab_size")), **chosen})


def model(
    model_type: str, loader: str = "AutoModel", change: Callable[[Any], Any] = lambda config: config, **overrides: Any
) -> Any:
    """A model in evaluation mode: weights from a fixed seed, none constant. `change` edits the configuration."""
    import torch
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(0)
        kind = getattr(transformers, loader)
        found = getattr(kind, "from_config", kind)(change(config(model_type, **overrides))).eval()
        for name, (other, kind) in BESIDE.get(model_type, {}).items():
            setattr(found, name, getattr(transformers, kind)(config(other)).eval())
        if model_type in NORMED:
            _norm(found, NORMED[model_type], vision.BIASED.get(model_type, 0.0))
        disturb(found)
        if model_type in audio.QUIET:
            _louden(found)
        if model_type in detection.UNSURE:
            _assure(found)
        if model_type in detection.OVERSURE:
            _moderate(found)
        if model_type in detection.FAR:
            _bring_near(found)
        if model_type in detection.LOUD:
            _hush(found)
    return found


def _tokens(told: Mapping[str, Any], vocabulary: int | None) -> dict[str, int]:
    """Special tokens that the small vocabulary lacks, moved to 1."""
    ids = {name: value for name, value in told.items() if name.endswith("_token_id") and isinstance(value, int)}
    moved = {name: 1 for name, value in ids.items() if vocabulary is not None and value >= vocabulary}
    return {"pad_token_id": 0, **moved} if told.get("pad_token_id") is None else moved


def _layer_types(told: Mapping[str, Any]) -> dict[str, list[str]]:
    """Two layers of the kinds that the architecture has, one of each."""
    kinds = list(dict.fromkeys(told.get("layer_types") or ()))
    return {"layer_types": (kinds * 2)[:2]} if kinds else {}


def _norm(model: Any, shape: tuple[int, ...], bias: float) -> None:
    """Norms over batches get this bias, and the statistics of noise of this shape.

    Without statistics, what a deep net says is a constant.
    """
    import torch

    for norm in batch_norms(model) if bias else ():
        norm.bias.data += bias
    with torch.no_grad(), measured_statistics(model):
        model(torch.randn(shape))


def disturb(model: Any) -> None:
    """Norms of all ones, biases and codes of all zeros and fresh statistics hide a fault: each becomes uneven."""
    import torch

    with torch.no_grad():
        for weights in model.parameters():
            if weights.is_floating_point() and weights.numel() > 1 and bool((weights == weights.flatten()[0]).all()):
                weights.add_(torch.randn_like(weights) * 0.1)
        for name, statistics in model.named_buffers():
            if name.endswith(("running_mean", "running_var")) and bool((statistics == statistics.flatten()[0]).all()):
                statistics.add_(torch.rand_like(statistics) * 0.5)
            if name.endswith("codebook.embed"):
                statistics.add_(torch.randn_like(statistics))


def _louden(model: Any) -> None:
    """Convolutions whose weights are so small that a sound dies away in them: each gives half of what it took."""
    import torch

    convolutions = (torch.nn.Conv1d, torch.nn.ConvTranspose1d)
    with torch.no_grad():
        for layer in (one for one in model.modules() if isinstance(one, convolutions)):
            layer.weight.mul_(0.5 / (layer.weight.std() * (layer.weight[0].numel() or 1) ** 0.5))


def _assure(model: Any) -> None:
    """Matchers to whom all keypoints look alike, and none worth a match: these look further apart, and are worth it."""
    import torch

    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith("final_projection.weight"):
                weights.mul_(15)
            if name.endswith("matchability.bias"):
                weights.add_(3)


def _moderate(model: Any) -> None:
    """Matchers whose scores are so far apart that PyTorch's own rounding shows in a match as 1e-5: a quarter as far."""
    import torch

    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith("final_proj.weight"):
                weights.mul_(0.5)


def _bring_near(model: Any) -> None:
    """Depths of hundreds, and of nothing at most places, as some that are all about one."""
    import torch

    with torch.no_grad():
        for layer in (one for one in model.modules() if isinstance(one, torch.nn.Conv2d) and one.out_channels == 1):
            layer.weight.mul_(0.02)
            layer.bias.add_(4)


def _hush(model: Any) -> None:
    """Convolutions drawn so wide that sums of their sums pass a hundred: each weighs half."""
    import torch

    with torch.no_grad():
        for layer in (one for one in model.modules() if isinstance(one, torch.nn.Conv2d)):
            layer.weight.mul_(0.5)
