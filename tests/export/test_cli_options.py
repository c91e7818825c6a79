"""Options that no other test of the command line is about: what each of them does."""

import onnxruntime
import pytest
import tiny
from command_line import exported_checkpoint, invoke, succeed
from fine_tunes import save_berts

from onnxfn import BatchResult
from onnxfn.export.cli import demo
from onnxfn.export.cli import export_command as cli_batch
from onnxfn.export.report import push
from onnxfn.graphs.templates import template_cache as cache_folder

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


def test_inputs_embeds_takes_embeddings_and_a_check_may_be_whole(tmp_path):
    result = exported_checkpoint(
        tiny.model("llama", "AutoModelForCausalLM"), tmp_path, "--inputs-embeds", "--check", "whole"
    )
    assert "check passed" in result.stdout
    session = onnxruntime.InferenceSession(tmp_path / "out" / "onnx" / "model.onnx")
    names = [port.name for port in session.get_inputs()]
    assert "inputs_embeds" in names
    assert "input_ids" not in names
    assert (tmp_path / "out" / "onnx" / "embed_tokens.onnx").is_file()


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
    monkeypatch.setattr(cli_batch, "export_many", lambda jobs, **_: batches.append(jobs) or BatchResult([]))
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
