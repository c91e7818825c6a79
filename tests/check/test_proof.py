"""Quantized and 16-bit files are measured against PyTorch in float32, and refused below their floors."""

import json

import numpy as np
import onnx
import pytest
import torch
from command_line import invoke
from graph_edits import at, edited_file
from quantized_faults import gate_up, save_sorted
from refusals import refusal
from stock_quantizers import quantized_in_blocks
from structure_faults import declared_size, past_ignored, present_wrong
from transformers import BertConfig, BertForSequenceClassification

import onnxfn
from onnxfn.check.check import check
from onnxfn.check.variants.proof import Proof, check_error, check_floors
from onnxfn.check.variants.text_references import real_text, text_references, text_tokens
from onnxfn.specs.plan.planning import plan

SIZES = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
SPEC = onnxfn.spec_for("llama", "text-generation-with-past")
QUANTIZED = onnxfn.quantize(SPEC, bits=4)
DOWN = "model.layers.0.mlp.down_proj.weight"


@pytest.fixture(scope="module")
def file(wide_llama, tmp_path_factory):
    folder = tmp_path_factory.mktemp("proof")
    onnxfn.export(SPEC, wide_llama, folder / "own", check=False)
    return quantized_in_blocks(folder / "own" / "model.onnx", folder / "quantized" / "model.onnx")


def report_of(wide_llama, file, **floors):
    planned = plan(QUANTIZED, wide_llama.config)
    text = text_references(wide_llama)(planned.parts[0], planned)
    return check(wide_llama, planned.parts[0], file, proof=Proof(text, onnxfn.Floors(**floors)))


def measured(report):
    return {(each.output, each.measure): each for each in report.measurements}


def test_a_quantized_decoder_is_compared_by_rounding_and_measured(wide_llama, file):
    report = report_of(wide_llama, file)
    assert report.passed, report
    assert {each.output for each in report.differences} == {*plan(QUANTIZED, wide_llama.config).parts[0].outputs}
    assert max(each.max_rel for each in report.differences) < 1e-5
    values = measured(report)
    assert values["logits", "agreement"].value > 0.4
    assert 0 < values["logits", "kl"].value < 0.5
    assert values["logits", "kl"].cases == "300 random tokens: no tokenizer is known"
    (worst,) = [each for each in report.measurements if each.measure == "weights"]
    assert {*values} == {("logits", "agreement"), ("logits", "kl"), (worst.output, "weights")}
    assert worst.cases == "15 weights"
    assert 0.99 < worst.value < 1
    assert "measured against PyTorch in float32" in str(report)
    assert "agreement" in str(report)


def test_a_wrong_graph_that_reaches_the_floors_is_refused(wide_llama, file, tmp_path):
    """The text and the weights pass: the outputs differ from those of PyTorch with the same weights."""
    model = onnx.load(file)
    _, exchange = next(gate_up(model))
    exchange()
    save_sorted(model, tmp_path / "model.onnx")
    report = report_of(wide_llama, tmp_path / "model.onnx", agreement=0.0, kl=9.0)
    assert all(each.passed for each in report.measurements)
    assert report.findings == ()
    assert not report.passed
    assert "'logits' is " in str(check_error(report))
    assert "away from PyTorch" in str(check_error(report))


def test_a_part_without_a_text_is_compared_and_measured_in_its_cases(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64)).eval()
    spec = onnxfn.quantize(onnxfn.derived(model, sample={"input": torch.randn(3, 64)}), bits=4)
    report = onnxfn.export(spec, model, tmp_path / "out").report
    assert [each.max_rel < 1e-5 for each in report.differences] == [True]
    assert {each.measure for each in report.measurements} == {"cosine", "cases", "weights"}
    assert 0.9 < measured(report)["output", "cosine"].value < 0.9999


def test_a_floor_that_is_not_reached_names_the_measure_the_value_and_the_worst_weight(wide_llama, file):
    report = report_of(wide_llama, file, agreement=0.9999, kl=1e-9)
    message = str(check_error(report))
    assert not report.passed
    for words in ("agreement of 'logits' is 0.", "(at least 0.9999)", "kl of 'logits' is ", "(at most 1e-09)"):
        assert words in message
    assert "the worst weight is model.layers." in message or "the worst weight is lm_head.weight" in message


