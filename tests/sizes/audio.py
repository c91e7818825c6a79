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
