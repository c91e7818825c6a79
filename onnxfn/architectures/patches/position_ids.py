"""Position ids that count only the tokens that are not padding, in one integer dtype."""

from __future__ import annotations

from torch import Tensor


def position_ids_from_input_ids(_: object, input_ids: Tensor, padding_idx: int, cache_length: int = 0) -> Tensor:
    """For create_position_ids_from_input_ids of modeling_m2m_100 and modeling_speech_to_text (transformers 5.23).

    Positions start at `padding_idx + 1`. The original counts in int32 and adds a length, which is int64 in ONNX.
    """
    mask = input_ids.ne(padding_idx).long()
    return (mask.cumsum(dim=1) + cache_length) * mask + padding_idx
