"""Tiny sizes: models of time series and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "decision_transformer": {"n_layer": 2, "n_head": 4, "max_ep_len": 40},
    "patchtsmixer": {"d_model": 12, "num_layers": 2, "num_input_channels": 3, "prediction_length": 5},
    "patchtst": {"d_model": 32, "ffn_dim": 48, "num_input_channels": 3, "prediction_length": 5, "init_std": 0.15},
    "time_series_transformer": {
        "prediction_length": 5,
        "scaling": "std",
        "context_length": 12,
        "lags_sequence": [1, 2, 7],
        "num_time_features": 3,
        "num_static_categorical_features": 1,
        "cardinality": [4],
        "embedding_dimension": [3],
        "num_static_real_features": 2,
        "d_model": 32,
        "init_std": 0.15,
    },
    "timesfm": {"patch_length": 8, "context_length": 96, "horizon_length": 12, "num_attention_heads": 4},
    "timesfm2_5": {
        "patch_length": 8,
        "context_length": 96,
        "horizon_length": 12,
        "output_quantile_len": 10,
        "num_key_value_heads": 4,
    },
}
