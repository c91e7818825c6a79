"""Situations in which the operating system refuses what an export asks for, in an empty folder each."""

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

CAPABILITY_VERSION = 0x20080522
IGNORES_PERMISSIONS = 0b110
"""The bits of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH in a set of capabilities."""


@frozen
class Fault:
    """A situation that makes an export impossible.

    Attributes:
        prepare: Prepares an empty folder; returns the path to export to.
        message: A part of the error.
        flags: Flags of the command.
        unprivileged: Whether permissions hold, although the tests may run as root.
    """

    prepare: Callable[[Path], Path | str]
    message: str
    flags: tuple[str, ...] = ()
    unprivileged: bool = False


@contextmanager
def privileges(*, dropped: bool) -> Iterator[None]:
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


def file(path: Path, mode: int = 0o644) -> Path:
    path.write_text("a file")
    path.chmod(mode)
    return path


def folder(path: Path, mode: int = 0o755) -> Path:
    path.mkdir(parents=True)
    path.chmod(mode)
    return path


def linked(path: Path, target: str) -> Path:
    path.symlink_to(target)
    return path


def in_checkpoint(name: str, mode: int) -> Callable[[Path], Path]:
    """Changes the mode of a file of the checkpoint, or of its folder."""

    def prepare(top: Path) -> Path:
        (top / "checkpoint" / name).chmod(mode)
        return top / "out"

    return prepare


def gone_folder(top: Path) -> str:
    os.chdir(folder(top / "current"))
    (top / "current").rmdir()
    return "out"


def obstructed_subfolder(top: Path) -> Path:
    file(folder(top / "out") / "onnx")
    return top / "out"


def device(top: Path) -> Path:
    os.mkfifo(top / "out")
    return top / "out"


FAULTS: Mapping[str, Fault] = {
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
        obstructed_subfolder, "not a directory", ("--overwrite", "--layout", "transformers.js")
    ),
    "a parent without write permission": Fault(
        lambda top: folder(top / "mine", 0o555) / "out", "permission denied", (), unprivileged=True
    ),
    "a parent without search permission": Fault(
        lambda top: folder(top / "mine", 0o600) / "out", "permission denied", (), unprivileged=True
    ),
    "a folder without write permission": Fault(
        lambda top: folder(top / "out", 0o555), "permission denied", ("--overwrite",), unprivileged=True
    ),
    "weights without read permission": Fault(
        in_checkpoint("model.safetensors", 0), "cannot be read: permission denied", (), unprivileged=True
    ),
    "a configuration without read permission": Fault(
        in_checkpoint("config.json", 0), "cannot be read: permission denied", (), unprivileged=True
    ),
    "a checkpoint without search permission": Fault(
        in_checkpoint("", 0o600), "cannot be read: permission denied", (), unprivileged=True
    ),
    "a checkpoint without read permission": Fault(in_checkpoint("", 0), "permission denied", (), unprivileged=True),
}
