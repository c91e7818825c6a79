"""Publishing: all files of an export appear or none, and what they leave without use is deleted."""

import errno
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import exported_folders
import pytest
from exported_folders import content, staged, write, write_set
from own_processes import printed
from refusals import refusal

from onnxfn.export.publish import exchange, publishing
from onnxfn.export.publish.publishing import publish
from onnxfn.export.publish.staging import Destination, check_destination, staging_folder
from onnxfn.specs.errors import OutputExists
from onnxfn.weights.journal import STAGING_PREFIX

IMPORTS = f"""
import sys
sys.path.insert(0, {str(Path(exported_folders.__file__).parent)!r})
from pathlib import Path
from exported_folders import content, write_set
from onnxfn.export.publish.publishing import publish
from onnxfn.export.publish.staging import Destination, staging_folder
"""
"""The first lines of programs that publish a file."""


def published(names, folder, parts=(), *, overwrite=True):
    destination = Destination(folder)
    with staging_folder(destination) as staging:
        files = staged(staging, *names)
        return publish(files, staging, destination, overwrite=overwrite, parts=[Destination(folder / p) for p in parts])


@pytest.fixture(params=["exchanged", "moved"])
def way(request, monkeypatch):
    """The two ways to publish over an earlier export: the second where the system cannot exchange folders."""
    if request.param == "moved":
        monkeypatch.setattr(exchange, "swap", Mock(side_effect=OSError(errno.EINVAL, os.strerror(errno.EINVAL))))
    return request.param


def test_a_new_folder_appears_by_one_rename_with_the_usual_permissions(tmp_path):
    out = tmp_path / "deep" / "out"
    with staging_folder(Destination(out)) as staging:
        files = staged(staging, "model.onnx", "onnx/model.onnx")
        (staging / "left.data").write_text("not published")
        inode = staging.stat().st_ino
        published = publish(files, staging, Destination(out), overwrite=False)
    assert published == (out / "model.onnx", out / "onnx" / "model.onnx")
    assert out.stat().st_ino == inode
    (tmp_path / "plain").mkdir()
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    assert set(content(tmp_path)) == {"deep/out/model.onnx", "deep/out/onnx/model.onnx"}


@pytest.mark.usefixtures("way")
def test_files_are_added_to_a_folder_that_exists(tmp_path):
    out = tmp_path / "out"
    (out / "empty").mkdir(parents=True)
    (out / "notes.txt").write_text("mine")
    (out / "link").symlink_to("missing")
    (out / "sub").mkdir(mode=0o700)
    (out / "sub" / "more.txt").write_text("mine")
    inode = (out / "notes.txt").stat().st_ino
    published(["model.onnx", "sub/model.onnx"], out)
    new = {"model.onnx": b"new", "sub/model.onnx": b"new"}
    assert content(out) == {"notes.txt": b"mine", "sub/more.txt": b"mine", **new}
    assert (out / "notes.txt").stat().st_ino == inode
    assert (out / "link").readlink() == Path("missing")
    assert (out / "empty").is_dir()
    assert stat.S_IMODE((out / "sub").stat().st_mode) == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_is_exchanged_in_one_step_and_has_its_old_mode(tmp_path, way):
    out = tmp_path / "out"
    write(out / "model.onnx")
    out.chmod(0o750)
    inode = out.stat().st_ino
    published(["model.onnx"], out)
    assert (out.stat().st_ino != inode) == (way == "exchanged")
    assert stat.S_IMODE(out.stat().st_mode) == 0o750
    assert content(tmp_path) == {"out/model.onnx": b"new"}


def test_a_file_that_another_program_writes_during_the_exchange_stays(tmp_path, monkeypatch):
    out, swap = tmp_path / "out", exchange.swap
    write(out / "model.onnx")
    (out / "notes.txt").write_text("mine")

    def write_and_swap(first, second):
        (second / "late").mkdir()
        (second / "late" / "file.txt").write_text("mine")
        (second / "notes.new").write_text("changed")
        (second / "notes.new").replace(second / "notes.txt")
        swap(first, second)

    monkeypatch.setattr(exchange, "swap", write_and_swap)
    published(["model.onnx"], out)
    assert content(out) == {"model.onnx": b"new", "late/file.txt": b"mine", "notes.txt": b"changed"}


