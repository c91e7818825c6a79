"""`export` and `validate`: the files that they write, when they write none, and what they leave unchanged."""

import os
import re
import subprocess
import sys

import onnx
import pytest
import tiny
from exported_folders import content, names, paths
from refusals import refusal

import onnxfn

SPEC = onnxfn.spec_for("bert", "fill-mask")


@pytest.fixture(scope="module")
def exported(bert, tmp_path_factory):
    return onnxfn.export(SPEC, bert, tmp_path_factory.mktemp("models") / "bert")


def test_the_result_has_files_inputs_outputs_opset_and_seconds(exported):
    assert [os.path.basename(file) for file in exported.files] == ["model.onnx", "config.json", "report.json"]
    assert exported.inputs == onnxfn.inputs(SPEC, {"vocab_size": 9})
    assert exported.outputs == {"logits": {0: "batch_size", 1: "sequence_length"}}
    assert exported.opset == 18
    assert [stage for stage, _ in exported.seconds] == ["plan", "capture", "passes", "write", "check", "complete"]
    assert onnxfn.from_json(onnxfn.to_json(exported), record=onnxfn.Exported) == exported
    assert "check passed" in str(exported)


def test_the_file_is_valid_onnx_without_symbols_of_torch_or_paths_of_this_machine(exported):
    onnx.checker.check_model(exported.files[0], full_check=True)
    model = onnx.load(exported.files[0])
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 18)]
    assert model.producer_name == "onnxfn"
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    dims = [dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim]
    assert not [dim for dim in dims if re.search(r"\b[su]\d+\b", dim)]
    content = open(exported.files[0], "rb").read()
    assert b"site-packages" not in content
    assert os.path.dirname(__file__).encode() not in content


def test_a_path_that_ends_in_onnx_names_the_file(bert, tmp_path):
    result = onnxfn.export(SPEC, bert, tmp_path / "deep" / "tiny-bert.onnx")
    assert names(tmp_path / "deep") == ["tiny-bert.onnx"]
    assert onnxfn.validate(SPEC, bert, result.path).passed


@pytest.mark.parametrize("suffix", [".onnx_data", ".onnx.data"])
def test_weights_above_the_threshold_are_stored_in_one_external_data_file(bert, tmp_path, suffix):
    write = onnxfn.WriteOptions(external_data_threshold=1000, external_data_suffix=suffix)
    result = onnxfn.export(SPEC, bert, tmp_path / "model.onnx", write=write)
    assert names(tmp_path) == ["model.onnx", f"model{suffix}"]
    assert [os.path.basename(file) for file in result.files] == names(tmp_path)
    tensors = onnx.load(result.files[0], load_external_data=False).graph.initializer
    entries = [entry for tensor in tensors for entry in tensor.external_data]
    assert {entry.value for entry in entries if entry.key == "location"} == {f"model{suffix}"}
    assert result.report.passed


def test_another_layout_replaces_the_files_of_an_earlier_one(bert, tmp_path):
    for layout, files in {
        "optimum": ["config.json", "model.onnx", "model.onnx_data", "report.json"],
        "transformers.js": ["config.json", "onnx/model.onnx", "onnx/model.onnx_data", "report.json"],
    }.items():
        write = onnxfn.WriteOptions(layout=layout, external_data_threshold=1000)
        for _ in range(2):
            onnxfn.export(SPEC, bert, tmp_path, check=False, overwrite=True, write=write)
            assert paths(tmp_path) == files
    onnxfn.export(SPEC, bert, tmp_path, check=False, overwrite=True)
    assert paths(tmp_path) == ["config.json", "model.onnx", "report.json"]
    assert not (tmp_path / "onnx").exists()


