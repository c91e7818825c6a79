"""Decoder input ids that are derived from the encoder's input ids."""

from __future__ import annotations

from torch import Tensor


def shift_tokens_right(input_ids: Tensor, pad_token_id: int) -> Tensor:
    """For shift_tokens_right of modeling_mbart and modeling_plbart (transformers 5.23).

    The last token that is not padding, followed by the other tokens. The original squeezes all axes of size 1, also the
    batch axis of a batch of 1.
    """
    last = input_ids.ne(pad_token_id).long().sum(dim=1, keepdim=True) - 1
    return input_ids.roll(1, dims=1).scatter(1, last * 0, input_ids.gather(1, last))
