"""The command line: it prints tables, or an error in one line and exits with code 1."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import tiny
from typer.testing import CliRunner

from onnxfn.export.cli import export_command as cli_export
from onnxfn.export.cli.commands import app
from onnxfn.export.cli.demo import minilm
from onnxfn.specs.version import VERSION

FLAGS_OF_EXPORTS = {"first": (), "second": (), "third": ("--no-template-cache", "--trace-all-layers")}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def error_of(*words):
    """The error of a command that fails, which is one line."""
    result = run(*words)
    assert result.exit_code == 1
    line = next(line for line in result.stderr.splitlines() if line.startswith("error: "))
    assert result.stderr.count("error: ") == 1
    assert "Traceback" not in result.output
    return line.removeprefix("error: ")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny-bert"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return folder


def test_export_finds_the_task_prints_it_and_copies_the_tokenizer_files(checkpoint, tmp_path):
    result = run("export", checkpoint, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "task: fill-mask (found)" in result.stdout
    assert "check passed" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        {"onnx", "README.md", "report.json", *(path.name for path in checkpoint.iterdir())} - {"model.safetensors"}
    )
    assert [path.name for path in (tmp_path / "out" / "onnx").iterdir()] == ["model.onnx"]


def test_the_copied_tokenizer_feeds_the_exported_file(checkpoint, tmp_path):
    from transformers import AutoTokenizer

    assert run("export", checkpoint, tmp_path / "out", "--task", "feature-extraction").exit_code == 0
    tokens = AutoTokenizer.from_pretrained(tmp_path / "out")("cat cat", return_tensors="np")
    session = onnxruntime.InferenceSession(tmp_path / "out" / "onnx" / "model.onnx")
    names = [input_.name for input_ in session.get_inputs()]
    (hidden,) = session.run(["last_hidden_state"], {name: tokens[name].astype(np.int64) for name in names})
    assert hidden.shape[:2] == tokens["input_ids"].shape


def test_flags_set_opset_and_dtype(checkpoint, tmp_path):
    flags = ("--opset", "20", "--dtype", "float16", "--layout", "optimum")
    result = run("export", checkpoint, tmp_path / "out", *flags)
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    assert [output.type for output in session.get_outputs()] == ["tensor(float16)"]


def test_a_second_export_is_not_traced_without_flags_that_ask_for_it(checkpoint, tmp_path):
    words = ("export", checkpoint, "-v")
    outputs = [run(*words, tmp_path / name, *flags).stdout for name, flags in FLAGS_OF_EXPORTS.items()]
    assert [", capture " in output for output in outputs] == [True, False, True]
    assert all("check passed" in output for output in outputs)


def test_a_text_generation_checkpoint_is_exported_with_its_past(tmp_path):
    tiny.model("llama", "AutoModelForCausalLM").save_pretrained(tmp_path / "llama")
    result = run("export", tmp_path / "llama", tmp_path / "out", "--verbose")
    assert result.exit_code == 0, result.output
    assert "task: text-generation-with-past (found)" in result.stdout
    assert "greedy tokens" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out" / "onnx").glob("*.onnx")) == ["model.onnx"]


@pytest.mark.parametrize(
    ("flags", "files"),
    [
        ((), {"encoder_model.onnx", "decoder_model_merged.onnx"}),
        (("--decoders", "separate"), {"encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"}),
        (
            ("--decoders", "both"),
            {
                "encoder_model.onnx",
                "decoder_model.onnx",
                "decoder_with_past_model.onnx",
                "decoder_model_merged.onnx",
            },
        ),
    ],
)
def test_decoders_chooses_the_files_of_an_encoder_decoder(tmp_path, flags, files):
    tiny.model("t5", "AutoModelForSeq2SeqLM").save_pretrained(tmp_path / "t5")
    result = run("export", tmp_path / "t5", tmp_path / "out", *flags)
    assert result.exit_code == 0, result.output
    assert "task: text2text-generation-with-past (found)" in result.stdout
    assert {path.name for path in (tmp_path / "out" / "onnx").glob("*.onnx")} == files


def test_split_writes_a_file_for_each_part_of_a_model(tmp_path):
    tiny.model("clip").save_pretrained(tmp_path / "clip")
    result = run("export", tmp_path / "clip", tmp_path / "out", "--split")
    assert result.exit_code == 0, result.output
    assert "task: feature-extraction (found)" in result.stdout
    assert {path.name for path in (tmp_path / "out" / "onnx").glob("*.onnx")} == {
        "text_model.onnx",
        "vision_model.onnx",
    }


def test_layout_optimum_writes_the_onnx_files_to_the_root(checkpoint, tmp_path):
    assert run("export", checkpoint, tmp_path / "out", "--layout", "optimum").exit_code == 0
    assert {"model.onnx", "config.json"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert json.loads((tmp_path / "out" / "report.json").read_text())["options"]["layout"] == "optimum"


def test_layout_transformers_js_writes_the_onnx_files_to_a_subfolder(checkpoint, tmp_path):
    result = run("export", checkpoint, tmp_path / "out", "--layout", "transformers.js")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "out" / "onnx").iterdir()} == {"model.onnx"}
    assert {"config.json", "onnx"} <= {path.name for path in (tmp_path / "out").iterdir()}
    message = error_of("export", checkpoint, tmp_path / "other", "--layout", "browser")
    assert message == "no layout 'browser'; known: optimum, transformers.js, hub"


@pytest.mark.parametrize(("weights", "present"), [("link", {"model.safetensors"}), ("none", set())])
def test_weights_can_be_linked_or_left_out(checkpoint, tmp_path, weights, present):
    result = run("export", checkpoint, tmp_path / "out", "--weights", weights)
    assert result.exit_code == 0, result.output
    written = {path.name for path in (tmp_path / "out" / "onnx").iterdir()} - {"model.onnx_data"}
    assert written & {"model.onnx", "model.safetensors"} == {"model.onnx", *present}


def test_a_failed_check_is_exit_code_1_and_leaves_no_files(checkpoint, tmp_path):
    message = error_of("export", checkpoint, tmp_path / "out", "--atol", "0", "--rtol", "0")
    assert message.startswith("model: 'logits' is ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("tolerance", ["inf", "nan", "-1"])
def test_a_tolerance_that_allows_everything_is_refused(checkpoint, tmp_path, tolerance):
    message = error_of("export", checkpoint, tmp_path / "out", f"--atol={tolerance}")
    assert message.endswith("a tolerance is a number, 0 or more, and not infinite")
    assert not (tmp_path / "out").exists()


def test_an_unknown_task_lists_the_known_ones(checkpoint, tmp_path):
    message = error_of("export", checkpoint, tmp_path / "out", "--task", "fil-mask")
    assert message.startswith("no task 'fil-mask' for bert; known: feature-extraction, fill-mask, ")
    assert message.endswith("did you mean 'fill-mask'?")


def test_a_task_without_trained_weights_is_an_error_before_weights_are_read(checkpoint, tmp_path):
    message = error_of("export", checkpoint, tmp_path / "out", "--task", "text-classification")
    assert message == (
        f"{checkpoint} is a checkpoint of BertForMaskedLM, a model for fill-mask: it has no trained weights for "
        "text-classification; export it for fill-mask or feature-extraction"
    )


def test_a_folder_without_a_configuration_lists_its_files(tmp_path):
    (tmp_path / "weights.bin").write_text("")
    message = error_of("export", tmp_path, tmp_path / "out")
    assert message == f"no config.json in {tmp_path}; files: weights.bin; pass the folder of a checkpoint"


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    assert (
        error_of("export", tmp_path / "none", tmp_path / "out")
        == f"{tmp_path / 'none'} is not the folder of a checkpoint"
    )


def test_an_unknown_model_type_names_the_closest():
    assert "did you mean 'bert'?; to derive a spec without a row, pass the model" in error_of("tasks", "brt")
    assert "did you mean 'roberta'?; to derive a spec without a row, pass the model" in error_of("inspect", "roberto")


def test_a_configuration_that_transformers_does_not_know_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no_such_model"}))
    assert error_of("export", tmp_path, tmp_path / "out").startswith(
        f"transformers cannot read a configuration from {tmp_path / 'config.json'}: "
    )


def test_a_checkpoint_without_weights_is_an_error(checkpoint, tmp_path):
    (tmp_path / "config.json").write_text((checkpoint / "config.json").read_text())
    assert "could not be loaded with AutoModelForMaskedLM" in error_of("export", tmp_path, tmp_path / "out")


def test_a_path_that_exists_needs_overwrite(checkpoint, tmp_path):
    (tmp_path / "mine.txt").write_text("")
    message = error_of("export", checkpoint, tmp_path)
    assert message == f"{tmp_path} exists and is not empty; choose another path, or pass overwrite=True (--overwrite)"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]
    assert run("export", checkpoint, tmp_path, "--overwrite").exit_code == 0
    assert run("export", checkpoint, tmp_path, "--force").exit_code == 0


@pytest.mark.parametrize("suffix", ["a/b", "/../../victim.txt", ".onnx", ".safetensors"])
def test_a_suffix_that_names_other_files_is_an_error(checkpoint, tmp_path, suffix):
    (tmp_path / "victim.txt").write_text("mine")
    before = {file: file.read_bytes() for folder in (tmp_path, checkpoint) for file in folder.iterdir()}
    for out in (tmp_path / "deep" / "out", checkpoint):
        message = error_of("export", checkpoint, out, "--overwrite", "--external-data-suffix", suffix)
        assert message.startswith(f"external_data_suffix {suffix!r} is ")
    assert {file: file.read_bytes() for folder in (tmp_path, checkpoint) for file in folder.iterdir()} == before


@pytest.mark.parametrize("opset", ["11", "0", "26"])
def test_an_opset_that_cannot_be_written_is_an_error(checkpoint, tmp_path, opset):
    message = error_of("export", checkpoint, tmp_path / "out", "--opset", opset)
    assert message == f"no opset {opset}; possible: 18 to 25"


def test_an_unknown_name_of_a_size_names_the_closest(checkpoint, tmp_path):
    message = error_of("export", checkpoint, tmp_path / "out", "--size", "sequence=8")
    assert message == "no size 'sequence' for bert; known: batch_size, sequence_length; did you mean 'sequence_length'?"
    assert error_of("export", checkpoint, tmp_path / "out", "--size", "batch_size=x").startswith(
        "--size batch_size has no number"
    )
    assert run("export", checkpoint, tmp_path / "out", "--size", "sequence_length=9").exit_code == 0


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--size", "sequence_length=1000000000"), "has the shape [2, 1000000000]: above "),
        (("--shape", "batch_size=99999999999"), "has the shape [99999999999, 16]: above "),
        (("--shape", "sequence_length=9:2"), "=9:2 is no size and no range of sizes; write --shape sequence_length=32"),
        (("--shape", "sequence_length=1:x"), "is no size and no range of sizes; write --shape sequence_length=32, or "),
        (("--shape", "sequence_length"), "--shape sequence_length= is no size and no range"),
        (("--size", "batch_size=1"), "the dynamic axis batch_size cannot be traced at size 1"),
        (("--size", "batch_size=0"), "the dynamic axis batch_size cannot be traced at size 0"),
        (("--dtype", "float8"), "no dtype 'float8'; known: float32, float16, bfloat16, float64, "),
    ],
)
def test_a_value_that_no_export_can_have_is_an_error(checkpoint, tmp_path, flags, part):
    assert part in error_of("export", checkpoint, tmp_path / "out", *flags)
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_a_name_is_an_error(tmp_path):
    assert error_of("export", "", tmp_path / "out").startswith("the checkpoint has no name: ")


def test_inspect_prints_a_spec_or_its_json():
    from onnxfn import from_json, spec_for

    assert "token_type_ids" in run("inspect", "bert").stdout
    assert "logits" in run("inspect", "bert", "--task", "fill-mask").stdout
    assert from_json(run("inspect", "bert", "--task", "fill-mask", "--json").stdout) == spec_for("bert", "fill-mask")


def test_cache_prints_the_folder_and_its_size_and_clears_it(tmp_path):
    empty = run("cache").stdout
    assert empty.endswith("/onnxfn/templates: 0 files, 0.0 MB\n")
    for digit in "ab":
        (tmp_path / f"{digit * 64}.template").write_bytes(bytes(500_000))
    assert run("cache", "--folder", tmp_path).stdout == f"{tmp_path}: 2 files, 1.0 MB\n"
    assert run("cache", "--folder", tmp_path, "--clear").stdout == f"{tmp_path}: deleted 2 files, 1.0 MB\n"
    assert run("cache", "--folder", tmp_path).stdout == f"{tmp_path}: 0 files, 0.0 MB\n"


def test_tasks_prints_the_tasks_of_a_model_type():
    assert run("tasks", "splinter").stdout.split() == ["feature-extraction", "question-answering"]


def test_version_prints_the_version():
    assert run("--version").stdout.strip() == VERSION


def test_help_does_not_import_torch():
    code = """
