"""Forms of the cache, against PyTorch: in one buffer (GroupQueryAttention), under other names, expanded."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import tiny
import torch
from agreement import assert_agreement
from command_line import exported_checkpoint, succeed
from refusals import refusal

import onnxfn
from onnxfn import InvalidSpec, plan, renamed, spec_for, with_dtypes, with_expanded_cache, with_input, with_shared_cache
from onnxfn.specs.axis_symbols import graph_axes

TASK = "text-generation-with-past"
MAX_LENGTH = 40
PADDED = np.array([[0, 0, 0, 17, 45, 9], [3, 17, 45, 9, 22, 64]])
MASK = (PADDED != 0).astype(np.int64)

SIZES = {"gemma2": {"head_dim": 8, "query_pre_attn_scalar": 5}, "qwen3": {"head_dim": 16}}
"""Heads of other widths than in `tiny`: the operator takes multiples of 8."""


def exported(model_type, folder, edit=lambda spec: spec):
    """An export whose cache may lie in a shared buffer, and the model."""
    model = tiny.model(model_type, "AutoModelForCausalLM", **SIZES.get(model_type, {}))
    return onnxfn.export(edit(with_shared_cache(spec_for(model_type, TASK))), model, folder / "out"), model


def operators(folder):
    return [node.op_type for node in onnx.load(folder / "out" / "model.onnx", load_external_data=False).graph.node]


# Softcap and windows (gemma2), grouped heads, norms of queries (qwen3), one fused matrix (gpt2), convolutions (lfm2).
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3", "gemma2", "gpt2", "lfm2"])
def test_the_graph_agrees_with_pytorch_where_the_cache_grows(model_type, tmp_path):
    result = assert_agreement(exported(model_type, tmp_path)[0])
    assert "batch_size == 1 or sequence_length == 1 or past_sequence_length == 0" in map(str, result.limits)
    found = operators(tmp_path)
    assert "GroupQueryAttention" in found
    assert "Attention" not in found


@pytest.mark.parametrize("model_type", ["llama", "gemma2", "gpt2"])
def test_a_shared_buffer_gives_the_tokens_of_pytorch(model_type, tmp_path):
    """Texts padded on the left; past and present are the same memory, which begins with garbage."""
    result, model = exported(model_type, tmp_path)
    model.generation_config.eos_token_id = None
    mask = torch.tensor(MASK)
    expected = model.generate(torch.tensor(PADDED), attention_mask=mask, do_sample=False, max_new_tokens=12)
    given = shared_tokens(result.plan.parts[0], tmp_path / "out" / "model.onnx", 12)
    assert given.tolist() == expected[:, PADDED.shape[1] :].tolist()


def shared_tokens(part, file, count):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    buffers = {each: onnxruntime.OrtValue.ortvalue_from_numpy(garbage(part, each.input)) for each in part.spec.feedback}
    ids, mask, written = PADDED, MASK, []
    while len(written) < count:
        positions = (mask.cumsum(1) - 1).clip(0)[:, -ids.shape[1] :]
        binding = session.io_binding()
        for name, value in {"input_ids": ids, "attention_mask": mask, "position_ids": positions}.items():
            if name in part.inputs:
                binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for each, buffer in buffers.items():
            binding.bind_ortvalue_input(each.input, buffer)
            binding.bind_ortvalue_output(each.output, buffer)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        (logits,) = (value for value in binding.copy_outputs_to_cpu() if value.ndim == 3)
        ids = logits[:, -1].argmax(-1)[:, None]
        mask = np.concatenate([mask, np.ones_like(ids)], 1)
        written.append(ids)
    return np.concatenate(written, 1)


def garbage(part, name):
    _, heads, _, width = (axis.symbol for axis in part.spec.inputs[name].axes.axes)
    return np.full((2, int(heads), MAX_LENGTH, int(width)), 7e3, np.float32)


def test_it_is_there_in_float16(tmp_path):
    assert exported("llama", tmp_path, lambda spec: with_dtypes(spec, float="float16"))[0].report.passed
    assert "GroupQueryAttention" in operators(tmp_path)


@pytest.mark.parametrize(
    ("model_type", "opset", "reason"),
    [
        ("minicpm3", 23, "keys are 16 wide, and values 4"),
        ("gemma2", 23, "a head is 12 wide, and GroupQueryAttention takes multiples of 8"),
        ("mamba", 23, "the graph takes no keys and values that grow"),
        ("llama", 22, "it needs opset 23 or later, and the spec has opset 22"),
    ],
)
def test_a_cache_that_cannot_lie_in_a_shared_buffer_is_refused_in_the_plan(model_type, opset, reason):
    spec, config = onnxfn.with_opset(with_shared_cache(spec_for(model_type, TASK)), opset), tiny.config(model_type)
    message = f"the cache of {model_type} cannot lie in a shared buffer: {reason}"
    assert refusal(InvalidSpec, plan, spec, config) == message


@pytest.mark.parametrize("model_type", ["bloom", "mpt", "gpt_oss", "doge"])
def test_a_type_whose_attention_the_operator_does_not_compute_is_refused(model_type):
    message = f"GroupQueryAttention does not compute the attention of {model_type}"
    assert message in refusal(InvalidSpec, with_shared_cache, spec_for(model_type, TASK))


def test_the_command_line_says_to_genai_that_the_buffer_is_shared(tmp_path):
    tiny.model("llama", "AutoModelForCausalLM").save_pretrained(tmp_path / "llama")
    words = ["export", str(tmp_path / "llama"), "--task", TASK, "--no-template-cache"]
    for flags, is_shared in (("--shared-cache",), True), ((), False):
        out = tmp_path / str(is_shared)
        succeed(*words[:2], out, *words[2:], *flags)
        assert json.loads((out / "genai_config.json").read_text())["search"]["past_present_share_buffer"] is is_shared


# Other names of the cache

PAST = {f"past_key_values.{{layer}}.{kind}": f"past.{{layer}}.{kind}" for kind in ("key", "value")}
OTHER = {"past_key_values.{layer}.key": "cache_k_{layer}", "present.{layer}.key": "new_k_{layer}"}


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (renamed(**PAST), "past.1.value"),
        (with_input("num_logits_to_keep"), "num_logits_to_keep"),
        (with_shared_cache, "past_key_values.1.value"),
    ],
)
def test_a_decoder_with_another_cache_or_number_of_logits_writes_the_same_text(edit, name, tmp_path):
    spec, model = tiny.spec_and_model("llama", TASK)
    plain = onnxfn.export(spec, model, tmp_path / "plain", check=False)
    result = assert_agreement(onnxfn.export(edit(spec), model, tmp_path / "out"))
    assert name in result.inputs
    ids = np.array([[5, 7, 9], [4, 4, 8]])
    assert (onnxfn.generate(result, ids) == onnxfn.generate(plain, ids)).all()


def test_names_that_do_not_show_the_cache_are_checked_token_by_token(tmp_path):
    spec, model = tiny.spec_and_model("llama", TASK)
    result = onnxfn.export(renamed(spec, **OTHER), model, tmp_path / "out")
    assert any(output.output == "greedy tokens" for output in result.report.differences)
    with pytest.raises(onnxfn.InvalidSpec, match="generate has no value for the inputs cache_k_0"):
        onnxfn.generate(result, [[3, 4]])


def test_the_command_line_names_the_cache_and_the_side_file_of_a_client(tmp_path):
    names = [word for pair in OTHER.items() for word in ("--rename", "=".join(pair))]
    words = ("--task", TASK, "--no-check", *names, "--no-template-cache")
    exported_checkpoint(tiny.model("llama", "AutoModelForCausalLM"), tmp_path, *words)
    decoder = json.loads((tmp_path / "out" / "genai_config.json").read_text())["model"]["decoder"]
    assert decoder["inputs"]["past_key_names"] == "cache_k_%d"
    assert decoder["inputs"]["past_value_names"] == "past_key_values.%d.value"
    assert decoder["outputs"]["present_key_names"] == "new_k_%d"


# The keys and values of all heads as the cache of models with latent attention

LATENT = ("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "youtu")
"""Types whose every layer has a cache of latents."""


def cache_sizes(spec, model_type):
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
    assert onnxfn.export(with_expanded_cache(spec_for(model_type, TASK)), model, tmp_path / "out").report.passed


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