@pytest.mark.parametrize("entries", [2, 3])
def test_a_folder_of_very_many_files_is_not_exchanged(tmp_path, monkeypatch, entries):
    monkeypatch.setattr(exchange, "MAX_ENTRIES", 2)
    out = tmp_path / "out"
    staged(out, *(f"{number}.txt" for number in range(entries)))
    inode = out.stat().st_ino
    published(["model.onnx"], out)
    assert (out.stat().st_ino == inode) == (entries == 3)
    assert len(content(tmp_path)) == entries + 1


def test_the_current_folder_is_not_exchanged(tmp_path, monkeypatch):
    """A shell in it would stay in the old folder, which is deleted."""
    write(tmp_path / "out" / "model.onnx")
    monkeypatch.chdir(tmp_path / "out")
    published(["model.onnx"], Path())
    assert content(Path.cwd()) == {"model.onnx": b"new"}
    assert content(tmp_path) == {"out/model.onnx": b"new"}


@pytest.mark.parametrize("fails_at", range(1, 9))
def test_an_error_while_files_are_moved_restores_every_file(tmp_path, monkeypatch, fails_at):
    out = tmp_path / "out"
    write(out / "unet" / "model.onnx", "model.onnx_data")
    write(out / "vae" / "model.onnx")
    (out / "model_index.json").write_text("old")
    before = content(tmp_path)
    replace, calls = Path.replace, []

    def failing(path, destination):
        calls.append(path)
        if len(calls) == fails_at:
            raise OSError("disk full")
        return replace(path, destination)

    monkeypatch.setattr(publishing, "exchange_folder", lambda *_: False)
    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="disk full"):
        published(["unet/model.onnx", "new/model.onnx", "model_index.json"], out, ["unet", "vae", "new"])
    assert content(tmp_path) == before
    assert not (out / "new").exists()


@pytest.mark.usefixtures("way")
def test_publishing_over_an_earlier_export_replaces_all_of_it(tmp_path):
    write(tmp_path / "out" / "unet" / "model.onnx", "model.onnx_data")
    write(tmp_path / "out" / "vae" / "model.onnx")
    published(["unet/model.onnx"], tmp_path / "out", ["unet", "vae"])
    assert content(tmp_path) == {"out/unet/model.onnx": b"new"}
    assert not (tmp_path / "out" / "vae").exists()


def test_a_folder_with_the_name_of_a_file_of_the_export_is_not_replaced(tmp_path, way):
    mine = tmp_path / "out" / "model.onnx" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    assert "move the folder away" in refusal(OutputExists, published, ["model.onnx", "config.json"], tmp_path / "out")
    assert mine.read_text() == "mine"
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["model.onnx"]


def test_old_graphs_leave_first_then_new_files_appear_external_data_first(tmp_path, monkeypatch):
    out, moved, replace = tmp_path / "out", [], Path.replace
    write_set(out, ["config.json", "a.onnx"], 2)

    def noting(path, target):
        moved.append(Path(target if Path(target).suffix else path).name)
        return replace(path, target)

    monkeypatch.setattr(publishing, "exchange_folder", lambda *_: False)
    with staging_folder(Destination(out)) as staging:
        files = write_set(staging, ["config.json", "b.onnx", "a.onnx"], 1)
        monkeypatch.setattr(Path, "replace", noting)
        publish(files, staging, Destination(out), overwrite=True)
    old = ["a.onnx", "a.onnx_data", "config.json"]
    assert moved == ["journal.json", *old, "b.onnx_data", "a.onnx_data", "b.onnx", "a.onnx", "config.json"]