import sys
from onnxfn.export.cli.commands import app
from onnxfn.export.cli.demo import minilm
app(["--help"], standalone_mode=False)
assert "torch" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "demo" in result.stdout


def test_flags_add_outputs_and_fix_axes(checkpoint, tmp_path):
    flags = ("--output", "hidden_states", "--shape", "batch_size=1", "--shape", "sequence_length=12")
    result = run("export", checkpoint, tmp_path / "out", *flags)
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(tmp_path / "out" / "onnx" / "model.onnx")
    shapes = {output.name: output.shape for output in session.get_outputs()}
    assert shapes == {"logits": [1, 12, 128], **{f"hidden_states.{layer}": [1, 12, 32] for layer in range(3)}}


def test_a_flag_says_the_range_of_an_axis(checkpoint, tmp_path):
    """The check runs at sizes in the range, and the report keeps the range."""
    out = tmp_path / "out"
    result = run("export", checkpoint, out, "--shape", "sequence_length=3:9", "--shape", "batch_size=2")
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(out / "onnx" / "model.onnx")
    assert {tuple(input_.shape) for input_ in session.get_inputs()} == {(2, "sequence_length")}
    report = (out / "report.json").read_text()
    sizes = {int(size) for size in re.findall(r"sequence_length=(\d+)", report)}
    assert sizes
    assert sizes <= {*range(3, 10)}
    assert "smallest and largest size" in " ".join(run("export", "--help").output.replace("│", " ").split())


