"""The check finds faults that only texts beyond 512 tokens show: windows, chunks, positions, scalings."""

from functools import partial

import numpy as np
import pytest
import swept
import tiny
import torch
from graph_edits import after_input, constant, edited_export, initializers, insert, new_constant, set_constant, users
from small_modules import module

import onnxfn
from onnxfn.check.cases import references

LONG = {"max_position_embeddings": 8192, "num_hidden_layers": 4}
FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.1, 1.5, 2.0, 4.0]}
ROPE = {"rope_theta": 1e4, "factor": 4.0}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 600, **ROPE, **FACTORS}
DYNAMIC = {"rope_type": "dynamic", **ROPE}
KINDS = ["sliding_attention", "full_attention"] * 2
PHI = {**LONG, "sliding_window": None, "original_max_position_embeddings": 600, "rope_parameters": LONGROPE}
LATENT = {"num_key_value_heads": 4, "head_dim": 4}
MODELS = {
    "mistral 600": ("mistral", {**LONG, "sliding_window": 600}),
    "mistral 4096": ("mistral", {**LONG, "sliding_window": 4096}),
    "mistral 8192": ("mistral", {**LONG, "sliding_window": 8192, "max_position_embeddings": 16384}),
    "gemma3": ("gemma3_text", {**LONG, "sliding_window": 600, "layer_types": KINDS}),
    "gpt2": ("gpt2", {"max_position_embeddings": 1024, "num_hidden_layers": 4}),
    "llama4": ("llama4_text", {"max_position_embeddings": 8192, "attention_chunk_size": 600}),
    "phi3": ("phi3", PHI),
    "deepseek": ("deepseek_v32", {"max_position_embeddings": 8192, "index_topk": 600, **LATENT}),
    "llama": ("llama", {**LONG, "max_position_embeddings": 600, "rope_parameters": DYNAMIC}),
}
"""Name -> the model type, and the arguments of its configuration."""

WHOLE, LAYERS = references.FAR_TEXT_BUDGET, 0
"""The budgets with which whole models read far texts, or two layers of each kind do."""


def number(old, new, model):
    integers = {name: constant(model, name) for name in initializers(model)}
    names = [name for name, value in integers.items() if value.size == 1 and value.dtype.kind == "i" and value == old]
    assert names, old
    for name in names:
        set_constant(model, name, np.full_like(constant(model, name), new))


def clipped(limit, model):
    after_input(model, "position_ids", "Min", new_constant(model, np.array(limit)))


def louder_layer(layer, model):
    (product,) = users(model, f"model.layers.{layer}.self_attn.q_proj.weight")
    readers = users(model, product.output[0])
    far = insert(model, readers[0], "Greater", ["position_ids", new_constant(model, np.array(600))])
    factor = insert(
        model, readers[0], "Where", [far, new_constant(model, np.float32(1.5)), new_constant(model, np.float32(1))]
    )
    factor = insert(model, readers[0], "Unsqueeze", [factor, new_constant(model, np.array([2]))])
    scaled = insert(model, readers[0], "Mul", [product.output[0], factor])
    for node in readers:
        node.input[:] = [scaled if each == product.output[0] else each for each in node.input]


FAULTS = {
    "a window of 600 is one of 590": ("mistral 600", WHOLE, partial(number, 600, 590)),
    "a window of 600 is dropped": ("mistral 600", LAYERS, partial(number, 600, 100_000)),
    "a window of 4096 is one of 4095": ("mistral 4096", LAYERS, partial(number, 4096, 4095)),
    "a window of 8192 is one of 8191": ("mistral 8192", WHOLE, partial(number, 8192, 8191)),
    "a window inside a module is one of 590": ("around mistral 600", LAYERS, partial(number, 600, 590)),
    "a window of every second layer is one of 599": ("gemma3", LAYERS, partial(number, 600, 599)),
    "positions of a table end at 520": ("gpt2", WHOLE, partial(clipped, 520)),
    "positions of a table end at 1000": ("gpt2", LAYERS, partial(clipped, 1000)),
    "a chunk of 600 is one of 601": ("llama4", LAYERS, partial(number, 600, 601)),
    "a long text has the frequencies of short ones": ("phi3", WHOLE, partial(number, 600, 100_000)),
    "dynamic scaling is dropped": ("llama", LAYERS, partial(number, 600, 100_000)),
    "an indexer selects 590 tokens of 600": ("deepseek", LAYERS, partial(number, 600, 590)),
    "one layer of four is another at far positions": ("mistral 600", LAYERS, partial(louder_layer, 3)),
}
"""The model, the budget, and the edit of the graph."""

