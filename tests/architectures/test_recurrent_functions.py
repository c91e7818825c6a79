"""Patches of recurrent functions and of an indexer give what transformers gives, from any state, at any length."""

from functools import partial

import every_head
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import xLSTMConfig
from transformers.models.qwen4_exp import modeling_qwen4_exp
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


# Blocks that an indexer of sparse attention selects


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("length", [3, 13, 30])
def test_selected_blocks_equal_the_original(length, implementation, monkeypatch):
    original, pairs = modeling_qwen4_exp.Qwen4ExpTextQSAIndexer.forward, []

    def both(*arguments):
        pairs.append((original(*arguments), attention.selected_by_blocks(*arguments)))
        return pairs[-1][0]

    monkeypatch.setattr(modeling_qwen4_exp.Qwen4ExpTextQSAIndexer, "forward", both)
    model = every_head.tiny_model("qwen4_exp_text", "feature-extraction")
    model.set_attn_implementation(implementation)
    torch.manual_seed(0)
    ids = torch.randint(1, 128, (3, length))
    mask = torch.ones_like(ids)
    mask[0, : length // 2] = 0
    mask[1, length - length // 3 :] = 0
    with torch.no_grad():
        model(input_ids=ids, attention_mask=mask)
    assert pairs
    if pairs[0][0].is_floating_point():
        pytest.skip("before 5.23, eager attention adds a float mask; exports use sdpa, with a mask of bool")
    for expected, actual in pairs:
        assert torch.equal(actual, expected)
