"""The command line: it prints tables, or an error in one line and exits with code 1."""

import re

import numpy as np
import onnxruntime
import pytest
import tiny
from command_line import error_of, exported_checkpoint, invoke, succeed
from fine_tunes import save_berts
from own_processes import printed

import onnxfn
from onnxfn.export.cli import demo, export_command
from onnxfn.export.cli.demo import minilm
from onnxfn.export.report import push
from onnxfn.graphs.templates import template_cache as cache_folder

FLAGS_OF_EXPORTS = {"first": (), "second": (), "third": ("--no-template-cache", "--trace-all-layers")}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny-bert"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return folder


def test_export_finds_the_task_prints_it_and_copies_the_tokenizer_that_feeds_the_file(checkpoint, tmp_path):
    from transformers import AutoTokenizer

    out = tmp_path / "out"
    result = succeed("export", checkpoint, out)
    assert "task: fill-mask (found)" in result.stdout
    assert "check passed" in result.stdout
    copied = {path.name for path in checkpoint.iterdir()} - {"model.safetensors"}
    assert {path.name for path in out.iterdir()} == {"onnx", "README.md", "graph.svg", "report.json", *copied}
    assert [path.name for path in (out / "onnx").iterdir()] == ["model.onnx"]
    tokens = AutoTokenizer.from_pretrained(out)("cat cat", return_tensors="np")
    logits = onnxfn.load(out)(**{name: tokens[name].astype(np.int64) for name in tokens})["logits"]
    assert logits.shape[:2] == tokens["input_ids"].shape


def test_flags_set_opset_dtype_and_sizes_and_replace_files(checkpoint, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("")
    flags = ("--opset", "20", "--dtype", "float16", "--layout", "optimum", "--size", "sequence_length=9", "--force")
    succeed("export", checkpoint, tmp_path / "out", *flags)
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    assert [output.type for output in session.get_outputs()] == ["tensor(float16)"]


def test_a_second_export_is_not_traced_without_flags_that_ask_for_it(checkpoint, tmp_path):
    words = ("export", checkpoint, "-v")
    outputs = [invoke(*words, tmp_path / name, *flags).stdout for name, flags in FLAGS_OF_EXPORTS.items()]
    assert [", capture " in output for output in outputs] == [True, False, True]
    assert all("check passed" in output for output in outputs)


SEPARATE = {"encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"}
MERGED = "decoder_model_merged.onnx"
T5 = ("t5", "AutoModelForSeq2SeqLM", "text2text-generation-with-past")


@pytest.mark.parametrize(
    ("model", "flags", "files"),
    [
        (("llama", "AutoModelForCausalLM", "text-generation-with-past"), (), {"model.onnx"}),
        (("clip", "AutoModel", "feature-extraction"), ("--split",), {"text_model.onnx", "vision_model.onnx"}),
        (T5, (), {"encoder_model.onnx", MERGED}),
        (T5, ("--decoders", "separate"), SEPARATE),
        (T5, ("--decoders", "both"), {*SEPARATE, MERGED}),
    ],
    ids=["llama", "clip", "t5", "t5 separate", "t5 both"],
)
def test_a_model_of_several_parts_is_exported_for_the_task_that_is_found(tmp_path, model, flags, files):
    model_type, loader, task = model
    result = exported_checkpoint(tiny.model(model_type, loader), tmp_path, *flags, "--verbose")
    assert f"task: {task} (found)" in result.stdout
    assert ("greedy tokens" in result.stdout) == bool(files & {"model.onnx", MERGED})
    assert {path.name for path in (tmp_path / "out" / "onnx").glob("*.onnx")} == files


def test_a_failed_check_is_exit_code_1_and_leaves_no_files(checkpoint, tmp_path):
    message = error_of("export", checkpoint, tmp_path / "out", "--atol", "0", "--rtol", "0")
    assert message.startswith("model: 'logits' is ")
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_configuration_lists_its_files_and_a_name_is_needed(tmp_path):
    (tmp_path / "weights.bin").write_text("")
    message = error_of("export", tmp_path, tmp_path / "out")
    assert message == f"no config.json in {tmp_path}; files: weights.bin; pass the folder of a checkpoint"
    (tmp_path / "model_index.json").write_text("{}")
    assert error_of("export", tmp_path, tmp_path / "out").endswith("weights.bin; add --library diffusers")
    (tmp_path / "config.json").write_text('{"architecture": "resnet18"}')
    assert error_of("export", tmp_path, tmp_path / "out").endswith("; add --library timm")
    assert error_of("export", "", tmp_path / "out").startswith("the checkpoint has no name: ")


@pytest.mark.parametrize("suffix", ["a/b", "/../../victim.txt", ".onnx", ".safetensors"])
def test_a_suffix_that_names_other_files_is_an_error(checkpoint, tmp_path, suffix):
    (tmp_path / "victim.txt").write_text("mine")
    before = {file: file.read_bytes() for folder in (tmp_path, checkpoint) for file in folder.iterdir()}
    for out in (tmp_path / "deep" / "out", checkpoint):
        message = error_of("export", checkpoint, out, "--overwrite", "--external-data-suffix", suffix)
        assert message.startswith(f"external_data_suffix {suffix!r} is ")
    assert {file: file.read_bytes() for folder in (tmp_path, checkpoint) for file in folder.iterdir()} == before


TOLERANCE = "a tolerance is a number, 0 or more, and not infinite"


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--size", "sequence_length=1000000000"), "has the shape [2, 1000000000]: above "),
        (("--size", "sequence=8"), "known: batch_size, sequence_length; did you mean 'sequence_length'?"),
        (("--size", "batch_size=x"), "--size batch_size has no number"),
        (("--shape", "batch_size=99999999999"), "has the shape [99999999999, 16]: above "),
        (("--shape", "sequence_length=9:2"), "=9:2 is neither a size nor a range; write --shape sequence_length=32"),
        (("--shape", "sequence_length=1:x"), "is neither a size nor a range; write --shape sequence_length=32, or "),
        (("--shape", "sequence_length"), "--shape sequence_length= is neither a size nor a range"),
        (("--dtype", "float8"), "no dtype 'float8'; known: float32, float16, bfloat16, float64, "),
        (("--layout", "browser"), "no layout 'browser'; known: optimum, transformers.js, hub"),
        (("--task", "fil-mask"), "known: feature-extraction, fill-mask, "),
        (("--task", "text-classification"), "has no trained weights for text-classification; export it for fill-mask"),
        *((("--opset", opset), f"no opset {opset}; possible: 18 to 28") for opset in ("11", "0", "29")),
        *((("--atol", tolerance), TOLERANCE) for tolerance in ("inf", "nan", "-1")),
    ],
)
def test_a_value_that_no_export_can_have_is_an_error(checkpoint, tmp_path, flags, part):
    assert part in error_of("export", checkpoint, tmp_path / "out", *flags)
    assert list(tmp_path.iterdir()) == []