# Two processes


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("name", ["out", "model.onnx"])
def test_the_second_of_two_exports_to_a_fresh_destination_is_refused(tmp_path, name, existing):
    folder = tmp_path / "folder"
    if existing:
        (folder / ("out" if name == "out" else "")).mkdir(parents=True)
    destination = Destination(folder / name)
    with staging_folder(destination) as first, staging_folder(destination) as second:
        files = [staged(staging, "model.onnx") for staging in (first, second)]
        publish(files[1], second, destination, overwrite=False)
        before = content(destination.folder)
        message = refusal(OutputExists, publish, files[0], first, destination, overwrite=False)
        assert message.startswith(f"{destination.path} exists")
        assert content(destination.folder) == before
    assert content(tmp_path).keys() == {f"folder/{'out/' if name == 'out' else ''}model.onnx"}


@pytest.mark.parametrize(("way", "codes"), [("fresh", [0, 3]), ("empty", [0, 3]), ("file", [0, 3]), ("over", [0, 0])])
def test_of_two_processes_that_publish_at_a_time_each_is_whole(tmp_path, way, codes):
    program = Path(exported_folders.__file__).with_name("paired_exports.py")
    assert json.loads(printed(program, tmp_path / "pair", way, "10")) == [[codes, True]] * 10


@pytest.mark.usefixtures("way")
def test_two_exports_at_a_time_over_an_earlier_one_are_both_whole(tmp_path):
    out = tmp_path / "out"
    write_set(out, ["a.onnx", "b.onnx"], 0)
    with staging_folder(Destination(out)) as first, staging_folder(Destination(out)) as second:
        publish(write_set(first, ["a.onnx"], 1), first, Destination(out), overwrite=True)
        now = {name: data for name, data in content(out).items() if not name.startswith(STAGING_PREFIX)}
        assert now == content_of_set(tmp_path / "expected1", ["a.onnx"], 1)
        publish(write_set(second, ["b.onnx"], 2), second, Destination(out), overwrite=True)
    assert content(out) == content_of_set(tmp_path / "expected2", ["b.onnx"], 2)


def content_of_set(folder, names, number):
    write_set(folder, names, number)
    return content(folder)


# Destinations that are not plain folders


def test_a_link_to_a_folder_stays_a_link(tmp_path, way):
    (tmp_path / "real").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "out").symlink_to(tmp_path / "real")
    for _ in range(2):
        (file,) = published(["model.onnx"], tmp_path / "elsewhere" / "out")
    assert file == tmp_path / "elsewhere" / "out" / "model.onnx"
    assert (tmp_path / "elsewhere" / "out").is_symlink()
    assert content(tmp_path / "real") == {"model.onnx": b"new"}, way
    paths = (*tmp_path.iterdir(), *(tmp_path / "elsewhere").iterdir())
    assert {path.name for path in paths} == {"real", "elsewhere", "out"}


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a second file system: /dev/shm")
def test_a_link_to_another_file_system_works(tmp_path):
    with TemporaryDirectory(dir="/dev/shm") as folder:
        if os.stat(folder).st_dev == tmp_path.stat().st_dev:
            pytest.skip("/dev/shm is on the file system of the tests")
        (tmp_path / "out").symlink_to(folder)
        for names in (["a.onnx"], ["b.onnx"]):
            published(names, tmp_path / "out")
            assert names[0] in content(Path(folder))
            assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("path", ["", "model.onnx", "below/out"])
def test_a_mount_point_works(tmp_path, path):
    """A process with file systems of its own mounts an empty one at `vol`."""
    volume = tmp_path / "vol"
    volume.mkdir()
    program = f"""{IMPORTS}
destination = Destination(Path({str(volume / path)!r}))
for number in (1, 2):
    with staging_folder(destination) as staging:
        publish(write_set(staging, ["model.onnx"], number), staging, destination, overwrite=number == 2)
print(sorted(content(Path({str(volume)!r}))), [path.name for path in Path({str(tmp_path)!r}).iterdir()])
"""
    command = f"mount -t tmpfs none {volume} && exec {sys.executable} -c '{shlex.quote(program)[1:-1]}'"
    mount = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", volume]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this system lets no user mount a file system in a namespace")
    finished = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True, check=True)
    parent = f"{path}/" if path and not path.endswith(".onnx") else ""
    assert finished.stdout.strip() == f"{[f'{parent}model.onnx', f'{parent}model.onnx_data']} ['vol']"