@pytest.mark.parametrize(
    ("kind", "site"),
    [
        (present_wrong, "present.0.key, present.1.key"),
        (declared_size, "logits[0]"),
        (past_ignored, "past_key_values.1.key"),
    ],
)
def test_a_wrong_interface_or_cache_of_a_quantized_file_is_refused(wide_llama, file, kind, site, tmp_path):
    assert not report_of(wide_llama, edited_file(file, at(kind, site), tmp_path / "model.onnx")).passed


def test_a_file_in_float16_is_compared_and_measured_and_the_report_has_both(wide_llama, tmp_path):
    report = onnxfn.export(onnxfn.with_dtypes(SPEC, float="float16"), wide_llama, tmp_path / "half").report
    assert report.differences
    values = measured(report)
    assert {*values} >= {("logits", "agreement"), ("logits", "kl")}
    assert values["logits", "kl"].value < 1e-4
    written = json.loads((tmp_path / "half" / "report.json").read_text())["check"]["measurements"]
    assert [entry["measure"] for entry in written] == [each.measure for each in report.measurements]
    assert "logits kl" in str(onnxfn.verify(tmp_path / "half"))
    assert onnxfn.from_json(onnxfn.to_json(report), record=onnxfn.Report) == report


def test_a_classifier_in_float16_is_measured_by_its_classes(tmp_path):
    torch.manual_seed(0)
    config = BertConfig(**SIZES, num_hidden_layers=1, initializer_range=0.15, num_labels=4, max_position_embeddings=64)
    model = BertForSequenceClassification(config).eval()
    spec = onnxfn.with_dtypes(onnxfn.spec_for(model, "text-classification"), float="float16")
    report = onnxfn.export(spec, model, tmp_path / "bert").report
    assert {measure for _, measure in measured(report)} == {"agreement", "cosine"}
    assert measured(report)["logits", "cosine"].value > 0.9999


def test_a_file_in_float32_is_not_measured(wide_llama, tmp_path):
    assert onnxfn.export(SPEC, wide_llama, tmp_path / "own").report.measurements == ()


@pytest.mark.parametrize(
    ("spec", "floors", "words"),
    [
        (SPEC, onnxfn.Floors(kl=0.1), "only quantized and 16-bit files are measured"),
        (QUANTIZED, onnxfn.Floors(iou=0.5), "its measures are agreement, cases, cosine, kl, weights"),
        (onnxfn.with_dtypes(SPEC, float="float16"), onnxfn.Floors(weights=0.5), "'weights', which measures no output"),
    ],
)
def test_a_floor_of_a_measure_that_an_export_does_not_have_is_refused(wide_llama, spec, floors, words):
    assert words in refusal(onnxfn.InvalidSpec, check_floors, plan(spec, wide_llama.config), floors)


class Words:
    def __init__(self, high):
        self.high = high

    def convert_ids_to_tokens(self, ids):
        return ids

    def __call__(self, text, **_):
        return {"input_ids": [sum(word.encode()) % self.high for word in text.split()]}


def test_the_text_of_the_package_has_a_few_hundred_words():
    assert 300 < len(real_text().split()) < 1000
    assert real_text().isascii()


def test_the_tokens_of_the_text_are_measured_where_the_model_has_them(wide_llama):
    planned = plan(QUANTIZED, wide_llama.config)
    part = planned.parts[0]
    reference = text_references(wide_llama, Words(99))(part, planned)
    assert reference.case == "300 tokens of text"
    assert np.array_equal(reference.inputs["input_ids"].ravel(), np.resize(text_tokens(Words(99)).ids, 300))
    assert text_references(wide_llama, Words(5000))(part, planned).case.startswith("300 random tokens")


def test_variants_share_the_outputs_of_pytorch(wide_llama):
    texts, calls = text_references(wide_llama), []
    handle = wide_llama.register_forward_hook(lambda *_: calls.append(1))
    for dtype in ("float16", "float32"):
        planned = plan(onnxfn.with_dtypes(QUANTIZED, float=dtype), wide_llama.config)
        texts(planned.parts[0], planned)
    handle.remove()
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [("kl=low", "--floor kl=low has no number"), ("other=0.9", "no measure 'other' for --floor; known: agreement")],
)
def test_the_command_line_refuses_a_floor_that_it_does_not_know(value, words, tmp_path):
    result = invoke("export", tmp_path, tmp_path / "out", "--floor", value)
    assert result.exit_code != 0
    assert words in result.output
