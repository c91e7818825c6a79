"""Decoders end to end: a tiny random model of each goes to ONNX and agrees with PyTorch where it was not traced.

The sweep takes every task of every row and writes `tests/sweeps/decoders.json`, all of it or what `-k` chooses:
`python -m pytest -m sweep tests/architectures/test_decoders.py`. What decoding step by step gave is in
`tests/sweeps/decoding.json`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnxruntime
import pytest
import swept
import tiny
import torch
from agreement import assert_agreement
from transformers import DynamicCache

import onnxfn
from onnxfn.architectures import decoders
from onnxfn.specs.tasks import TASKS, task_names

PLANNED_ALONE = ("internlm2",)
"""What transformers 5 has no model of."""
PAIRS = [
    (model_type, task)
    for model_type, row in decoders.ROWS.items()
    if model_type not in PLANNED_ALONE
    for task in task_names(row)
]

# Every composition once, and every task of the first.
SAMPLE = [
    *(("llama", task) for task in task_names(decoders.ROWS["llama"])),
    ("bloom", "text-generation-with-past"),
    ("codegen", "text-generation-with-past"),
    ("deepseek_v3", "text-generation-with-past"),
    ("deepseek_v2", "text-generation"),
    ("falcon", "question-answering"),
    ("falcon", "text-generation-with-past"),
    ("gemma2", "feature-extraction-with-past"),
    ("gemma3", "text-generation-with-past"),
    ("gemma4_text", "text-generation-with-past"),
    ("gpt2", "token-classification"),
    ("gpt_bigcode", "text-generation-with-past"),
    ("kimi_linear", "text-generation-with-past"),
    ("lfm2", "text-generation-with-past"),
    ("llama4_text", "text-generation-with-past"),
    ("mamba2", "text-generation-with-past"),
    ("mimo_v2_flash", "text-generation-with-past"),
    ("minimax", "text-generation-with-past"),
    ("mpt", "text-generation-with-past"),
    ("nemotron_h", "text-generation-with-past"),
    ("opt", "text-generation-with-past"),
    ("qwen3_5_text", "text-generation-with-past"),
    ("qwen3_moe", "text-generation"),
]

# Some whose tiny models have a window of 5 tokens in one layer at least; the sweep takes every row.
WINDOWED = ("gemma2", "gpt_oss", "qwen2")
WINDOWS = ("sliding_window", "attention_chunk_size", "window_size", "local_attention")
"""What configurations call a window."""
LENGTH, STARTS = 19, (0, 8, *range(11, 19))
"""Where the steps of decoding start: a prompt of 8 tokens, then 3, then one at a time."""
BOUNDED = ("nemotron_h", "zamba2")
"""Where PyTorch with a cache says other than without: a single token that goes on from a state has no limits."""
DECODERS = [name for name in decoders.ROWS if (name, "text-generation-with-past") in PAIRS]


def exported(model_type, task, folder, **overrides):
    model = tiny.model(model_type, TASKS[task.removesuffix("-with-past")].call.loader, **overrides)
    spec = onnxfn.spec_for(model_type, task)
    return model, onnxfn.export(spec, model, folder)


def agrees(model_type, task, folder, **overrides):
    return assert_agreement(exported(model_type, task, folder, **overrides)[1], folder)


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_a_decoder_agrees_with_pytorch(model_type, task, tmp_path):
    agrees(model_type, task, tmp_path / "out")


@pytest.mark.parametrize("choice", [{"alibi": True}, {"new_decoder_architecture": True}, {"multi_query": False}])
def test_a_falcon_of_any_kind_agrees_with_pytorch(choice, tmp_path):
    agrees("falcon", "text-generation-with-past", tmp_path / "out", **choice)


def test_experts_that_no_traced_token_chose_are_in_the_graph(tmp_path):
    experts = 80  # 2 texts of 16 tokens choose 2 experts each: 64 at most
    agrees("qwen3_moe", "text-generation-with-past", tmp_path / "out", num_experts=experts)


def stepwise(path, part, ids, starts=STARTS):
    """Logits of each step of a text, from `starts` on, each fed the cache that the one before gave."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    kept = {one.name: one for one in part.spec.inputs if one.kind == "float"}
    sizes = {"batch_size": len(ids), "past_sequence_length": 0}
    cache = {
        name: np.zeros(
            [sizes[axis.symbol] if axis.symbol in sizes else int(axis.symbol) for axis in one.axes.axes], "f4"
        )
        for name, one in kept.items()
    }
    forgets = "past" not in part.inputs["attention_mask"][1]  # a state says nothing of how long the text was
    given = [one.name for one in part.spec.outputs]
    logits = []
    for start, end in pairwise((*starts, LENGTH)):
        fed = {
            "input_ids": ids[:, start:end],
            "attention_mask": np.ones((len(ids), end - (start if forgets else 0)), np.int64),
            "position_ids": np.tile(np.arange(start, end), (len(ids), 1)),
        }
        answers = session.run(given, {name: fed[name] for name in fed if name in part.inputs} | cache)
        logits.append(answers[0])
        cache = dict(zip(cache, answers[1:], strict=True))
    return np.concatenate(logits, axis=1)


