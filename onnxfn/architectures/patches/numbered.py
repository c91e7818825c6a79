"""The places of tokens among those that are not padding, for tables of places that begin after the padding's."""

from __future__ import annotations

from torch import Tensor


def position_ids(input_ids: Tensor, padding_idx: int, past_key_values_length: int = 0) -> Tensor:
    """Places from `padding_idx + 1` (modeling_m2m_100, modeling_speech_to_text, transformers 5.23).

    The model counts in 32 bits and adds a length, which in ONNX is of 64.
    """
    mask = input_ids.ne(padding_idx).long()
    return (mask.cumsum(dim=1) + past_key_values_length) * mask + padding_idx


def position_ids_of(_: object, input_ids: Tensor, padding_idx: int, past_key_values_length: int = 0) -> Tensor:
    """`position_ids` as a method."""
    return position_ids(input_ids, padding_idx, past_key_values_length)
