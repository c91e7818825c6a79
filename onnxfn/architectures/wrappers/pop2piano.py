"""The composer embedding of Pop2Piano, which precedes the mel features (modeling_pop2piano, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def mel_conditioner(model: Any) -> Any:
    """Mel features, their mask and the number of a composer, from 0 -> the encoder's input and its mask.

    As in the original, a row whose first feature is masked has no composer.
    """

    def forward(input_features: Tensor, attention_mask: Tensor, composer: Tensor) -> dict[str, Tensor]:
        first_mask = attention_mask[:, :1]
        features = model.mel_conditioner(input_features, composer, 0)
        return {
            "conditioned_features": torch.where(first_mask[:, :, None] > 0, features, 0.0),
            "conditioned_attention_mask": torch.cat([first_mask, attention_mask], dim=1),
        }

    return module(forward)
