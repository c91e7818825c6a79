"""Whom Pop2Piano is to sound like, set before what it hears (modeling_pop2piano, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def mel_conditioner(model: Any) -> Any:
    """From what is heard, and the number of a composer, to what the encoder takes; composers are counted from 0."""
    import torch

    def forward(input_features: Tensor, attention_mask: Tensor, composer: Tensor) -> dict[str, Tensor]:
        begins = attention_mask[:, :1]
        features = model.mel_conditioner(input_features, composer, 0)
        return {
            "conditioned_features": torch.where(begins[:, :, None] > 0, features, 0.0),
            "conditioned_attention_mask": torch.cat([begins, attention_mask], dim=1),
        }

    return module(forward)