def test_a_folder_that_cannot_be_reached_from_its_parent_works(tmp_path, monkeypatch):
    """As a mount point is, and a folder of one's own in a parent that is not writable."""
    out, rename = tmp_path / "out", Path.rename
    out.mkdir()

    def rename_inside(path, target):
        if Path(path).is_relative_to(out) != Path(target).is_relative_to(out):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_inside)
    for names in (["a.onnx"], ["b.onnx"]):
        assert published(names, out) == (out / names[0],)
    assert content(tmp_path) == {"out/a.onnx": b"new", "out/b.onnx": b"new"}


PROGRAM = f"""{IMPORTS}
destination = Destination(Path(sys.argv[1]))
try:
    with staging_folder(destination) as staging:
        print("staged")
        publish(write_set(staging, ["model.onnx"], 1), staging, destination, overwrite=True)
except OSError as error:
    print(type(error).__name__)
"""
"""Publishes a file. Root is allowed everything, so it runs without root's capabilities."""


def without_capabilities(path):
    prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
    command = [*prefix, sys.executable, "-c", PROGRAM, path]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_a_folder_in_a_parent_that_is_not_writable_works(tmp_path):
    out = tmp_path / "parent" / "out"
    out.mkdir(parents=True)
    out.parent.chmod(0o500)
    try:
        for path in (out, out, out / "deep", out / "deep" / "single.onnx"):
            assert without_capabilities(path) == ["staged"]
    finally:
        out.parent.chmod(0o700)
    names = {name for name in content(tmp_path) if name.endswith(".onnx")}
    assert names == {"parent/out/model.onnx", "parent/out/deep/model.onnx"}


@pytest.mark.parametrize("name", ["out", "out/model.onnx", "out/new"])
def test_a_folder_that_is_not_writable_is_refused_before_the_model_is_exported(tmp_path, name):
    write(tmp_path / "out" / "old.onnx")
    before = content(tmp_path)
    (tmp_path / "out").chmod(0o500)
    try:
        assert without_capabilities(tmp_path / name) == ["PermissionError"]
    finally:
        (tmp_path / "out").chmod(0o700)
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "x" * 240 + ".onnx", "a b 'c' \"d\""])
def test_long_and_odd_names_work(tmp_path, name):
    for _ in range(2):
        published([name if name.endswith(".onnx") else "model.onnx"], tmp_path / name)
    assert len(content(tmp_path)) == 1


# What an export never replaces is refused in one line, before the model is read


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("link link.onnx", "is a link to missing, which does not exist; create that, or choose another path"),
        ("file/out file/deep/out file/model.onnx", "is below {}/file, which is not a folder; choose another path"),
        ("link/out", "is below {}/link, which is not a folder; choose another path"),
        ("folder.onnx", "is a folder and ends in .onnx; name a file in it, or another folder"),
    ],
)
def test_what_is_no_place_for_an_export_is_refused(tmp_path, names, reason):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder.onnx").mkdir()
    for link in ("link", "link.onnx"):
        (tmp_path / link).symlink_to("missing")
    for name in names.split():
        message = refusal(OutputExists, check_destination, tmp_path / name, overwrite=True)
        assert message == f"{tmp_path / name} {reason.format(tmp_path)}"


def test_a_folder_with_staging_folders_alone_is_empty(tmp_path):
    staged(tmp_path, f"{STAGING_PREFIX}0123/files/model.onnx")
    check_destination(tmp_path, overwrite=False)
    staged(tmp_path, "model.onnx")
    refusal(OutputExists, check_destination, tmp_path, overwrite=False)
    check_destination(tmp_path, overwrite=True)
