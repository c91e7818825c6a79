"""Every error of the operating system is one line with exit code 1, and nothing is left."""

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import frozen
from command_line import invoke, succeed

import onnxfn

CAPABILITY_VERSION = 0x20080522
IGNORES_PERMISSIONS = 0b110
"""The bits of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH in a set of capabilities."""


@frozen
class Fault:
    """A situation that makes an export impossible: how it is prepared, a part of the error, the flags."""

    prepare: object
    message: str
    flags: tuple[str, ...] = ()
    unprivileged: bool = False


@contextmanager
def privileges(*, dropped):
    """Makes permissions hold for root, too, if `dropped`: this thread gives up the capability to ignore them."""
    if not dropped or os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    effective = sets[0]
    sets[0] = effective & ~IGNORES_PERMISSIONS
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = effective
        assert libc.capset(header, sets) == 0


def file(path, mode=0o644):
    path.write_text("a file")
    path.chmod(mode)
    return path


def folder(path, mode=0o755):
    path.mkdir(parents=True)
    path.chmod(mode)
    return path


def linked(path, target):
    path.symlink_to(target)
    return path


def with_mode(top, mode, name=""):
    """Changes the mode of the folder of the checkpoint, or of a file in it."""
    (top / "checkpoint" / name).chmod(mode)
    return top / "out"


def gone_folder(top):
    os.chdir(folder(top / "current"))
    (top / "current").rmdir()
    return "out"


def device(top):
    os.mkfifo(top / "out")
    return top / "out"


def denied(prepare, message="permission denied", flags=()):
    return Fault(prepare, message, flags, unprivileged=True)


UNREAD = "cannot be read: permission denied"
FAULTS = {
    "a long name": Fault(lambda top: top / ("o" * 300), "file name too long"),
    "a long name of a file": Fault(lambda top: top / ("o" * 300 + ".onnx"), "file name too long"),
    "a long path": Fault(lambda top: top / "/".join(["out"] * 1500), "file name too long"),
    "below a file": Fault(lambda top: file(top / "mine") / "out", "which is not a folder"),
    "far below a file": Fault(
        lambda top: file(top / "mine") / "a" / "b" / "out", "which is not a folder; choose another path"
    ),
    "a file below a file": Fault(
        lambda top: file(top / "mine") / "out.onnx", "which is not a folder; choose another path"
    ),
    "a file": Fault(lambda top: file(top / "out"), "is a file and does not end in .onnx"),
    "a pipe": Fault(device, "is a file and does not end in .onnx"),
    "a dangling link": Fault(
        lambda top: linked(top / "out", "nowhere/here"), "is a link to nowhere/here, which does not exist"
    ),
    "a link to itself": Fault(lambda top: linked(top / "out", "out"), "is a link to out, which does not exist"),
    "below a link to itself": Fault(lambda top: linked(top / "mine", "mine") / "out", "which is not a folder"),
    "no current folder": Fault(gone_folder, "the current folder does not exist any more"),
    "a system folder": Fault(lambda _: "/proc/out", "cannot write /proc/out: no such file or directory"),
    "a file where a folder is": Fault(
        lambda top: file(folder(top / "out") / "onnx").parent,
        "not a directory",
        ("--overwrite", "--layout", "transformers.js"),
    ),
    "a parent without write permission": denied(lambda top: folder(top / "mine", 0o555) / "out"),
    "a parent without search permission": denied(lambda top: folder(top / "mine", 0o600) / "out"),
    "a folder without write permission": denied(lambda top: folder(top / "out", 0o555), flags=("--overwrite",)),
    "weights without read permission": denied(lambda top: with_mode(top, 0, "model.safetensors"), UNREAD),
    "a configuration without read permission": denied(lambda top: with_mode(top, 0, "config.json"), UNREAD),
    "a checkpoint without search permission": denied(lambda top: with_mode(top, 0o600), UNREAD),
    "a checkpoint without read permission": denied(lambda top: with_mode(top, 0)),
}


@pytest.fixture
def top(checkpoint, tmp_path, tmp_path_factory, monkeypatch):
    """A folder with a copy of the checkpoint. The current folder is restored; tracebacks go elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("tracebacks")))
    shutil.copytree(checkpoint, tmp_path / "checkpoint")
    yield tmp_path
    (tmp_path / "checkpoint").chmod(0o755)


def entries(folder):
    return sorted(folder.rglob("*"))


def error_of(checkpoint, out, *flags, dropped=False):
    with privileges(dropped=dropped):
        result = invoke("export", checkpoint, out, *flags)
    assert result.exit_code == 1, result.output
    (line,) = [line for line in result.stderr.splitlines() if "error" in line]
    assert line.startswith("error: ")
    assert "Traceback" not in result.output
    assert "please report" not in line
    return line


@pytest.mark.parametrize("name", FAULTS)
def test_a_path_that_cannot_be_written_or_read(name, top):
    fault = FAULTS[name]
    out = fault.prepare(top)
    before = entries(top)
    assert fault.message in error_of(top / "checkpoint", out, *fault.flags, dropped=fault.unprivileged)
    assert entries(top) == before


def test_a_file_larger_than_the_system_allows(top):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        line = error_of(top / "checkpoint", top / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "file too large; the system limits the size of a file (ulimit -f)" in line
    assert not (top / "out").exists()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=60k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only a privileged user may mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(checkpoint, small_disk, tmp_path_factory, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("tracebacks")))
    line = error_of(checkpoint, small_disk / "out")
    assert f"cannot write {small_disk / 'out'}: no space left on device; the weights take up to 94,208 bytes, " in line
    assert " bytes are free; free space, or choose a path on another disk" in line
    assert entries(small_disk) == []


@pytest.mark.parametrize("name", ["a parent without write permission", "a long name", "a link to itself"])
def test_an_error_of_the_system_is_documented_in_the_api(name, top):
    fault = FAULTS[name]
    model = onnxfn.model_for(str(top / "checkpoint"))
    out = fault.prepare(top)
    before = entries(top)
    with pytest.raises(onnxfn.OnnxfnError) as caught, privileges(dropped=fault.unprivileged):
        onnxfn.export(onnxfn.spec_for(model), model, out, check=False)
    assert fault.message in str(caught.value)
    assert entries(top) == before


@pytest.mark.parametrize("kind", ["file", "read-only"])
def test_a_cache_that_cannot_be_written_does_not_matter(kind, top):
    cache = top / "cache"
    cache.write_text("mine") if kind == "file" else cache.mkdir(mode=0o555)
    with privileges(dropped=True):
        words = ["export", str(top / "checkpoint"), str(top / "out"), "--template-cache", str(cache)]
        succeed(*words)
    assert (top / "out" / "onnx" / "model.onnx").is_file()


@pytest.mark.sweep
def test_a_terminal_that_cannot_be_written():
    words = [sys.executable, "-c", "from onnxfn.__main__ import main; main()", "tasks", "bert"]
    environment = {**os.environ, "PYTHONPATH": str(Path(onnxfn.__file__).parents[1])}
    with open("/dev/full", "w") as full:
        process = subprocess.run(words, check=False, text=True, stdout=full, stderr=subprocess.PIPE, env=environment)
    assert process.returncode == 1
    assert "Traceback" not in process.stderr
    (line,) = [line for line in process.stderr.splitlines() if "error" in line]
    assert "no space left on device" in line
