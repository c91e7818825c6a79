"""The pipeline: what it writes, when it writes nothing, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import numpy as np
import onnx
import onnxruntime
import pytest
import tiny
import torch
from refusals import refusal

import onnxfn
from onnxfn.specs.errors import CaptureFailed, CheckFailed, InvalidSpec, ModelNotFound, OutputExists

SPEC = onnxfn.spec_for("bert", "fill-mask")


@pytest.fixture(scope="module")
def bert():
    return tiny.model("bert", "AutoModelForMaskedLM")


@pytest.fixture(scope="module")
def exported(bert, tmp_path_factory):
    return onnxfn.export(SPEC, bert, tmp_path_factory.mktemp("models") / "bert")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_one_line_exports_a_spec_without_a_task(bert, tmp_path):
    result = onnxfn.export(onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs), bert, tmp_path / "model.onnx")
    assert result.plan.task == "fill-mask"
    assert result.report.passed


def test_the_result_says_files_inputs_outputs_opset_and_seconds(exported):
    assert [os.path.basename(file) for file in exported.files] == [
        "model.onnx",
        "config.json",
    ]
    assert exported.inputs == onnxfn.inputs(SPEC, {"vocab_size": 9})
    assert exported.outputs == {"logits": {0: "batch_size", 1: "sequence_length"}}
    assert exported.opset == 18
    assert [stage for stage, _ in exported.seconds] == ["plan", "capture", "passes", "write", "check"]
    assert onnxfn.from_json(onnxfn.to_json(exported)) == exported
    assert "check passed" in str(exported)
    assert "<table>" in exported._repr_html_()


def test_the_file_is_valid_onnx_of_the_asked_opset(exported):
    onnx.checker.check_model(exported.files[0], full_check=True)
    model = onnx.load(exported.files[0])
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 18)]
    assert model.producer_name == "onnxfn"


def test_no_axis_and_no_value_speaks_torchs_own_symbols(exported):
    import re

    model = onnx.load(exported.files[0])
    every = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    dims = [dim.dim_param for value in every for dim in value.type.tensor_type.shape.dim]
    assert not [dim for dim in dims if re.search(r"\b[su]\d+\b", dim)]


def test_the_file_says_nothing_of_this_machine(exported):
    content = open(exported.files[0], "rb").read()
    assert b"site-packages" not in content
    assert os.path.dirname(__file__).encode() not in content


def test_a_tied_weight_is_stored_once(bert, exported):
    unique = sum({one.data_ptr(): one.numel() * 4 for one in bert.parameters()}.values())
    model = onnx.load(exported.files[0])
    stored = sum(np.prod(one.dims) * 4 for one in model.graph.initializer if one.data_type == onnx.TensorProto.FLOAT)
    assert stored <= unique * 1.01


def test_the_same_export_twice_gives_the_same_bytes(bert, tmp_path):
    first, second = (onnxfn.export(SPEC, bert, tmp_path / name) for name in ("a.onnx", "b.onnx"))
    assert open(first.files[0], "rb").read() == open(second.files[0], "rb").read()


def test_a_file_is_written_where_it_is_named(bert, tmp_path):
    result = onnxfn.export(SPEC, bert, tmp_path / "deep" / "tiny-bert.onnx")
    assert names(tmp_path / "deep") == ["tiny-bert.onnx"]
    assert onnxfn.validate(SPEC, bert, result.path).passed


def test_weights_above_the_threshold_go_to_one_sidecar(bert, tmp_path):
    result = onnxfn.export(SPEC, bert, tmp_path / "model.onnx", threshold=1000)
    assert names(tmp_path) == ["model.onnx", "model.onnx_data"]
    assert [os.path.basename(file) for file in result.files] == ["model.onnx", "model.onnx_data"]
    locations = {
        entry.value
        for one in onnx.load(result.files[0], load_external_data=False).graph.initializer
        for entry in one.external_data
        if entry.key == "location"
    }
    assert locations == {"model.onnx_data"}
    assert result.report.passed


def test_the_sidecar_has_the_asked_name(bert, tmp_path):
    onnxfn.export(SPEC, bert, tmp_path / "model.onnx", threshold=1000, sidecar=".onnx.data")
    assert names(tmp_path) == ["model.onnx", "model.onnx.data"]


def test_a_smaller_export_leaves_no_old_sidecar_behind(bert, tmp_path):
    onnxfn.export(SPEC, bert, tmp_path / "model.onnx", threshold=1000)
    onnxfn.export(SPEC, bert, tmp_path / "model.onnx", overwrite=True)
    assert names(tmp_path) == ["model.onnx"]


@pytest.mark.sweep
def test_a_model_over_two_gigabytes_works(tmp_path):
    model = tiny.model("bert", "AutoModel", vocab_size=17_000_000)
    result = onnxfn.export(onnxfn.spec_for("bert", "feature-extraction"), model, tmp_path / "big")
    assert os.path.getsize(tmp_path / "big" / "model.onnx_data") > 1 << 31
    assert os.path.getsize(tmp_path / "big" / "model.onnx") < 1 << 20
    assert result.report.passed


def test_a_taken_place_needs_force(bert, tmp_path):
    (tmp_path / "kept.txt").write_text("mine")
    told = refusal(OutputExists, onnxfn.export, SPEC, bert, tmp_path)
    assert told == f"{tmp_path} exists and is not empty; choose another path, or pass overwrite=True (--overwrite)"
    assert names(tmp_path) == ["kept.txt"]
    onnxfn.export(SPEC, bert, tmp_path, overwrite=True)
    assert "kept.txt" in names(tmp_path)
    told = refusal(OutputExists, onnxfn.export, SPEC, bert, tmp_path / "model.onnx")
    assert told == f"{tmp_path / 'model.onnx'} exists; choose another path, or pass overwrite=True (--overwrite)"


def test_a_file_that_is_no_onnx_file_is_never_a_folder(bert, tmp_path):
    (tmp_path / "notes").write_text("mine")
    told = refusal(OutputExists, onnxfn.export, SPEC, bert, tmp_path / "notes", overwrite=True)
    assert told.endswith("notes is a file and does not end in .onnx; name a folder, or a file that does")


def test_nothing_is_left_when_the_capture_fails(bert, tmp_path):
    spec = onnxfn.compose(SPEC, onnxfn.gives("nothing", "batch_size _"))
    refusal(CaptureFailed, onnxfn.export, spec, bert, tmp_path / "out")
    assert names(tmp_path) == []


def test_an_old_export_stays_whole_when_a_new_one_fails(bert, tmp_path):
    onnxfn.export(SPEC, bert, tmp_path / "model.onnx")
    before = (tmp_path / "model.onnx").read_bytes()
    spec = onnxfn.with_tolerance(SPEC, atol=0.0, rtol=0.0)
    refusal(CheckFailed, onnxfn.export, spec, bert, tmp_path / "model.onnx", overwrite=True)
    assert (tmp_path / "model.onnx").read_bytes() == before
    assert names(tmp_path) == ["model.onnx"]


def test_without_the_check_there_is_no_report(bert, tmp_path):
    spec = onnxfn.with_tolerance(SPEC, atol=0.0, rtol=0.0)
    result = onnxfn.export(spec, bert, tmp_path / "model.onnx", check=False)
    assert result.report is None
    assert "unchecked" in str(result)


def test_a_model_whose_class_is_for_another_task_is_refused_at_once(bert, tmp_path):
    told = refusal(InvalidSpec, onnxfn.export, onnxfn.spec_for("bert", "text-classification"), bert, tmp_path / "out")
    assert told == (
        "BertForMaskedLM is a model for fill-mask, not for text-classification; "
        "load it with AutoModelForSequenceClassification, or export it for fill-mask"
    )
    assert names(tmp_path) == []


def test_a_class_that_tells_no_task_asks_for_one(tmp_path):
    model = tiny.model("bert", "AutoModelForPreTraining")
    spec = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs)
    told = refusal(InvalidSpec, onnxfn.export, spec, model, tmp_path / "out")
    assert told.startswith("the class name BertForPreTraining implies no task; choose one of ")


def test_validation_of_a_folder_without_the_file_says_what_is_there(bert, tmp_path):
    told = refusal(ModelNotFound, onnxfn.validate, SPEC, bert, tmp_path)
    assert told == f"no model.onnx in {tmp_path}; there is: none"


def test_a_folder_gets_the_configuration(bert, exported):
    config = json.loads(open(os.path.join(exported.path, "config.json")).read())
    assert config["model_type"] == "bert"


def test_progress_goes_to_the_function_that_the_caller_gives(bert, tmp_path):
    heard = []
    onnxfn.export(SPEC, bert, tmp_path / "model.onnx", on_event=heard.append)
    stages = ["plan", "capture", "passes", "write", "check"]
    assert [(event.stage, event.seconds is None) for event in heard] == [
        (stage, begins) for stage in stages for begins in (True, False)
    ]


def test_an_export_prints_warns_and_logs_nothing(tmp_path):
    """In a process of its own, as torch warns once a process, with every warning an error of the host's code."""
    code = """
import logging, sys, warnings
from transformers import BertConfig, BertModel
import torch.onnx, onnxfn
warnings.simplefilter("always")
model = BertModel(BertConfig(num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=16))
handlers = {name: list(logging.getLogger(name).handlers) for name in (None, "torch", "transformers", "onnxfn")}
onnxfn.export(onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs), model, sys.argv[1])
assert handlers == {name: list(logging.getLogger(name).handlers) for name in handlers}
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_two_threads_export_at_once(bert, tmp_path):
    problems = []

    def work(name):
        try:
            assert onnxfn.export(SPEC, bert, tmp_path / name).report.passed
        except Exception as problem:  # noqa: BLE001 - a thread's failure is the test's
            problems.append(problem)

    bert.train()
    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert all(module.training for module in bert.modules())
    bert.eval()
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("opset", [18, 20, 21, 23])
def test_every_opset_is_written_and_checked(bert, tmp_path, opset):
    result = onnxfn.export(onnxfn.with_opset(SPEC, opset), bert, tmp_path / "model.onnx")
    assert [one.version for one in onnx.load(result.files[0]).opset_import] == [opset]
    assert result.report.passed


def test_integers_can_be_32_bits(bert, tmp_path):
    result = onnxfn.export(onnxfn.with_dtypes(SPEC, int="int32"), bert, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(result.files[0])
    assert {one.type for one in session.get_inputs()} == {"tensor(int32)"}


def test_floats_can_be_16_bits_and_the_model_stays_as_it_was(bert, tmp_path):
    full = onnxfn.export(SPEC, bert, tmp_path / "full.onnx")
    half = onnxfn.export(onnxfn.with_dtypes(SPEC, float="float16"), bert, tmp_path / "half.onnx")
    session = onnxruntime.InferenceSession(half.files[0])
    assert [one.type for one in session.get_outputs()] == ["tensor(float16)"]
    assert os.path.getsize(half.files[0]) < 0.7 * os.path.getsize(full.files[0])
    assert {one.dtype for one in bert.parameters()} == {torch.float32}


def test_a_renamed_input_is_called_so_in_the_file_and_not_in_forward(bert, tmp_path):
    result = onnxfn.export(onnxfn.renamed(SPEC, token_type_ids="segment_ids"), bert, tmp_path / "model.onnx")
    assert list(result.inputs) == ["input_ids", "attention_mask", "segment_ids"]
    assert result.report.passed


def test_a_dropped_input_is_not_in_the_file(bert, tmp_path):
    result = onnxfn.export(onnxfn.without(SPEC, "token_type_ids"), bert, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(result.files[0])
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask"]


def test_an_added_output_is_in_the_file(tmp_path):
    model = tiny.model("bert", "AutoModel")
    spec = onnxfn.with_output(onnxfn.spec_for("bert", "feature-extraction"), "pooler_output", "batch_size _")
    result = onnxfn.export(spec, model, tmp_path / "model.onnx")
    assert [one.output for one in result.report.differences] == ["last_hidden_state", "pooler_output"]