def test_inspect_prints_a_spec_or_its_json():
    from onnxfn import from_json, spec_for

    assert "token_type_ids" in invoke("inspect", "bert").stdout
    assert "logits" in invoke("inspect", "bert", "--task", "fill-mask").stdout
    assert from_json(invoke("inspect", "bert", "--task", "fill-mask", "--json").stdout) == spec_for("bert", "fill-mask")


def test_cache_prints_the_folder_and_its_size_and_clears_it(tmp_path):
    assert invoke("cache").stdout.endswith("/onnxfn/templates: 0 files, 0.0 MB\n")
    for digit in "ab":
        (tmp_path / f"{digit * 64}.template").write_bytes(bytes(500_000))
    assert invoke("cache", "--folder", tmp_path).stdout == f"{tmp_path}: 2 files, 1.0 MB\n"
    assert invoke("cache", "--folder", tmp_path, "--clear").stdout == f"{tmp_path}: deleted 2 files, 1.0 MB\n"
    assert invoke("cache", "--folder", tmp_path).stdout == f"{tmp_path}: 0 files, 0.0 MB\n"


def test_the_tasks_of_a_model_type_and_the_version_are_printed(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "splinter"}')
    for subject in ("splinter", tmp_path):
        assert invoke("tasks", subject).stdout.split() == ["feature-extraction", "question-answering"]
    assert invoke("--version").stdout.strip() == onnxfn.__version__


def test_help_does_not_import_torch():
    code = """
import sys
from onnxfn.export.cli.commands import app
from onnxfn.export.cli.demo import minilm
app(["--help"], standalone_mode=False)
assert "torch" not in sys.modules
"""
    assert "demo" in printed("-c", code)


def test_a_flag_says_the_range_of_an_axis(checkpoint, tmp_path):
    """The check runs at sizes in the range, and the report keeps the range."""
    out = tmp_path / "out"
    succeed("export", checkpoint, out, "--shape", "sequence_length=3:9", "--shape", "batch_size=2")
    session = onnxruntime.InferenceSession(out / "onnx" / "model.onnx")
    assert {tuple(input_.shape) for input_ in session.get_inputs()} == {(2, "sequence_length")}
    report = (out / "report.json").read_text()
    sizes = {int(size) for size in re.findall(r"sequence_length=(\d+)", report)}
    assert sizes
    assert sizes <= {*range(3, 10)}
    assert "smallest and largest size" in " ".join(invoke("export", "--help").output.replace("│", " ").split())


