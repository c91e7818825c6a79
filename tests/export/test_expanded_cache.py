"""`with_expanded_cache`: the keys and values of all heads as the cache of models with latent attention."""

import json

import pytest
import tiny
from command_line import succeed

import onnxfn
from onnxfn import plan, spec_for, with_expanded_cache
from onnxfn.specs.axis_symbols import graph_axes

TASK = "text-generation-with-past"
LATENT = ("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "youtu")
"""Types whose every layer has a cache of latents."""


def cache_sizes(spec, model_type):
    """The heads and the width of each tensor of the cache that a graph takes."""
    part = plan(spec, tiny.config(model_type)).parts[0].spec
    caches = [tensor for tensor in part.inputs if tensor.name.startswith("past_key")]
    axes = {tensor.name: graph_axes(part, tensor).axes for tensor in caches}
    return {name: (int(each[1].symbol), int(each[3].symbol)) for name, each in axes.items()}


@pytest.mark.parametrize("model_type", LATENT)
def test_the_cache_has_the_keys_and_values_of_all_heads(model_type):
    config = tiny.config(model_type)
    key = config.num_attention_heads, config.qk_nope_head_dim + config.qk_rope_head_dim
    value = config.num_attention_heads, config.v_head_dim
    latents = {(1, config.kv_lora_rank), (1, config.qk_rope_head_dim)}
    spec = spec_for(model_type, TASK)
    assert {*cache_sizes(spec, model_type).values()} == latents
    for name, sizes in cache_sizes(with_expanded_cache(spec), model_type).items():
        assert sizes == (value if name.endswith("value") else key)


@pytest.mark.parametrize("model_type", ["deepseek_v3", "minicpm3"])
def test_the_graph_agrees_with_pytorch(model_type, tmp_path):
    model = tiny.model(model_type, "AutoModelForCausalLM")
    result = onnxfn.export(with_expanded_cache(spec_for(model_type, TASK)), model, tmp_path / "out")
    assert result.report.passed


def test_the_method_of_each_layer_and_the_cache_are_as_before_after_a_call():
    from transformers import DynamicCache

    from onnxfn.architectures.wrappers.latent_attention import with_expanded_cache as wrapped

    model = tiny.model("deepseek_v3", "AutoModelForCausalLM")
    cache, ids = DynamicCache(config=model.config), model.dummy_inputs["input_ids"] % 100
    given = wrapped(model)(input_ids=ids, past_key_values=cache)
    assert cache.layers[0].keys.shape[1] == model.config.num_attention_heads
    assert "update" not in vars(cache)
    assert not any("expand_kv" in vars(layer) for layer in model.modules())
    assert (given.logits - model(input_ids=ids).logits).abs().max() < 1e-5


def test_the_plan_says_that_ort_model_needs_the_flag_and_nothing_with_it(tmp_path):
    tiny.model("deepseek_v3", "AutoModelForCausalLM").save_pretrained(tmp_path / "model")
    words = ["export", str(tmp_path / "model"), str(tmp_path / "out"), "--task", TASK, "--dry-run", "--json"]
    for flags in ((), ("--expanded-cache",)):
        done = succeed(*words, *flags)
        remarks = [line for line in json.loads(done.stdout)["remarks"] if line.startswith("ORTModel")]
        assert [line.endswith("it loads the cache of --expanded-cache") for line in remarks] == [True] * (not flags)
