"""Decoders that run some layers several times: their caches have a layer for each run, or the runs share one."""

import numpy as np
import pytest
import shrunk
import tiny
import torch
from agreement import assert_agreement
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import onnxfn
from onnxfn.check.texts.token_choices import logits_in_steps
from onnxfn.models.argument_builders import dynamic_cache

TASK = "text-generation-with-past"
LAYERS = {"num_hidden_layers": 3, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}


def test_a_cache_has_a_layer_for_each_that_has_tensors():
    """The layers beyond those of the configuration are full ones, as those with a window are."""
    model = tiny.model("mistral", "AutoModelForCausalLM")
    keys = {str(layer): {name: torch.ones(1, 2, 3, 8) * layer for name in ("keys", "values")} for layer in range(5)}
    cache = dynamic_cache(model, keys)
    assert [float(layer.values[0, 0, 0, 0]) for layer in cache.layers] == [0, 1, 2, 3, 4]
    assert {type(layer).__name__ for layer in cache.layers} == {"DynamicLayer"}


def test_logits_in_steps_are_those_of_the_whole_text():
    model = tiny.model("mistral", "AutoModelForCausalLM")
    (part,) = onnxfn.plan(onnxfn.spec_for("mistral", TASK), model).parts
    texts, mask = np.arange(18).reshape(2, 9) + 3, np.array([[1, 1, 1, 1], [0, 0, 1, 1]])
    whole = {"input_ids": texts, "attention_mask": np.concatenate([mask, np.ones((2, 5), int)], axis=1)}
    whole["position_ids"] = np.maximum(whole["attention_mask"].cumsum(1) - 1, 0)
    with torch.no_grad():
        expected = model(**{name: torch.tensor(array) for name, array in whole.items()}).logits.numpy()
    found = logits_in_steps(model, part.spec, texts, mask, 4)
    assert np.abs(found - expected)[whole["attention_mask"] > 0].max() < 1e-5


@pytest.mark.skipif("dory" not in CONFIG_MAPPING, reason="this version of transformers lacks the model type")
@pytest.mark.parametrize(("mode", "layers"), [("per_loop", 4), ("last_loop", 3)])
def test_a_decoder_with_loops_agrees_with_a_cache(mode, layers, tmp_path):
    """In the mode last_loop, a text depends on the steps in which it is read, also in PyTorch."""
    sizes = {**LAYERS, "n_recurrent_layers": 1, "recurrent_kv_cache_mode": mode}
    model = shrunk.model("dory", "DoryForCausalLM", **sizes)
    result = onnxfn.export(onnxfn.spec_for(model, TASK), model, tmp_path / "out")
    assert_agreement(result, tmp_path / "out")
    assert [name for name in result.inputs if name.endswith(".key")] == [
        f"past_key_values.{layer}.key" for layer in range(layers)
    ]
