"""Staging folders: those of killed processes are found and deleted, those of living processes stay."""

import json
import os

import pytest
from exported_folders import content, staged

from onnxfn.export.publish import staging as staging_module
from onnxfn.export.publish.staging import Destination, clean_up, is_locked, lock, locked, staging_folder
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
