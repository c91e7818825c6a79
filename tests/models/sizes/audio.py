"""Tiny sizes: models that hear and speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONVOLVED: Mapping[str, Any] = {
    "conv_dim": [16] * 7,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "num_codevectors_per_group": 8,
    "proj_codevector_dim": 16,
    "codevector_dim": 16,
    "classifier_proj_size": 24,
    "tdnn_dim": [24, 24, 24, 24, 40],
    "xvector_output_dim": 20,
}

SEW: Mapping[str, Any] = {
    "conv_dim": [16] * 13,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "classifier_proj_size": 24,
}

PARAKEET: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "initializer_range": 0.15,
    "subsampling_conv_channels": 8,
    "num_mel_bins": 16,
    "conv_kernel_size": 5,
    "max_position_embeddings": 96,
}

TRANSDUCER: Mapping[str, Any] = {
    "encoder_config": PARAKEET,
    "decoder_hidden_size": 24,
    "num_decoder_layers": 2,
    "vocab_size": 40,
    "blank_token_id": 39,
}

NEMOTRON: Mapping[str, Any] = {**PARAKEET, "sliding_window": 4, "default_num_lookahead_tokens": 1}

GRANITE: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "head_dim": 8,
    "intermediate_size": 48,
    "initializer_range": 0.15,
    "num_mel_bins": 6,
    "context_size": 12,
    "vocab_size": 128,
    "subsample_layers": [0, 2],
    "max_position_embeddings": 24,
    "num_key_value_heads": 4,
}

HIFIGAN: Mapping[str, Any] = {
    "initializer_range": 0.15,
    "model_in_dim": 10,
    "upsample_initial_channel": 16,
    "upsample_rates": [3, 2],
    "upsample_kernel_sizes": [7, 4],
    "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [[1, 3], [1, 2]],
}

FASTSPEECH: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_mel_bins": 10,
    "vocab_size": 60,
    "speaking_speed": 3.0,  # tokens that last for more than a frame
    "encoder_num_attention_heads": 2,
    "decoder_num_attention_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_linear_units": 40,
    "decoder_linear_units": 40,
    "decoder_kernel_size": 5,
    "speech_decoder_postnet_layers": 2,
    "speech_decoder_postnet_units": 12,
    "duration_predictor_channels": 12,
    "energy_predictor_channels": 12,
    "pitch_predictor_layers": 2,
    "pitch_predictor_channels": 12,
}

HEARD: Mapping[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "num_mel_bins": 10,
    "max_source_positions": 15,
}

DIARIZED: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "initializer_range": 0.15,
    "num_mel_bins": 10,
    "num_key_value_heads": 4,
}

SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "wav2vec2": CONVOLVED,
    "audio-spectrogram-transformer": {"max_length": 44, "num_mel_bins": 26},
    "data2vec-audio": CONVOLVED,
    "hubert": CONVOLVED,
    "sew": SEW,
    "sew-d": SEW,
    "unispeech": CONVOLVED,
    "unispeech-sat": CONVOLVED,
    "wav2vec2-conformer": CONVOLVED,
    "wav2vec2-bert": {
        **CONVOLVED,
        "feature_projection_input_dim": 20,
        "left_max_position_embeddings": 6,
        "right_max_position_embeddings": 3,
        "conv_depthwise_kernel_size": 5,
        "adapter_kernel_size": 3,
    },
    "audioflamingo3_encoder": HEARD,
    "fun_asr_nano_encoder": {"num_mel_bins": 6, "num_stacked_frames": 3, "num_timestamp_prediction_layers": 1},
    "glmasr_encoder": {"num_mel_bins": 10},
    "granite_speech5_ctc": {"encoder_config": GRANITE},
    "granite_speech5_encoder": GRANITE,
    "lasr_ctc": {"encoder_config": PARAKEET},
    "lasr_encoder": PARAKEET,
    "moss_transcribe_diarize_audio": HEARD,
    "nemotron3_5_asr": {
        **TRANSDUCER,
        "encoder_config": NEMOTRON,
        "initializer_range": 0.15,
        "num_prompts": 9,
        "default_prompt_id": 1,
    },
    "nemotron_asr_streaming": {**TRANSDUCER, "encoder_config": NEMOTRON},
    "nemotron_asr_streaming_encoder": NEMOTRON,
    "nemotron3_diarization": {
        "audio_config": DIARIZED,
        "head_config": {"hidden_size": 24, "audio_hidden_size": 32, "num_speakers": 4},
        "streaming_config": {"num_speakers": 4},
    },
    "nemotron3_diarization_audio": DIARIZED,
    "parakeet_ctc": {"encoder_config": PARAKEET},
    "parakeet_encoder": PARAKEET,
    "parakeet_rnnt": TRANSDUCER,
    "parakeet_tdt": TRANSDUCER,
    "pe_audio_encoder": {
        "dac_config": {
            "encoder_hidden_size": 4,
            "downsampling_ratios": [2, 4, 5, 8],
            "codebook_dim": 8,
            "hidden_size": 64,
        },
    },
    "dac": {
        "encoder_hidden_size": 4,
        "downsampling_ratios": [2, 5, 4],
        "upsampling_ratios": [4, 5, 2],
        "decoder_hidden_size": 32,
        "n_codebooks": 3,
        "codebook_size": 32,
        "codebook_dim": 6,
        "hidden_size": 32,
    },
    "encodec": {
        "hidden_size": 16,
        "num_filters": 4,
        "codebook_size": 32,
        "codebook_dim": 16,
        "upsampling_ratios": [5, 4],
        "num_lstm_layers": 1,
        "sampling_rate": 2000,
        "target_bandwidths": [1.0, 1.5],
    },
    "fastspeech2_conformer": FASTSPEECH,
    "fastspeech2_conformer_with_hifigan": {"model_config": FASTSPEECH, "vocoder_config": HIFIGAN},
    "fastspeech2_conformer_hifigan": HIFIGAN,
    "univnet": {
        "model_in_channels": 8,
        "model_hidden_channels": 8,
        "num_mel_bins": 10,
        "resblock_kernel_sizes": [3, 3],
        "resblock_stride_sizes": [4, 2],
        "resblock_dilation_sizes": [[1, 3], [1, 3]],
        "kernel_predictor_num_blocks": 1,
        "kernel_predictor_hidden_channels": 8,
    },
    "qwen2_audio_encoder": HEARD,
    "voxtral_encoder": HEARD,
    # So small that the waveform is not all at the ends of the hyperbolic tangent.
    "vits": {
        "num_attention_heads": 2,
        "ffn_dim": 40,
        "flow_size": 16,
        "noise_scale": 0.2,
        "prior_encoder_num_flows": 2,
        "prior_encoder_num_wavenet_layers": 2,
        "duration_predictor_num_flows": 2,
        "depth_separable_num_layers": 2,
        "upsample_initial_channel": 16,
        "upsample_rates": [4],
        "upsample_kernel_sizes": [8],
        "resblock_kernel_sizes": [3, 5],
        "resblock_dilation_sizes": [[1], [2]],
        "posterior_encoder_num_wavenet_layers": 2,
        "spectrogram_bins": 9,
    },
    "wavlm": CONVOLVED,
}

# transformers begins their convolutions with 0.02, whatever their size, and a sound that dies away proves nothing.
QUIET = frozenset({"dac", "pe_audio_encoder"})
