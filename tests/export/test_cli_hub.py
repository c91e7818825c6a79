"""The command line and the hub: revisions, tokens, downloads, one step to a repository; and the machine."""

import json
import os
import subprocess
import sys

import pytest
import tiny
from command_line import error_of, invoke, succeed

import onnxfn
from onnxfn.export.cli import export_command
from onnxfn.export.jobs.options import GROUPS, OPTIONS
from onnxfn.export.report import doctor, push

COMMIT = "a" * 40
TOKEN = "hf_secretsecretsecret"


@pytest.fixture(scope="module")
def hub_cache(tmp_path_factory):
    """A cache of the hub in which org/tiny has the branch v1 alone."""
    cache = tmp_path_factory.mktemp("cache")
    repository = cache / "models--org--tiny"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "v1").write_text(COMMIT)
    return cache


def run_export(folder, *words):
    command = [sys.executable, "-m", "onnxfn", "export", "org/tiny", *map(str, words)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


def test_a_revision_of_the_hub_is_exported_to_a_folder_named_after_the_model_and_no_file_has_the_token(
    hub_cache, tmp_path
):
    result = run_export(tmp_path, "--cache-dir", hub_cache, "--revision", "v1", "--token", TOKEN)
    assert result.returncode == 0, result.stderr
    assert "no OUT: the files go to tiny" in result.stderr
    files = {path.relative_to(tmp_path / "tiny").as_posix(): path for path in (tmp_path / "tiny").rglob("*.*")}
    assert {"onnx/model.onnx", "report.json"} <= files.keys()
    assert not [name for name, path in files.items() if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert '"v1"' in files["report.json"].read_text()


def test_without_the_branch_there_is_no_such_model_and_the_error_has_no_token(hub_cache, tmp_path):
    result = run_export(tmp_path, "out", "--cache-dir", hub_cache, "--token", TOKEN, "--revision", TOKEN)
    assert result.returncode == 1
    assert "error: no folder and no model in the cache of the hub has the name 'org/tiny' at '***'" in result.stderr
    assert TOKEN not in result.stderr + result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_folder_has_no_revision(tmp_path):
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(tmp_path / "bert")
    assert "has no revision 'v1'" in error_of("export", tmp_path / "bert", tmp_path / "out", "--revision", "v1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("me/tiny", "--no-check"), "--push uploads a folder that was checked"),
        (("me/tiny", "--dry-run"), "--push uploads a folder that was checked"),
        (("me tiny",), "--push me tiny is no repository"),
        (("me/tiny",), "--push needs a token"),
    ],
)
def test_what_cannot_be_uploaded_is_refused_before_a_model_is_loaded(words, reason, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert reason in error_of("export", "org/none", tmp_path / "out", "--push", *words)


def test_a_checked_export_is_pushed(monkeypatch, tmp_path):
    steps = []
    monkeypatch.setattr("huggingface_hub.get_token", lambda: TOKEN)
    monkeypatch.setattr(export_command, "run", lambda request, *_, **__: steps.append(request.path))
    monkeypatch.setattr(push, "uploaded", lambda *arguments: steps.append(arguments) or "https://hub/commit")
    out = tmp_path / "out"
    assert "https://hub/commit" in succeed("export", "org/none", out, "--push", "me/tiny").stdout
    assert steps == [str(out), (out, "me/tiny")]


def test_the_help_has_ten_options_in_groups_and_the_other_help_all_of_them():
    shown, everything = (invoke("export", word).stdout for word in ("--help", "--help-all"))
    first = {option.flag for option in OPTIONS.values() if option.is_first}
    assert len(first) == 10
    assert all(f"─ {group} ─" in text for group in GROUPS for text in (shown, everything))
    named = [{option.flag for option in OPTIONS.values() if f" {option.flag}" in text} for text in (shown, everything)]
    assert named == [first, {option.flag for option in OPTIONS.values()}]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("onnxfn export --layout h", {"hub"}),
        ("onnxfn export --dtype q4f", {"q4f16"}),
        ("onnxfn export --task fill", {"fill-mask"}),
    ],
)
def test_a_shell_completes_values(words, offered):
    code = "import sys; sys.argv = ['onnxfn']; from onnxfn.__main__ import main; main()"
    shell = {"_ONNXFN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "3"}
    command, environment = [sys.executable, "-c", code], {**os.environ, **shell}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert set(result.stdout.split()) == offered


def test_the_help_imports_no_arrays_and_no_model_library():
    code = "import json, sys; import onnxfn.export.cli.commands; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert {"numpy", "torch", "transformers", "onnx", "pydantic", "huggingface_hub"} & set(modules) == set()


def test_doctor_says_versions_and_what_is_off(monkeypatch):
    findings = {row.name: row for row in onnxfn.doctor().rows}
    assert {"torch", "providers", "cores", "memory", "disk", "hub cache"} <= findings.keys()
    assert "tried up to" in findings["torch"].value
    monkeypatch.setattr(doctor, "NEEDED", ("no-such-package",))
    assert "no-such-package  not installed; pip install no-such-package" in invoke("doctor").stdout
    assert not onnxfn.doctor().passed