SAMPLED = (
    "a window of 600 is one of 590",
    "one layer of four is another at far positions",
    "dynamic scaling is dropped",
    "a window of 8192 is one of 8191",
    "a window inside a module is one of 590",
)
"""The faults of the default run."""


def spec_and_model(name):
    """Of a name in MODELS, or of a module around such a model."""
    model_type, sizes = MODELS[name.removeprefix("around ")]
    model = tiny.model(model_type, "AutoModelForCausalLM", **sizes)
    if name not in MODELS:
        scores = module(lambda self, tokens: self.inner(input_ids=tokens).logits.softmax(-1), inner=model)
        return onnxfn.derived(scores, sample=torch.ones(2, 4).long(), axes={"tokens": "batch_size length"}), scores
    return onnxfn.spec_for(model, "text-generation-with-past"), model


def report_of(spec, model, folder):
    try:
        return onnxfn.validate(spec, model, folder)
    except onnxfn.CheckFailed as error:
        return error.report


@pytest.mark.parametrize(("budget", "who"), [(WHOLE, ""), (LAYERS, " by layers 0 and 1 of 4")])
def test_a_small_model_reads_far_texts_as_a_whole_and_layers_of_each_kind_of_a_large_one(
    budget, who, exports, monkeypatch
):
    monkeypatch.setattr(references, "FAR_TEXT_BUDGET", budget)
    far = [case for case in report_of(*exports("mistral 600")).cases if case.startswith("far")]
    assert far == [
        f"far text (batch_size=1, sequence_length=609, past_sequence_length=0){who}",
        f"far past (batch_size=1, sequence_length=1, past_sequence_length=608){who}",
    ]


def test_two_layers_of_each_kind_are_four_of_six(tmp_path, monkeypatch):
    monkeypatch.setattr(references, "FAR_TEXT_BUDGET", LAYERS)
    kinds = {"layer_types": [*["sliding_attention"] * 2, "full_attention"] * 2, "num_hidden_layers": 6}
    model = tiny.model("gemma3_text", "AutoModelForCausalLM", **{**MODELS["gemma3"][1], **kinds})
    report = onnxfn.export(onnxfn.spec_for(model, "text-generation-with-past"), model, tmp_path / "out").report
    far = [case.partition(") ")[2] for case in report.cases if case.startswith("far")]
    assert far == ["by layers 0 and 1 and 2 and 5 of 6"] * 2


@pytest.mark.parametrize(
    ("task", "dtype", "thresholds", "unread"),
    [
        ("text-generation", "float32", {"sliding_window": 600, "attention_chunk_size": 8192}, ["8,192"]),
        ("text-generation-with-past", "float32", {"sliding_window": 8192, "attention_chunk_size": 30_000}, ["30,000"]),
        ("text-generation-with-past", "float32", {"sliding_window": 60_000}, []),
        ("text-generation-with-past", "float16", {"sliding_window": 8192}, ["8,192"]),
    ],
)
def test_a_report_names_each_threshold_beyond_all_texts(task, dtype, thresholds, unread, tmp_path):
    model = tiny.model("mistral", "AutoModelForCausalLM", **{**LONG, "max_position_embeddings": 32_768, **thresholds})
    spec = onnxfn.with_dtypes(onnxfn.spec_for(model, task), float=dtype)
    report = onnxfn.export(spec, model, tmp_path / "out").report
    assert report.passed
    assert [*report.unchecked] == [f"model.onnx: texts beyond {each} tokens" for each in unread]


@pytest.mark.parametrize("fault", swept.with_sweep(SAMPLED, [fault for fault in FAULTS if fault not in SAMPLED]))
def test_a_far_fault_is_found_and_the_file_without_it_passes(fault, exports, tmp_path, monkeypatch):
    name, budget, edit = FAULTS[fault]
    spec, model, right = exports(name)
    monkeypatch.setattr(references, "FAR_TEXT_BUDGET", budget)
    assert report_of(spec, model, right).passed
    assert not report_of(spec, model, edited_export(right, tmp_path / "out", edit)).passed