def decodes(model_type, folder):
    """How far a file that decodes step by step is from PyTorch's whole text at once, and whether a window tells."""
    model, result = exported(model_type, "text-generation-with-past", folder)
    ids = np.random.default_rng(7).integers(2, 90, (2, LENGTH))
    truth = cached(model, ids, STARTS) if model_type in BOUNDED else uncached(model, ids)
    answer = stepwise(folder / result.files[0], result.plan.parts[0], ids)
    np.testing.assert_allclose(answer, truth, atol=2e-5, rtol=1e-4)
    wide = uncached(tiny.model(model_type, "AutoModelForCausalLM", made=unwindowed), ids)
    return float(np.abs(answer - truth).max()), bool(np.abs(wide - truth).max() > 1e-3)


def uncached(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids), use_cache=False).logits.numpy()


def unwindowed(config):
    """The configuration with any window far beyond the text."""
    told = config.get_text_config(decoder=True)
    for name in WINDOWS:
        if getattr(told, name, None):
            setattr(told, name, 64)
    return config


@pytest.mark.parametrize("model_type", WINDOWED)
def test_decoding_past_the_window_is_the_uncached_forward(model_type, tmp_path):
    _, windowed = decodes(model_type, tmp_path / "out")
    assert windowed


# PyTorch itself goes on from their states by single tokens alone, and a text of three starts from nothing.
@pytest.mark.parametrize("model_type", ["jamba", "mamba", "zamba"])
def test_a_selective_scan_goes_on_by_several_tokens(model_type, tmp_path):
    decodes(model_type, tmp_path / "out")


@pytest.mark.parametrize("model_type", BOUNDED)
def test_steps_have_limits_where_pytorch_has_them(model_type, tmp_path):
    model = tiny.model(model_type, "AutoModelForCausalLM", time_step_min=1.0)
    spec = onnxfn.spec_for(model_type, "text-generation-with-past")
    result = onnxfn.export(spec, model, tmp_path / "out", check=False)
    ids = np.random.default_rng(7).integers(2, 90, (2, LENGTH))
    for starts in (STARTS, range(LENGTH)):
        truth = cached(model, ids, starts)
        assert np.abs(truth - uncached(model, ids)).max() > 1e-2
        answer = stepwise(tmp_path / "out" / result.files[0], onnxfn.plan(spec, model).parts[0], ids, starts)
        np.testing.assert_allclose(answer, truth, atol=2e-5, rtol=1e-4)


def cached(model, ids, starts):
    """What PyTorch says step by step, with its own cache."""
    cache, logits = DynamicCache(config=model.config), []
    with torch.no_grad():
        for start, end in pairwise((*starts, LENGTH)):
            made = model(input_ids=torch.from_numpy(ids[:, start:end]), past_key_values=cache, use_cache=True)
            logits.append(made.logits.numpy())
    return np.concatenate(logits, axis=1)


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", DECODERS)
def test_decoding_step_by_step_is_the_uncached_forward(model_type, tmp_path, request):
    worst, windowed = decodes(model_type, tmp_path / "out")
    line = f"max abs diff {worst:.0e}{', past a window' if windowed else ''}"
    if request.config.getoption("--record"):
        swept.update(
            "decoding",
            lambda lines: {name: text for name, text in {**lines, model_type: line}.items() if name in DECODERS},
        )


def test_the_decoders_that_decoded_are_of_this_table_and_went_past_every_window():
    lines = swept.recorded("decoding")["results"]
    assert set(lines) <= set(DECODERS)
    for name, line in lines.items():
        kinds = getattr(tiny.config(name).get_text_config(decoder=True), "layer_types", None) or ()
        assert "window" in line or not {"sliding_attention", "chunked_attention", "hybrid_sliding"} & {*kinds}


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_task_of_every_decoder_agrees_with_pytorch(model_type, task, tmp_path, only_left, record):
    only_left("decoders", model_type, task)
    result = agrees(model_type, task, tmp_path / "out")
    record("decoders", model_type, task, swept.line(result), set(PAIRS))


def test_the_last_sweep_in_the_repository_is_of_this_table():
    """A row that was added or lost a task since then has not been swept."""
    assert swept.pairs("decoders") == set(PAIRS)
