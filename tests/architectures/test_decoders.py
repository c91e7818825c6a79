"""Tiny random decoders are exported, agree with PyTorch at sizes that were not traced, and decode step by step."""

import inspect
from itertools import pairwise

import numpy as np
import onnxruntime
import pytest
import shrunk
import swept
import tiny
import torch
import transformers
from agreement import assert_agreement
from transformers import DynamicCache
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from warm import warm

import onnxfn
from onnxfn.architectures import decoders
from onnxfn.models.argument_builders import dynamic_cache
from onnxfn.specs.tasks.tasks import TASKS, task_names

WITHOUT_A_MODEL = ("internlm2",)
"""Rows of which transformers 5 has no model."""

MODELS = {model_type: row for model_type, row in decoders.ROWS.items() if model_type not in WITHOUT_A_MODEL}
PAIRS = [(model_type, task) for model_type, row in MODELS.items() for task in task_names(row)]
DECODERS = [name for name in decoders.ROWS if (name, "text-generation-with-past") in PAIRS]

SAMPLE = [
    *(("llama", task) for task in task_names(decoders.ROWS["llama"])),
    *((name, "text-generation-with-past") for name in ("bloom", "codegen", "deepseek_v3", "falcon", "gemma3")),
    *((name, "text-generation-with-past") for name in ("gpt_bigcode", "lfm2", "mamba2", "mpt", "opt")),
    ("falcon", "question-answering"),
    ("gemma2", "feature-extraction-with-past"),
    ("gpt2", "token-classification"),
    ("qwen3_moe", "text-generation"),
]
"""Every task of the first row, and rows of each kind of cache, attention and position that export in seconds."""

LENGTH, STARTS = 19, (0, 8, *range(11, 19))
"""The length of a decoded text, and where each step starts: a prompt of 8 tokens, then 3, then one at a time."""

BOUNDED = ("nemotron_h", "zamba2")
"""Decoders whose logits in PyTorch differ with a cache: a single token that continues a state has no time limits."""


def exported(model_type, task, folder, **overrides):
    model = tiny.model(model_type, TASKS[task.removesuffix("-with-past")].call.loader, **overrides)
    return model, onnxfn.export(onnxfn.spec_for(model_type, task), model, folder)


def export_checked(model_type, task, folder, **overrides):
    """The export of a tiny model, whose files agree with PyTorch and have the names and axes of the plan."""
    return assert_agreement(exported(model_type, task, folder, **overrides)[1])


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_a_decoder_agrees_with_pytorch(model_type, task, tmp_path):
    export_checked(model_type, task, tmp_path / "out")


@pytest.mark.parametrize("options", [{"alibi": True}, {"new_decoder_architecture": True}, {"multi_query": False}])
def test_every_kind_of_falcon_agrees_with_pytorch(options, tmp_path):
    export_checked("falcon", "text-generation-with-past", tmp_path / "out", **options)


def test_experts_that_no_traced_token_chose_are_in_the_graph(tmp_path):
    experts = 80  # 2 texts of 16 tokens choose 2 experts each: 64 at most
    export_checked("qwen3_moe", "text-generation-with-past", tmp_path / "out", num_experts=experts)


# Decoding step by step


def onnx_logits(path, part, ids, starts=STARTS):
    """ONNX Runtime's logits of a text, in steps that begin at `starts`; each takes the cache of the step before."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    sizes = {"batch_size": len(ids), "past_sequence_length": 0}
    cache = {
        input_.name: np.zeros(
            [sizes[axis.symbol] if axis.symbol in sizes else int(axis.symbol) for axis in input_.axes.axes], "f4"
        )
        for input_ in part.spec.inputs
        if input_.kind == "float"
    }
    has_past = "past" in part.inputs["attention_mask"][1]  # the mask of a recurrent state is over new tokens only
    names = [output.name for output in part.spec.outputs]
    logits = []
    for start, end in pairwise((*starts, LENGTH)):
        feeds = {
            "input_ids": ids[:, start:end],
            "attention_mask": np.ones((len(ids), end if has_past else end - start), np.int64),
            "position_ids": np.tile(np.arange(start, end), (len(ids), 1)),
        }
        outputs = session.run(names, {name: feeds[name] for name in feeds if name in part.inputs} | cache)
        logits.append(outputs[0])
        cache = dict(zip(cache, outputs[1:], strict=True))
    return np.concatenate(logits, axis=1)


def logits_without_cache(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids), use_cache=False).logits.numpy()


def logits_with_cache(model, ids, starts):
    """PyTorch's logits of a text, in steps that begin at `starts`, with its own cache."""
    cache, logits = DynamicCache(config=model.config), []
    with torch.no_grad():
        for start, end in pairwise((*starts, LENGTH)):
            output = model(input_ids=torch.from_numpy(ids[:, start:end]), past_key_values=cache, use_cache=True)
            logits.append(output.logits.numpy())
    return np.concatenate(logits, axis=1)


def with_wide_windows(config):
    text_config = config.get_text_config(decoder=True)
    for name in ("sliding_window", "attention_chunk_size", "window_size", "local_attention"):
        if getattr(text_config, name, None):
            setattr(text_config, name, 64)
    return config


