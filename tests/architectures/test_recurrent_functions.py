"""Patches of recurrent functions give what the loops of transformers give, from any state and at any length."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu

from onnxfn.architectures.patches import fsmt, rwkv


@pytest.mark.parametrize("has_state", [False, True])
@given(length=st.integers(1, 12), seed=st.integers(0, 99))
def test_rwkv_gives_what_the_loop_over_tokens_gives(has_state, length, seed):
    random = torch.Generator().manual_seed(seed)
    decay, first = torch.randn(2, 5, generator=random)
    key, value = 3 * torch.randn(2, 3, length, 5, generator=random)
    state = list(torch.rand(3, 3, 5, generator=random)) if has_state else None
    output, states = rwkv.linear_attention(decay, first, key, value, state, return_state=True)
    expected, expected_states = rwkv_linear_attention_cpu(decay, first, key, value, state, return_state=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(torch.stack(states), torch.stack(expected_states))


def test_the_padding_mask_of_fsmt_is_a_tensor_also_without_padding():
    assert fsmt.padding_mask(torch.tensor([[1, 2], [3, 1]])).tolist() == [[True, False], [False, True]]
    assert not fsmt.padding_mask(torch.tensor([[2, 3]])).any()
