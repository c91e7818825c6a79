"""Blocks that an indexer of sparse attention selects: the patch equals what it replaces, with padding and without."""

import every_head
import pytest
import torch
from transformers.models.qwen4_exp import modeling_qwen4_exp

from onnxfn.architectures.patches.attention import selected_by_blocks

ORIGINAL = modeling_qwen4_exp.Qwen4ExpTextQSAIndexer.forward


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("length", [3, 13, 30])
def test_selected_blocks_equal_the_original(length, attention, monkeypatch):
    pairs = []

    def both(*arguments):
        pairs.append((ORIGINAL(*arguments), selected_by_blocks(*arguments)))
        return pairs[-1][0]

    monkeypatch.setattr(modeling_qwen4_exp.Qwen4ExpTextQSAIndexer, "forward", both)
    model = every_head.tiny_model("qwen4_exp_text", "feature-extraction")
    model.set_attn_implementation(attention)
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