def assert_decodes(model_type, folder):
    """The largest difference of a decoded text from PyTorch, and whether a window changes PyTorch's logits."""
    model, result = exported(model_type, "text-generation-with-past", folder)
    ids = np.random.default_rng(7).integers(2, 90, (2, LENGTH))
    expected = logits_with_cache(model, ids, STARTS) if model_type in BOUNDED else logits_without_cache(model, ids)
    logits = onnx_logits(folder / result.files[0], result.plan.parts[0], ids)
    np.testing.assert_allclose(logits, expected, atol=2e-5, rtol=1e-4)
    wide = logits_without_cache(tiny.model(model_type, "AutoModelForCausalLM", change=with_wide_windows), ids)
    return float(np.abs(logits - expected).max()), bool(np.abs(wide - expected).max() > 1e-3)


@pytest.mark.parametrize("model_type", ["gemma2", "gpt_oss", "qwen2"])  # with a window of 5 tokens in a layer
def test_decoding_past_the_window_equals_the_forward_without_a_cache(model_type, tmp_path):
    _, has_window = assert_decodes(model_type, tmp_path / "out")
    assert has_window


# PyTorch continues a state by single tokens only: a second call with three tokens starts from an empty state.
def test_a_selective_scan_continues_a_state_by_several_tokens(tmp_path):
    assert_decodes("mamba", tmp_path / "out")


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", BOUNDED)
def test_steps_have_time_limits_where_those_of_pytorch_have_them(model_type, tmp_path):
    model = tiny.model(model_type, "AutoModelForCausalLM", time_step_min=1.0)
    spec = onnxfn.spec_for(model_type, "text-generation-with-past")
    result = onnxfn.export(spec, model, tmp_path / "out", check=False)
    ids = np.random.default_rng(7).integers(2, 90, (2, LENGTH))
    for starts in (STARTS, range(LENGTH)):
        expected = logits_with_cache(model, ids, starts)
        assert np.abs(expected - logits_without_cache(model, ids)).max() > 1e-2
        logits = onnx_logits(tmp_path / "out" / result.files[0], onnxfn.plan(spec, model).parts[0], ids, starts)
        np.testing.assert_allclose(logits, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", DECODERS)
def test_decoding_step_by_step_equals_the_forward_without_a_cache(model_type, tmp_path, request):
    worst, has_window = assert_decodes(model_type, tmp_path / "out")
    line = f"max abs diff {worst:.0e}{', past a window' if has_window else ''}"
    if request.config.getoption("--record"):
        swept.update(
            "decoding",
            lambda lines: {name: text for name, text in {**lines, model_type: line}.items() if name in DECODERS},
            (model_type,),
        )


def test_the_recorded_decoders_are_of_this_table_and_went_past_their_windows():
    lines = swept.recorded("decoding")["results"]
    assert set(lines) <= set(DECODERS)
    for name, line in lines.items():
        kinds = getattr(tiny.config(name).get_text_config(decoder=True), "layer_types", None) or ()
        assert "window" in line or not {"sliding_attention", "chunked_attention", "hybrid_sliding"} & {*kinds}


# The sweep


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_task_of_every_decoder_agrees_with_pytorch(model_type, task, tmp_path, only_left, record):
    only_left("decoders", model_type, task)
    warm()
    result, seconds = swept.timed(export_checked, model_type, task, tmp_path / "out")
    record("decoders", model_type, task, swept.line(result), set(PAIRS), seconds)


def test_the_recorded_results_are_of_this_table():
    assert swept.pairs("decoders") == set(PAIRS)


# Position ids

# Clients disagree on the rank of its positions: `with_input(spec, "position_ids")` or `with_mrope(spec)` takes them.
WITHOUT_POSITIONS = {*WITHOUT_A_MODEL, "qwen3_5_text"}
# Falcon has positions only without ALiBi.
CONDITIONS = {"falcon": "not alibi"}

GENERATION = [
    (model_type, task)
    for model_type in decoders.ROWS
    for task in ("text-generation", "text-generation-with-past")
    if task in onnxfn.tasks_for(model_type) and model_type not in WITHOUT_POSITIONS
]


@pytest.mark.parametrize(("model_type", "task"), GENERATION)
def test_a_decoder_has_position_ids_if_its_forward_has_them(model_type, task):
    forward = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type]).forward
    inputs = [input_ for input_ in onnxfn.spec_for(model_type, task).inputs if input_.name == "position_ids"]
    assert bool(inputs) == ("position_ids" in inspect.signature(forward).parameters)
    expected = [CONDITIONS[model_type]] if model_type in CONDITIONS else [None] * len(inputs)
    assert [input_.when for input_ in inputs] == expected


def test_every_row_of_a_decoder_is_tested():
    assert {model_type for model_type, _ in GENERATION} == set(decoders.ROWS) - WITHOUT_POSITIONS


# Layers that run several times

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
    model = shrunk.model("dory", "DoryForCausalLM", **{**LAYERS, "n_recurrent_layers": 1})
    result = assert_agreement(onnxfn.export(onnxfn.spec_for(model, TASK), model, tmp_path / "out"))
    keys = [name for name in result.inputs if name.endswith(".key")]
    assert keys == [f"past_key_values.{layer}.key" for layer in range(4)]
