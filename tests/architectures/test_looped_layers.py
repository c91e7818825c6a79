"""Decoders that run some layers several times: their caches have a layer for each run, or the runs share one."""

import pytest
import shrunk
import tiny
import torch
from agreement import assert_agreement
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import onnxfn
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


@pytest.mark.skipif("dory" not in CONFIG_MAPPING, reason="this version of transformers lacks the model type")
def test_a_decoder_with_loops_agrees_with_a_cache(tmp_path):
    sizes = {**LAYERS, "n_recurrent_layers": 1}
    model = shrunk.model("dory", "DoryForCausalLM", **sizes)
    result = assert_agreement(onnxfn.export(onnxfn.spec_for(model, TASK), model, tmp_path / "out"), tmp_path / "out")
    assert [name for name in result.inputs if name.endswith(".key")] == [
        f"past_key_values.{layer}.key" for layer in range(4)
    ]