def test_a_model_of_sentence_transformers_has_its_embedding_as_output(tmp_path):
    succeed("export", minilm(), tmp_path / "out", "--library", "sentence_transformers", "--no-check")
    assert (tmp_path / "out" / "tokenizer_config.json").is_file()
    file = str(tmp_path / "out" / "onnx" / "model.onnx")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["last_hidden_state", "sentence_embedding"]


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
@pytest.mark.parametrize("words", [("export", "."), ("demo",), ("verify",), ("cache", "--folder")], ids=" ".join)
def test_a_path_that_no_system_can_have_is_an_invalid_value(words, path):
    result = invoke(*words, path)
    assert result.exit_code == 2
    assert "Invalid value for " in result.output
    assert isinstance(result.exception, SystemExit)


def test_an_unknown_library_and_spec_flags_for_a_pipeline_are_errors(tmp_path):
    message = error_of("export", tmp_path, tmp_path / "out", "--library", "difusers")
    assert message.startswith("no library 'difusers'; known: transformers, diffusers, ")
    message = error_of("export", tmp_path, tmp_path / "out", "--library", "diffusers", "--opset", "20")
    assert message == "--opset is not for a whole pipeline; export the part by its own spec"


# Options that no other test of the command line is about

FAILING = [
    ("export", "no/model", "out", "--debug"),
    ("verify", "no/folder", "--debug"),
    ("inspect", "brt", "--debug"),
    ("push", "no/folder", "me/tiny", "--debug"),
    ("batch", "no/folder", "out", "--debug"),
    ("tasks", "brt", "--debug"),
    ("demo", ".", "--debug"),
    ("watch", "no/script", "out", "--modules", "a=b", "--run", "c", "--debug"),
    ("cache", "--clear", "--debug"),
]


@pytest.mark.parametrize("words", FAILING, ids=lambda words: words[0])
def test_debug_prints_the_traceback_of_an_error(words, monkeypatch):
    monkeypatch.setattr(cache_folder, "clear_cache", lambda _: 1 / 0)
    result = invoke(*words)
    assert result.exit_code == 1
    assert "Traceback (most recent call last):" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    without = invoke(*words[:-1])
    assert without.exit_code == 1
    assert "Traceback" not in without.stderr


@pytest.mark.parametrize(("flags", "is_private"), [((), False), (("--private",), True)])
def test_a_repository_is_private_on_request(flags, is_private, monkeypatch):
    module, repositories = push, []
    monkeypatch.setattr(module, "verified", lambda _: "verified")
    monkeypatch.setattr(module, "uploaded", lambda _, name, *, private: repositories.append((name, private)))
    succeed("push", "folder", "me/tiny", *flags)
    assert repositories == [("me/tiny", is_private)]


@pytest.mark.parametrize("word", ["--overwrite", "--force"])
def test_the_options_of_a_batch_are_those_of_its_jobs(word, tmp_path, monkeypatch):
    save_berts(tmp_path / "models", 1)
    batches = []
    monkeypatch.setattr(export_command, "export_many", lambda jobs, **_: batches.append(jobs) or onnxfn.BatchResult([]))
    flags = ("--dtype", "float16", "--check", "sections", word)
    succeed("batch", tmp_path / "models", tmp_path / "out", *flags)
    ((job,),) = batches
    assert (job.dtypes, job.check, job.overwrite) == (("float16",), "sections", True)


def test_the_demo_replaces_a_folder_on_request(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(demo, "demo", lambda *_, overwrite: calls.append(overwrite))
    (tmp_path / "mine.txt").write_text("")
    assert invoke("demo", tmp_path).exit_code == 1
    assert calls == []
    succeed("demo", tmp_path, "--overwrite")
    assert calls == [True]


def test_a_call_that_an_error_advises_is_written_as_options(monkeypatch, tmp_path):
    def run(*_, **__):
        raise onnxfn.CaptureFailed("use with_shapes(spec, width=8, length=(1, 64)), or export with check=False")

    monkeypatch.setattr(export_command, "run", run)
    expected = "use --shape width=8 --shape length=1:64, or export with --no-check"
    assert error_of("export", "org/model", tmp_path / "out") == expected