def test_a_model_of_sentence_transformers_has_its_embedding_as_output(tmp_path):
    result = run("export", minilm(), tmp_path / "out", "--library", "sentence_transformers", "--no-check")
    assert result.exit_code == 0
    file = str(tmp_path / "out" / "onnx" / "model.onnx")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["last_hidden_state", "sentence_embedding"]


def test_the_checkpoint_of_another_library_is_its_folder_and_none_for_a_name_on_the_hub(tmp_path, monkeypatch):
    module, checkpoints = cli_export, []
    for name in ("load_library_model", "job_spec", "_print_planned"):
        monkeypatch.setattr(module, name, lambda *_, **__: None)
    monkeypatch.setattr(module, "export_loaded", lambda _job, _spec, _model, folder, _: checkpoints.append(folder))
    for name in (tmp_path, "owner/name"):
        assert run("export", name, tmp_path / "out", "--library", "sentence_transformers").exit_code == 0
    assert checkpoints == [tmp_path, None]


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
@pytest.mark.parametrize("words", [("export", "."), ("demo",), ("verify",), ("cache", "--folder")], ids=" ".join)
def test_a_path_that_no_system_can_have_is_an_invalid_value(words, path):
    result = run(*words, path)
    assert result.exit_code == 2
    assert "Invalid value for " in result.output
    assert isinstance(result.exception, SystemExit)


def test_an_unknown_library_and_spec_flags_for_a_pipeline_are_errors(tmp_path):
    message = error_of("export", tmp_path, tmp_path / "out", "--library", "difusers")
    assert message.startswith("no library 'difusers'; known: transformers, diffusers, ")
    message = error_of("export", tmp_path, tmp_path / "out", "--library", "diffusers", "--opset", "20")
    assert message == "--opset is not for a whole pipeline; export the part by its own spec"
    for flags in (("--dtype", "float32"), ("--opset", "18"), ("--size", "batch_size=1")):
        message = error_of("export", tmp_path, tmp_path / "out", "--library", "diffusers", *flags)
        assert message.startswith(f"{flags[0]} is not for a whole pipeline")