def test_an_export_into_the_folder_of_its_checkpoint_never_deletes_the_checkpoint(bert, tmp_path):
    bert.save_pretrained(tmp_path)
    before = content(tmp_path)
    for storage in ("link", "share", "none"):
        write = onnxfn.WriteOptions(weight_storage=storage)
        result = onnxfn.export(SPEC, bert, tmp_path, checkpoint=tmp_path, check=False, overwrite=True, write=write)
        assert storage != "link" or str(tmp_path / "model.safetensors") in result.files
        assert before.items() <= content(tmp_path).items()


@pytest.mark.sweep
def test_a_model_over_two_gigabytes_works(tmp_path):
    model = tiny.model("bert", "AutoModel", vocab_size=17_000_000)
    result = onnxfn.export(onnxfn.spec_for("bert", "feature-extraction"), model, tmp_path / "big")
    assert os.path.getsize(tmp_path / "big" / "model.onnx_data") > 1 << 31
    assert os.path.getsize(tmp_path / "big" / "model.onnx") < 1 << 20
    assert result.report.passed


def test_a_path_that_exists_needs_overwrite(bert, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    message = refusal(onnxfn.OutputExists, onnxfn.export, SPEC, bert, tmp_path)
    assert message == f"{tmp_path} exists and is not empty; choose another path, or pass overwrite=True (--overwrite)"
    assert names(tmp_path) == ["notes.txt"]
    onnxfn.export(SPEC, bert, tmp_path, overwrite=True)
    assert "notes.txt" in names(tmp_path)
    message = refusal(onnxfn.OutputExists, onnxfn.export, SPEC, bert, tmp_path / "model.onnx")
    assert message == f"{tmp_path / 'model.onnx'} exists; choose another path, or pass overwrite=True (--overwrite)"


def test_a_file_without_the_suffix_onnx_is_never_overwritten(bert, tmp_path):
    (tmp_path / "notes").write_text("mine")
    message = refusal(onnxfn.OutputExists, onnxfn.export, SPEC, bert, tmp_path / "notes", overwrite=True)
    assert message.endswith("notes is a file and does not end in .onnx; name a folder, or a file that does")


def test_an_earlier_export_is_unchanged_when_a_new_one_fails(bert, tmp_path):
    onnxfn.export(SPEC, bert, tmp_path / "model.onnx")
    before = (tmp_path / "model.onnx").read_bytes()
    spec = onnxfn.with_tolerance(SPEC, atol=0.0, rtol=0.0)
    refusal(onnxfn.CheckFailed, onnxfn.export, spec, bert, tmp_path / "model.onnx", overwrite=True)
    assert (tmp_path / "model.onnx").read_bytes() == before
    assert names(tmp_path) == ["model.onnx"]


def test_validate_names_a_missing_file_and_the_files_that_are_present(bert, tmp_path):
    message = refusal(onnxfn.ModelNotFound, onnxfn.validate, SPEC, bert, tmp_path)
    assert message == f"no model.onnx in {tmp_path}; ONNX files there: none"


def test_the_failure_of_a_stage_is_reported_and_leaves_no_file(bert, tmp_path):
    spec, events = onnxfn.with_tolerance(SPEC, atol=0.0, rtol=0.0), []
    refusal(onnxfn.CheckFailed, onnxfn.export, spec, bert, tmp_path / "out", on_event=events.append)
    broken = onnxfn.compose(SPEC, onnxfn.gives("nothing", "batch_size _"))
    refusal(onnxfn.CaptureFailed, onnxfn.export, broken, bert, tmp_path / "out", on_event=events.append)
    started = [event.stage for event in events if event.status == "start"]
    assert [event.stage for event in events if event.status in ("end", "failure")] == started
    failed = [event.stage for event in events if event.status == "failure"]
    assert "check" in failed
    assert failed[-1] == events[-1].stage == "capture"
    assert names(tmp_path) == []


def test_an_export_prints_warns_and_logs_nothing(tmp_path):
    """In a new process, since torch warns once in a process."""
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
    words = [sys.executable, "-c", code, str(tmp_path / "out")]
    finished = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
