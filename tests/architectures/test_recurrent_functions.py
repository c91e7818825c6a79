"""Patches of recurrent functions give what the loops of transformers give, from any state and at any length."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import xLSTMConfig
from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu
from transformers.models.xlstm.modeling_xlstm import xLSTMBackend

from onnxfn.architectures.patches import attention, recurrent


@pytest.mark.parametrize("has_state", [False, True])
@given(length=st.integers(1, 12), seed=st.integers(0, 99))
def test_rwkv_gives_what_the_loop_over_tokens_gives(has_state, length, seed):
    random = torch.Generator().manual_seed(seed)
    decay, first = torch.randn(2, 5, generator=random)
    key, value = 3 * torch.randn(2, 3, length, 5, generator=random)
    state = list(torch.rand(3, 3, 5, generator=random)) if has_state else None
    output, states = recurrent.linear_attention(decay, first, key, value, state, return_state=True)
    expected, expected_states = rwkv_linear_attention_cpu(decay, first, key, value, state, return_state=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(torch.stack(states), torch.stack(expected_states))


@pytest.mark.parametrize("has_state", [False, True])
@given(length=st.integers(1, 21), seed=st.integers(0, 99))
def test_xlstm_gives_what_the_loop_over_chunks_gives(has_state, length, seed):
    """The chunks have 4 tokens: most lengths are no multiple. In float32 both round by more than they differ."""
    normal = partial(torch.randn, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    backend = xLSTMBackend(xLSTMConfig(chunk_size=4))
    query, key = normal(2, 2, 3, length, 5)
    value, (inputs, forget) = normal(2, 3, length, 7), 2 * normal(2, 2, 3, length)
    shapes = {"c_initial": (2, 3, 5, 7), "n_initial": (2, 3, 5), "m_initial": (2, 3, 1)} if has_state else {}
    state = {name: normal(shape) for name, shape in shapes.items()}
    output, states = recurrent.matrix_memory(backend, query, key, value, inputs, forget, **state)
    expected, expected_states = backend(query, key, value, inputs, forget, **state)
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)
    for actual, wanted in zip(states, expected_states, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-5, check_dtype=False)


def test_the_padding_mask_of_fsmt_is_a_tensor_also_without_padding():
    assert attention.padding_mask(torch.tensor([[1, 2], [3, 1]])).tolist() == [[True, False], [False, True]]
    assert not attention.padding_mask(torch.tensor([[2, 3]])).any()
