"""The pattern in which MusicGen delays its codes (modeling_musicgen, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def build_delay_pattern_mask(model: Any) -> Any:
    """Codes -> delayed codes, and the delay pattern, which is -1 where a code is to be generated."""

    def forward(input_ids: Tensor, pad_token_id: Tensor, max_length: Tensor) -> dict[str, Tensor]:
        delayed, pattern = model.decoder.build_delay_pattern_mask(input_ids, pad_token_id, max_length.item())
        return {"input_ids_edited": delayed, "delay_pattern_mask": pattern}

    return module(forward)
