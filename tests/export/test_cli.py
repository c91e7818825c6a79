"""The command line: tables when all is well; one line and an exit code when it is not."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
import tiny
from typer.testing import CliRunner

from onnxfn.export.cli import app
from onnxfn.export.demo import minilm
from onnxfn.specs.version import VERSION

NEXT = {"first": (), "second": (), "third": ("--no-template-cache", "--trace-all-layers")}


def ran(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(*words):
    """The one line that is said when a command is refused."""
    done = ran(*words)
    assert done.exit_code == 1
    line = next(line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.output
    return line.removeprefix("error: ")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny-bert"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return folder


def test_export_finds_the_task_prints_it_and_copies_what_stands_beside(checkpoint, tmp_path):
    done = ran("export", checkpoint, tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "task: fill-mask (found)" in done.stdout
    assert "check passed" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        {"model.onnx", *(path.name for path in checkpoint.iterdir())} - {"model.safetensors"}
    )


def test_the_copied_tokenizer_feeds_the_exported_file(checkpoint, tmp_path):
    from transformers import AutoTokenizer

    assert ran("export", checkpoint, tmp_path / "out", "--task", "feature-extraction").exit_code == 0
    tokens = AutoTokenizer.from_pretrained(tmp_path / "out")("cat cat", return_tensors="np")
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    wanted = [one.name for one in session.get_inputs()]
    (hidden,) = session.run(["last_hidden_state"], {name: tokens[name].astype(np.int64) for name in wanted})
    assert hidden.shape[:2] == tokens["input_ids"].shape


def test_a_flag_chooses_opset_and_type(checkpoint, tmp_path):
    done = ran("export", checkpoint, tmp_path / "out", "--opset", "20", "--dtype", "float16", "--atol", "1e-4")
    assert done.exit_code == 0, done.output
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    assert [one.type for one in session.get_outputs()] == ["tensor(float16)"]


def test_the_next_export_of_a_kind_is_not_traced_unless_that_is_asked_for(checkpoint, tmp_path):
    told = [ran("export", checkpoint, tmp_path / name, *flags).stdout for name, flags in NEXT.items()]
    assert ["    capture " in one for one in told] == [True, False, True]
    assert all("check passed" in one for one in told)


def test_a_flag_lets_operators_of_onnx_runtime_in(checkpoint, tmp_path):
    done = ran("export", checkpoint, tmp_path / "out", "--fuse", "onnxruntime")
    assert done.exit_code == 0, done.output
    assert "opset 23" in done.stdout
    assert "Attention: 2, at least 2 expected" in done.stdout


def test_a_checkpoint_that_writes_is_exported_with_its_past(tmp_path):
    tiny.model("llama", "AutoModelForCausalLM").save_pretrained(tmp_path / "llama")
    done = ran("export", tmp_path / "llama", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "task: text-generation-with-past (found)" in done.stdout
    assert "greedy tokens" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").glob("*.onnx")) == ["model.onnx"]


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
def test_an_encoder_decoder_is_two_files_unless_more_are_asked_for(tmp_path, flags, files):
    tiny.model("t5", "AutoModelForSeq2SeqLM").save_pretrained(tmp_path / "t5")
    done = ran("export", tmp_path / "t5", tmp_path / "out", *flags)
    assert done.exit_code == 0, done.output
    assert "task: text2text-generation-with-past (found)" in done.stdout
    assert {path.name for path in (tmp_path / "out").glob("*.onnx")} == files


def test_a_model_that_compares_texts_with_images_is_split_when_asked(tmp_path):
    tiny.model("clip").save_pretrained(tmp_path / "clip")
    done = ran("export", tmp_path / "clip", tmp_path / "out", "--split")
    assert done.exit_code == 0, done.output
    assert "task: feature-extraction (found)" in done.stdout
    assert {path.name for path in (tmp_path / "out").glob("*.onnx")} == {"text_model.onnx", "vision_model.onnx"}


def test_a_folder_can_be_for_a_browser(checkpoint, tmp_path):
    done = ran("export", checkpoint, tmp_path / "out", "--layout", "transformers.js")
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "out" / "onnx").iterdir()} == {"model.onnx"}
    assert {"config.json", "onnx"} <= {path.name for path in (tmp_path / "out").iterdir()}
    told = refused("export", checkpoint, tmp_path / "other", "--layout", "browser")
    assert told == "no layout 'browser'; known: optimum, transformers.js"


@pytest.mark.parametrize(("weights", "there"), [("link", {"model.safetensors"}), ("none", set())])
def test_weights_stay_in_the_checkpoint_or_are_left_out(checkpoint, tmp_path, weights, there):
    done = ran("export", checkpoint, tmp_path / "out", "--weights", weights)
    assert done.exit_code == 0, done.output
    written = {path.name for path in (tmp_path / "out").iterdir()} - {"model.onnx_data"}
    assert written & {"model.onnx", "model.safetensors"} == {"model.onnx", *there}


def test_a_failed_check_is_exit_code_1_and_leaves_nothing(checkpoint, tmp_path):
    told = refused("export", checkpoint, tmp_path / "out", "--atol", "0", "--rtol", "0")
    assert told.startswith("model: 'logits' is ")
    assert not (tmp_path / "out").exists()


def test_a_task_that_the_model_does_not_know_lists_those_it_knows(checkpoint, tmp_path):
    told = refused("export", checkpoint, tmp_path / "out", "--task", "fil-mask")
    assert told.startswith("no task 'fil-mask' for bert; known: feature-extraction, fill-mask, ")
    assert told.endswith("did you mean 'fill-mask'?")


def test_a_task_that_the_checkpoint_is_not_for_is_refused_before_weights_are_read(checkpoint, tmp_path):
    told = refused("export", checkpoint, tmp_path / "out", "--task", "text-classification")
    assert told == (
        f"{checkpoint} is a checkpoint of BertForMaskedLM, a model for fill-mask: it has no trained weights for "
        "text-classification; export it for fill-mask or feature-extraction"
    )


def test_a_folder_without_a_configuration_says_what_is_there(tmp_path):
    (tmp_path / "weights.bin").write_text("")
    told = refused("export", tmp_path, tmp_path / "out")
    assert told == f"no config.json in {tmp_path}; files: weights.bin; pass the folder of a checkpoint"


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    assert (
        refused("export", tmp_path / "none", tmp_path / "out")
        == f"{tmp_path / 'none'} is not the folder of a checkpoint"
    )


def test_a_model_type_without_a_row_names_the_nearest():
    assert "did you mean 'bert'?; to derive a spec without a row, pass the model" in refused("tasks", "brt")
    assert "did you mean 'roberta'?; to derive a spec without a row, pass the model" in refused("inspect", "roberto")


def test_a_configuration_that_transformers_does_not_know_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no_such_model"}))
    assert refused("export", tmp_path, tmp_path / "out").startswith(
        f"transformers cannot read a configuration from {tmp_path / 'config.json'}: "
    )


def test_a_checkpoint_without_weights_is_refused(checkpoint, tmp_path):
    (tmp_path / "config.json").write_text((checkpoint / "config.json").read_text())
    assert "could not be loaded with AutoModelForMaskedLM" in refused("export", tmp_path, tmp_path / "out")


def test_a_place_that_is_taken_needs_force(checkpoint, tmp_path):
    (tmp_path / "mine.txt").write_text("")
    told = refused("export", checkpoint, tmp_path)
    assert told == f"{tmp_path} exists and is not empty; choose another path, or pass overwrite=True (--overwrite)"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]
    assert ran("export", checkpoint, tmp_path, "--overwrite").exit_code == 0


def test_an_opset_that_is_too_old_is_refused(checkpoint, tmp_path):
    told = refused("export", checkpoint, tmp_path / "out", "--opset", "11")
    assert told == "opset 11 is below 18, the oldest that torch's exporter translates to"


def test_a_size_is_chosen_by_name_and_an_unknown_one_names_the_closest(checkpoint, tmp_path):
    told = refused("export", checkpoint, tmp_path / "out", "--size", "sequence=8")
    assert told == "no size 'sequence' for bert; known: batch_size, sequence_length; did you mean 'sequence_length'?"
    assert refused("export", checkpoint, tmp_path / "out", "--size", "batch_size=x").startswith(
        "--size batch_size has no number"
    )
    assert ran("export", checkpoint, tmp_path / "out", "--size", "sequence_length=9").exit_code == 0


def test_inspect_shows_a_spec_and_its_json():
    from onnxfn import from_json, spec_for

    assert "token_type_ids" in ran("inspect", "bert").stdout
    assert "logits" in ran("inspect", "bert", "--task", "fill-mask").stdout
    assert from_json(ran("inspect", "bert", "--task", "fill-mask", "--json").stdout) == spec_for("bert", "fill-mask")


def test_cache_shows_where_the_cache_is_and_how_large_and_clears_it(tmp_path):
    empty = ran("cache").stdout
    assert empty.endswith("/onnxfn/templates: 0 files, 0.0 MiB\n")
    for digit in "ab":
        (tmp_path / f"{digit * 64}.onnx").write_bytes(bytes(2**19))
    assert ran("cache", "--folder", tmp_path).stdout == f"{tmp_path}: 2 files, 1.0 MiB\n"
    assert ran("cache", "--folder", tmp_path, "--clear").stdout == f"{tmp_path}: deleted 2 files, 1.0 MiB\n"
    assert ran("cache", "--folder", tmp_path).stdout == f"{tmp_path}: 0 files, 0.0 MiB\n"


def test_tasks_lists_tasks():
    assert ran("tasks", "splinter").stdout.split() == ["feature-extraction", "question-answering"]


def test_the_version_is_said():
    assert ran("--version").stdout.strip() == VERSION


def test_help_is_quick_and_brings_in_no_torch():
    code = """
