"""The cache folder: files appear whole or not at all, and the least recently used go first when it is too large."""

import os
import resource
import stat
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.graphs.templates import template_cache

NAMES = [f"{digit * 64}.template" for digit in "0123456789"]
SIZE = template_cache.DIGEST_LENGTH + 10
"""Size of a file with ten bytes of content."""


@contextmanager
def largest_file(size):
    """A stand-in for a full disk: writing more than `size` bytes to a file fails with an OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def write(folder, count, size=10):
    for second, name in enumerate(NAMES[:count], start=1):
        template_cache.write_file(folder / name, bytes(size))
        os.utime(folder / name, (second, second))


def test_a_full_disk_is_no_error_and_leaves_the_earlier_file_as_it_was(tmp_path):
    template_cache.write_file(tmp_path / NAMES[0], b"earlier")
    with largest_file(1000):
        template_cache.write_file(tmp_path / NAMES[0], bytes(2000))
        template_cache.write_file(tmp_path / NAMES[1], bytes(2000))
    assert template_cache.read_file(tmp_path / NAMES[0]) == b"earlier"
    assert files(tmp_path) == [NAMES[0]]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "cache").write_text("a file")
    template_cache.write_file(tmp_path / "cache" / NAMES[0], b"graph")
    assert (tmp_path / "cache").read_text() == "a file"


@pytest.mark.parametrize(("read", "left"), [((), (2, 3, 9)), ((0,), (0, 3, 9))])
def test_the_files_that_were_not_written_or_read_for_longest_are_deleted_when_there_are_too_many_bytes(
    read, left, tmp_path
):
    write(tmp_path, 4)
    for number in read:
        template_cache.read_file(tmp_path / NAMES[number])
    template_cache.write_file(tmp_path / NAMES[9], bytes(10), max_bytes=3 * SIZE)
    assert files(tmp_path) == [NAMES[number] for number in left]


def test_files_that_onnxfn_did_not_write_are_neither_counted_nor_deleted(tmp_path):
    for name in ("model.onnx", "config.json", f"{'0' * 63}.onnx", f"{'0' * 64}.safetensors", f"{'0' * 64}.partial"):
        (tmp_path / name).write_bytes(bytes(1000))
    before = files(tmp_path)
    template_cache.write_file(tmp_path / NAMES[0], bytes(10), max_bytes=SIZE)
    assert [entry.path.name for entry in template_cache.cache_entries(tmp_path)] == [NAMES[0]]
    template_cache.clear_cache(tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize("suffix", ["template", "template.a1b2c3.partial"])
def test_files_of_every_kind_count(suffix, tmp_path):
    old = tmp_path / f"{'a' * 64}.{suffix}"
    template_cache.write_file(old, bytes(10))
    os.utime(old, (0, 0))
    template_cache.write_file(tmp_path / NAMES[0], bytes(10), max_bytes=SIZE)
    assert files(tmp_path) == [NAMES[0]]


# Which files are read


@given(st.binary(min_size=1, max_size=50), st.data())
def test_a_file_with_one_changed_bit_is_deleted(content, data):
    with TemporaryDirectory() as folder:
        file = Path(folder) / NAMES[0]
        template_cache.write_file(file, content)
        damaged = bytearray(file.read_bytes())
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        file.write_bytes(damaged)
        assert template_cache.read_file(file) is None
        assert not file.exists()


def test_a_file_that_was_cut_or_has_the_name_of_another_is_deleted(tmp_path):
    for name in NAMES[:2]:
        template_cache.write_file(tmp_path / name, b"graph")
    (tmp_path / NAMES[0]).write_bytes((tmp_path / NAMES[0]).read_bytes()[:-1])
    (tmp_path / NAMES[1]).rename(tmp_path / NAMES[2])
    assert [template_cache.read_file(tmp_path / name) for name in NAMES[:3]] == [None, None, None]
    assert files(tmp_path) == []


posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="only POSIX has owners and modes of files")


@posix
def test_only_the_user_can_read_and_write_the_cache(tmp_path):
    template_cache.write_file(tmp_path / "cache" / NAMES[0], b"graph")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache", tmp_path / "cache" / NAMES[0])]
    assert modes == [0o700, 0o600]


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_another_user_may_write_is_not_read_and_stays(mode, tmp_path):
    template_cache.write_file(tmp_path / NAMES[0], b"graph")
    (tmp_path / NAMES[0]).chmod(mode)
    assert template_cache.read_file(tmp_path / NAMES[0]) is None
    assert files(tmp_path) == [NAMES[0]]
    template_cache.write_file(tmp_path / NAMES[0], b"graph of this user")
    assert template_cache.read_file(tmp_path / NAMES[0]) == b"graph of this user"


@posix
def test_a_file_of_another_user_is_not_read_and_stays(tmp_path, monkeypatch):
    template_cache.write_file(tmp_path / NAMES[0], b"graph")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert template_cache.read_file(tmp_path / NAMES[0]) is None
    assert files(tmp_path) == [NAMES[0]]


@posix
def test_a_link_and_a_pipe_are_not_read(tmp_path):
    template_cache.write_file(tmp_path / NAMES[0], b"graph")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / NAMES[0]).symlink_to(tmp_path / NAMES[0])
    os.mkfifo(tmp_path / NAMES[1])
    assert [template_cache.read_file(tmp_path / name) for name in (f"links/{NAMES[0]}", NAMES[1])] == [None, None]


def test_entries_tell_size_and_time_and_the_most_recently_used_is_first(tmp_path):
    write(tmp_path, 2)
    assert template_cache.cache_entries(tmp_path) == (
        template_cache.CacheEntry(tmp_path / NAMES[1], SIZE, 2.0),
        template_cache.CacheEntry(tmp_path / NAMES[0], SIZE, 1.0),
    )


def test_a_folder_that_does_not_exist_is_empty(tmp_path):
    assert template_cache.cache_entries(tmp_path / "none") == template_cache.clear_cache(tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()


entries = st.lists(
    st.builds(
        template_cache.CacheEntry, st.uuids().map(lambda name: Path(str(name))), st.integers(0, 20), st.floats(0, 9)
    ),
    unique_by=lambda entry: entry.path,
)


@given(entries, st.integers(0, 99))
def test_no_more_is_deleted_than_must_be_and_what_remains_was_used_later(entries, max_bytes):
    deleted = template_cache.beyond_limit(entries, max_bytes)
    remaining = [entry for entry in entries if entry not in deleted]
    assert sum(entry.size for entry in remaining) <= max_bytes
    assert all(old.used <= new.used for old in deleted for new in remaining)
    if deleted:
        newest = max(deleted, key=lambda entry: (entry.used, entry.path))
        assert sum(entry.size for entry in remaining) + newest.size > max_bytes
