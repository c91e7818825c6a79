"""The tokens that a decoder reads where nobody says them: those of the encoder, one place later."""

from __future__ import annotations

from torch import Tensor


def shift_tokens_right(input_ids: Tensor, pad_token_id: int) -> Tensor:
    """The last token that is no padding, then the others (modeling_mbart, modeling_plbart, transformers 5.23).

    The model squeezes every axis of size 1 away, at batch 1 that of the batch too.
    """
    last = input_ids.ne(pad_token_id).long().sum(dim=1, keepdim=True) - 1
    return input_ids.roll(1, dims=1).scatter(1, last * 0, input_ids.gather(1, last))
