"""Tiny sizes: models of time series and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "decision_transformer": {"n_layer": 2, "n_head": 4, "max_ep_len": 40},
    "patchtsmixer": {"d_model": 12, "num_layers": 2, "num_input_channels": 3, "prediction_length": 5},
    "patchtst": {"d_model": 32, "ffn_dim": 48, "num_input_channels": 3, "prediction_length": 5, "init_std": 0.15},
}
