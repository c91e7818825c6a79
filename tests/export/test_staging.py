"""Staging folders: those of killed processes are found and deleted, those of living processes stay."""

import json
import os

import onnx
import pytest
from exported_folders import content, staged, write, write_other, write_set
from reports import report_text

from onnxfn.export.publish import staging as staging_module
from onnxfn.export.publish.publishing import stale_files
from onnxfn.export.publish.staging import Destination, clean_up, is_locked, lock, locked, staging_folder
from onnxfn.export.report.report_file import REPORT_FILE
from onnxfn.weights.digests import sha256_of
from onnxfn.weights.journal import STAGING_PREFIX


def left_by_a_killed_process(parent, target, journal=None, files=()):
    root = parent / f"{STAGING_PREFIX}dead0000"
    staged(root / "files", "weights.data", *files)
    (root / "lock").write_text(target)
    if journal is not None:
        (root / "journal.json").write_text(json.dumps(journal))
    return root


@pytest.mark.parametrize(
    ("place", "target", "name"),
    [
        ("", "out", "out"),
        ("", "", "out"),
        ("", "deep/out", "deep/out"),
        ("out", ".", "out"),
        ("out", "out", "out"),
        ("out", ".", "out/model.onnx"),
        ("", ".", "model.onnx"),
    ],
)
def test_what_a_killed_export_to_the_same_destination_left_is_deleted(tmp_path, place, target, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    root = left_by_a_killed_process(tmp_path / place, target)
    with staging_folder(Destination(tmp_path / name)):
        assert not root.exists()
    assert content(tmp_path) == {}


@pytest.mark.parametrize("target", ["other", "deep/out", "ou"])
def test_what_a_killed_export_to_another_destination_left_stays(tmp_path, target):
    root = left_by_a_killed_process(tmp_path, target)
    with staging_folder(Destination(tmp_path / "out")):
        pass
    assert (root / "files" / "weights.data").is_file()


@pytest.mark.parametrize("exists", [False, True])
def test_the_staging_folder_of_a_living_export_stays(tmp_path, exists):
    out = Destination(tmp_path / "out")
    if exists:
        out.path.mkdir()
    with staging_folder(out) as first:
        staged(first, "model.onnx")
        with staging_folder(out) as second:
            assert first != second
        clean_up(out.path)
        assert content(first) == {"model.onnx": b"new"}
    assert content(tmp_path) == {}


def test_where_no_lock_can_be_taken_nothing_is_deleted(tmp_path, monkeypatch):
    root = left_by_a_killed_process(tmp_path, "out")
    monkeypatch.setattr(staging_module, "lock", lambda *_, **__: False)
    with staging_folder(Destination(tmp_path / "out")) as staging:
        staged(staging, "model.onnx")
    assert root.is_dir()


@pytest.mark.parametrize("entry", ["notes.txt", "files.bak/notes.txt", "sub/lock"])
def test_a_folder_of_another_program_stays_whatever_its_name_is(tmp_path, entry):
    root = tmp_path / f"{STAGING_PREFIX}settings"
    staged(root, entry)
    with staging_folder(Destination(tmp_path / "model.onnx")):
        pass
    assert set(content(root)) == {entry}


def test_a_link_is_not_a_staging_folder(tmp_path):
    staged(tmp_path / "mine", "files/notes.txt", "lock")
    (tmp_path / f"{STAGING_PREFIX}link").symlink_to("mine")
    with staging_folder(Destination(tmp_path / "model.onnx")):
        pass
    assert set(content(tmp_path / "mine")) == {"files/notes.txt", "lock"}


@pytest.mark.parametrize("name", ["../victim.txt", "{}/victim.txt", "sub/victim.txt", "a/../../victim.txt"])
def test_a_journal_never_moves_or_deletes_files_outside_the_folder(tmp_path, name):
    """A folder from elsewhere may hold a journal of anything, and links."""
    out, name = tmp_path / "out", name.format(tmp_path)
    out.mkdir()
    staged(tmp_path, "victim.txt")
    (out / "sub").symlink_to(tmp_path)
    for journal in ({"files": [], "stale": [name]}, {"files": [name], "stale": []}):
        left_by_a_killed_process(out, ".", journal)
        staged(out / f"{STAGING_PREFIX}dead0000" / "files", "sub/victim.txt", "victim.txt")
        (tmp_path / "victim.txt").write_text("mine")
        with staging_folder(Destination(out)):
            pass
        assert (tmp_path / "victim.txt").read_text() == "mine"
        assert [path.name for path in out.iterdir()] == ["sub"]


@pytest.mark.parametrize("journal", [[], {}, {"files": 1}, {"files": [], "stale": [1]}, {"more": 1}, "text"])
def test_a_broken_journal_is_not_followed(tmp_path, journal):
    left_by_a_killed_process(tmp_path, ".", journal)
    with staging_folder(Destination(tmp_path / "model.onnx")):
        pass
    assert content(tmp_path) == {}


def test_a_lock_is_free_when_its_file_is_closed(tmp_path):
    file = tmp_path / "lock"
    assert not is_locked(file)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    assert not is_locked(file)
    assert lock(descriptor, wait=False)
    assert is_locked(file)
    os.close(descriptor)
    assert not is_locked(file)


def test_a_folder_has_one_lock(tmp_path):
    with locked(tmp_path) as first, locked(tmp_path, wait=False) as second:
        assert (first, second) == (True, False)
    with locked(tmp_path / "missing") as third:
        assert not third


# Files of an earlier export that are not replaced are stale; files of other programs and checkpoints never are


def stale(folder, *published):
    paths = stale_files(Destination(folder), [folder / name for name in published])
    return [path.relative_to(folder).as_posix() for path in paths]


def test_onnx_files_of_onnxfn_in_the_folders_of_all_layouts_are_stale(tmp_path):
    write(tmp_path / "decoder_model.onnx", "decoder_model.onnx_data")
    write(tmp_path / "onnx" / "model.onnx", "model.data")
    write(tmp_path / "model.onnx")
    old = ["decoder_model.onnx", "decoder_model.onnx_data", "onnx/model.onnx", "onnx/model.data"]
    assert stale(tmp_path, "model.onnx") == old


def test_external_data_of_a_replaced_file_is_stale_whoever_wrote_the_file(tmp_path):
    write_other(tmp_path / "model.onnx", "weights.bin")
    (tmp_path / "weights.bin").write_text("weights")
    assert stale(tmp_path, "model.onnx") == ["weights.bin"]
    assert stale(tmp_path, "model.onnx", "weights.bin") == []


def test_files_of_other_programs_are_not_stale(tmp_path):
    write(tmp_path / "model.onnx", "model.onnx_data")
    write_other(tmp_path / "other.onnx", "other.data")
    write_other(tmp_path / "quantized.onnx", producer="onnxfn")  # saved by another program, which keeps the producer
    for name in ("notes.txt", "other.data", "model.py", "model.onnx.bak", "model.onnx_data.txt"):
        (tmp_path / name).write_text("mine")
    for name in ("broken.onnx", "empty.onnx"):
        (tmp_path / name).write_bytes(b"\x0fno protobuf" if name == "broken.onnx" else b"")
    assert stale(tmp_path, "model.onnx") == ["model.onnx_data"]


def test_data_of_a_checkpoint_outside_the_folder_or_of_another_file_is_never_stale(tmp_path):
    out = tmp_path / "out"
    write(out / "model.onnx", "model.safetensors")
    write(out / "decoder.onnx", "model-00001-of-00002.safetensors")
    write(out / "used.onnx", "used.onnx_data")
    write_other(out / "optimized.onnx", "used.onnx_data")
    write_other(out / "encoder.onnx", "../weights.bin")
    for name in ("pytorch_model.bin", "../weights.bin"):
        (out / name).write_text("mine")
    assert stale(out, "encoder.onnx", "model.onnx", "used.onnx") == ["decoder.onnx"]


def test_a_target_that_is_a_file_leaves_its_neighbours_alone(tmp_path):
    write(tmp_path / "a.onnx", "a.data")
    write(tmp_path / "b.onnx", "b.data")
    write(tmp_path / "onnx" / "c.onnx")
    assert stale_files(Destination(tmp_path / "a.onnx"), [tmp_path / "a.onnx"]) == (tmp_path / "a.data",)


def test_a_file_of_onnxfn_is_not_one_any_more_when_another_program_saves_it(tmp_path):
    write(tmp_path / "model.onnx")
    assert stale(tmp_path) == ["model.onnx"]
    onnx.save(onnx.load(tmp_path / "model.onnx"), tmp_path / "model.onnx")
    assert stale(tmp_path) == []


# Side files

SIDE_FILES = {
    "of an earlier export": (
        ["model.onnx", "config.json", "vocab.txt", "generation_config.json"],
        "merges.txt",
        ["model.onnx", "model.onnx_data", "config.json", REPORT_FILE],
        ["generation_config.json", "vocab.txt"],
    ),
    "one that was changed": (["vocab.txt", "vocab.json"], "vocab.txt", [], ["vocab.json", REPORT_FILE]),
    "those of a checkpoint": (["vocab.txt", "config.json"], "model-00001-of-00002.safetensors", [], [REPORT_FILE]),
    "files of other kinds": (["notes.txt", "train.py"], "merges.txt", [], [REPORT_FILE]),
}
"""The files of an export, a file that is then written, those of the next export, and those that are stale."""


@pytest.mark.parametrize(("names", "own", "published", "expected"), SIDE_FILES.values(), ids=SIDE_FILES)
def test_side_files_of_an_earlier_export_are_stale_as_they_were_written(tmp_path, names, own, published, expected):
    files = [file.name for file in write_set(tmp_path, names, 0)]
    facts = {name: {"bytes": 1, "sha256": sha256_of(tmp_path / name)} for name in files}
    (tmp_path / REPORT_FILE).write_text(report_text(files=facts))
    (tmp_path / own).write_text("mine")
    assert stale(tmp_path, *published) == expected


@pytest.mark.parametrize("files", [[], 1, {"vocab.txt": 1}, {"vocab.txt": {}}, {"vocab.txt": [1]}, {"../victim": {}}])
def test_a_report_with_other_fields_makes_no_file_stale(tmp_path, files):
    (tmp_path / "vocab.txt").write_text("mine")
    (tmp_path / REPORT_FILE).write_text(report_text(files=files))
    assert stale(tmp_path) == [REPORT_FILE]
