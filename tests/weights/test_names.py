"""Names from files of anybody: what leads out of a folder, also by a link, is not opened, and no named pipe is."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

import onnxfn
from onnxfn.weights.checkpoint_files import ALL_FILES, checkpoint_files
from onnxfn.weights.journal import JOURNAL_FILE, STAGED_FILES, read_journal
from onnxfn.weights.names import file_fault, is_inside, name_fault, read_regular
from onnxfn.weights.write import OTHER_SUFFIXES

OUTSIDE = "is outside its folder"
LINK = "is a link out of its folder"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").write_text("{}")
    return tmp_path / "own"


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "a/../../b", "..\\secret", "C:x", "", ".", "a\0b", "\ud800", 3]
)
def test_a_name_that_leads_out_is_none_of_the_folder(name, folder):
    assert not is_inside(name)
    assert name_fault(name, folder) == OUTSIDE


@pytest.mark.parametrize("name", ["file", "missing", "a/b/c", "inner", "...", "a..b"])
def test_a_name_inside_and_a_missing_file_have_no_fault(name, folder):
    (folder / "inner").symlink_to("file")
    assert name_fault(name, folder) is None


@pytest.mark.parametrize(
    ("name", "target"), [("link", "../secret"), ("folder", ".."), ("self", "self"), ("no", "../no")]
)
def test_a_link_out_of_the_folder_has_a_fault_and_one_to_itself_has_none(name, target, folder):
    (folder / name).symlink_to(target)
    assert name_fault(name, folder) == (None if name == "self" else LINK)
    assert name_fault(f"{name}/secret", folder) == (None if name == "self" else LINK)


def test_a_name_that_no_file_can_have_has_a_fault(folder):
    assert name_fault("a" * 5000, folder) == "has too long a name"


def test_a_named_pipe_is_not_opened(folder):
    os.mkfifo(folder / "pipe")
    assert file_fault(folder / "pipe", folder) == "is not a regular file"
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(folder / "pipe")
    assert read_regular(folder / "file") == b"{}"


def test_a_folder_that_is_a_link_itself_is_that_of_its_files(folder, tmp_path):
    (tmp_path / "link").symlink_to("own")
    assert name_fault("file", tmp_path / "link") is None


def test_a_snapshot_of_the_hub_has_the_blobs_of_its_own_repository_alone(tmp_path):
    cache = tmp_path / "hub"
    for name in ("models--a--b", "models--me--private"):
        (cache / name / "blobs").mkdir(parents=True)
        (cache / name / "blobs" / "0123").write_text(name)
    snapshot = cache / "models--a--b" / "snapshots" / "main"
    (snapshot / "onnx").mkdir(parents=True)
    (snapshot / "onnx" / "model.onnx").symlink_to("../../../blobs/0123")
    (snapshot / "other").symlink_to("../../../models--me--private/blobs/0123")
    (snapshot / "refs").symlink_to("../../refs")
    (cache / "blobs" / "ab").mkdir(parents=True)
    (cache / "blobs" / "ab" / "abcd").write_text("shared")
    (cache / "models--a--b" / "blobs" / "4567").symlink_to("../../blobs/ab/abcd")
    (snapshot / "shared").symlink_to("../../blobs/4567")
    assert name_fault("onnx/model.onnx", snapshot) is None
    assert name_fault("shared", snapshot) is None
    assert name_fault("model.onnx", snapshot / "onnx") is None
    assert name_fault("other", snapshot) == LINK
    assert name_fault("refs", snapshot) == LINK


# The files of a checkpoint


def test_the_files_of_a_checkpoint_are_those_that_libraries_read(folder):
    for name in ("config.json", "notes.md", "1_Pooling/config.json", "more/a.safetensors", "2_Dense/model.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "more/a.safetensors", "b": "absent"}}')
    names = [file.relative_to(folder).as_posix() for file in checkpoint_files(folder)]
    assert names == ["1_Pooling/config.json", "config.json", "model.safetensors.index.json", "more/a.safetensors"]
    everything = {file.relative_to(folder).as_posix() for file in checkpoint_files(folder, ALL_FILES)}
    assert {"notes.md", "2_Dense/model.safetensors"} <= everything


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors.index.json", {"weight_map": {"a": "../secret"}}),
        ("pytorch_model.bin.index.json", {"weight_map": {"a": "../secret"}}),
        ("tokenizer_config.json", {"fast_tokenizer_files": ["tokenizer.json", "../secret"]}),
        ("modules.json", [{"path": ""}, {"path": "../secret"}]),
        ("model_index.json", {"../secret": ["diffusers", "UNet2DConditionModel"]}),
    ],
)
def test_a_file_that_names_a_file_outside_is_named(file, content, folder):
    (folder / file).write_text(json.dumps(content))
    message = refusal(onnxfn.LoadFailed, checkpoint_files, folder)
    assert message == f"{folder} cannot be loaded: '{file}' names '../secret', which {OUTSIDE}"


@pytest.mark.parametrize("text", ["", "[", "[1]", "3", '{"weight_map": 3}', '{"weight_map": [1]}', "[" * 100_000])
@pytest.mark.parametrize("file", ["model.safetensors.index.json", "modules.json", "model_index.json"])
def test_a_damaged_file_names_none(file, text, folder):
    (folder / file).write_text(text)
    assert checkpoint_files(folder) == (folder / file,)


def test_a_folder_that_leads_out_is_refused_where_subfolders_are_read(folder):
    (folder / "unet").symlink_to("..")
    assert checkpoint_files(folder) == ()
    assert "'unet' is a link out of its folder" in refusal(onnxfn.LoadFailed, checkpoint_files, folder, ALL_FILES)


# The journal of a killed export


@pytest.mark.parametrize("target", [STAGED_FILES, f"{STAGED_FILES}/sub", f"{STAGED_FILES}/sub/secret"])
def test_a_journal_whose_files_lie_elsewhere_is_none(target, tmp_path):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (elsewhere / "sub").mkdir(parents=True)
    (elsewhere / "sub" / "secret").write_text("secret")
    root.mkdir()
    (root / JOURNAL_FILE).write_text(json.dumps({"files": ["sub/secret"], "stale": []}))
    assert read_journal(root) is not None
    (root / target).parent.mkdir(parents=True, exist_ok=True)
    (root / target).symlink_to(elsewhere / target.removeprefix(STAGED_FILES).lstrip("/"))
    assert read_journal(root) is None


def test_a_journal_that_is_a_named_pipe_is_none(tmp_path):
    os.mkfifo(tmp_path / JOURNAL_FILE)
    assert read_journal(tmp_path) is None


# The suffix of external data


def options(suffix):
    return onnxfn.WriteOptions(external_data_suffix=suffix)


@pytest.mark.parametrize("suffix", ["", "/x", "a/b", "/../../victim.txt", "..", "x..data", "\\x", "\0", "a\nb"])
def test_a_suffix_that_is_not_the_end_of_a_file_name_is_refused(suffix):
    message = refusal(onnxfn.InvalidSpec, options, suffix)
    assert message == f"external_data_suffix {suffix!r} is not the end of a file name, such as '.onnx_data'"


@pytest.mark.parametrize("suffix", [*OTHER_SUFFIXES, "x.onnx", ".SAFETENSORS", "-00001-of-00002.safetensors"])
def test_the_suffix_of_graphs_and_of_checkpoints_is_refused(suffix):
    message = refusal(onnxfn.InvalidSpec, options, suffix)
    assert message.startswith(f"external_data_suffix {suffix!r} is that of files of another kind: .onnx, .safetensors")


@given(st.text())
def test_no_suffix_leads_out_of_a_folder(tmp_path_factory, suffix):
    """A refusal is of one line; any other suffix makes a name in the folder."""
    folder = tmp_path_factory.getbasetemp()
    try:
        options(suffix)
    except onnxfn.InvalidSpec as error:
        message = str(error)
    else:
        message = ""
        assert (folder / f"model{suffix}").parent == folder
        assert (folder / f"model{suffix}").name == f"model{suffix}"
    assert len(message.splitlines()) <= 1