import sys
from onnxfn.export.cli import app
from onnxfn.export.demo import minilm
app(["--help"], standalone_mode=False)
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout


def test_outputs_are_chosen_and_axes_fixed(checkpoint, tmp_path):
    flags = ("--output", "hidden_states", "--shape", "batch_size=1", "--shape", "sequence_length=12")
    done = ran("export", checkpoint, tmp_path / "out", *flags)
    assert done.exit_code == 0, done.output
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    shapes = {one.name: one.shape for one in session.get_outputs()}
    assert shapes == {"logits": [1, 12, 128], **{f"hidden_states.{layer}": [1, 12, 32] for layer in range(3)}}


def test_a_model_of_sentence_transformers_gives_its_embedding(tmp_path):
    done = ran("export", minilm(), tmp_path / "out", "--library", "sentence_transformers", "--no-check")
    assert done.exit_code == 0
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_outputs()] == ["token_embeddings", "sentence_embedding"]


def test_a_library_that_is_not_known_and_flags_that_a_pipeline_has_not_are_refused(tmp_path):
    told = refused("export", tmp_path, tmp_path / "out", "--library", "difusers")
    assert told.startswith("no library 'difusers'; known: transformers, diffusers, ")
    told = refused("export", tmp_path, tmp_path / "out", "--library", "diffusers", "--opset", "20")
    assert told == "--opset is not for a whole pipeline; export the part by its own spec"
