"""Graphs of equal models on disk: the folder of the cache, and the graphs in it.

A file starts with a digest of its name and its content. It protects from damage, not from a person who can write the
file. Therefore a cache belongs to one user: its folder has mode 0700, its files 0600. On POSIX a file is read only if
this user owns it and no other may write it, and links are not followed. On a file system that shows every file as
writable by all (FAT, some network drives) nothing is read, and every model is traced.
"""

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from attrs import asdict, fields, frozen

from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.nodes.slots import SLOT, Slot, make_slot, slot_of
from onnxfn.models.torch_modes import quiet
from onnxfn.specs.conditions import Condition

MAX_CACHE_BYTES = 512 * 2**20
"""Bytes that the files of a cache folder may have together, unless the caller sets another limit."""

DIGEST_LENGTH = len(f"{hashlib.sha256().hexdigest()}\n")
"""Bytes at the start of a file that hold its digest."""


@frozen
class CacheEntry:
    """A file of a cache folder, its size in bytes, and when it was last written or read, in seconds since 1970."""

    path: Path
    size: int
    used: float


def default_cache_folder() -> Path:
    """The cache folder of the command line: `onnxfn/templates` in the user's cache. It may be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxfn" / "templates"


def cache_entries(folder: Path) -> tuple[CacheEntry, ...]:
    """The files that any version of onnxfn wrote into a cache folder, the most recently used first."""
    entries = filter(None, map(_entry, folder.glob("*")))
    return tuple(sorted(entries, key=lambda entry: (entry.used, entry.path), reverse=True))


def clear_cache(folder: Path) -> tuple[CacheEntry, ...]:
    """Deletes the files that onnxfn wrote into a cache folder; returns those that it deleted. Other files stay."""
    entries = cache_entries(folder)
    for entry in entries:
        delete_file(entry.path)
    return tuple(entry for entry in entries if not entry.path.exists())


def beyond_limit(entries: Iterable[CacheEntry], max_bytes: int) -> tuple[CacheEntry, ...]:
    """The least recently used entries to delete so that the others have at most `max_bytes` bytes."""
    newest_first = sorted(entries, key=lambda entry: (entry.used, entry.path), reverse=True)
    totals = accumulate(entry.size for entry in newest_first)
    return tuple(entry for entry, total in zip(newest_first, totals, strict=True) if total > max_bytes)


def delete_file(file: Path) -> None:
    """Deletes a file; ignores a file that is gone already or cannot be deleted."""
    with suppress(OSError):
        file.unlink()


def read_file(file: Path) -> bytes | None:
    """The content of a file of the cache, marked as used; None if it is not to be read. A damaged one is deleted."""
    # A link, a file of another user, and a file that another user may write stay and are not read.
    try:
        stored = _own_bytes(file)
    except OSError:
        return None
    content = stored[DIGEST_LENGTH:]
    if stored[:DIGEST_LENGTH] != _digest_line(file, content):
        delete_file(file)
        return None
    with suppress(OSError):  # a folder that cannot be written can still be read
        os.utime(file)
    return content


def write_file(file: Path, content: bytes, max_bytes: int = MAX_CACHE_BYTES) -> None:
    """Writes a file of the cache whole or not at all, for this user alone; then deletes the least recently used."""
    # A full disk or a read-only folder is not an error: the cache is then without the file.
    with suppress(OSError), _partial_file(file) as partial:
        partial.write_bytes(_digest_line(file, content) + content)
        partial.replace(file)
    for entry in beyond_limit(cache_entries(file.parent), max_bytes):
        delete_file(entry.path)


def _own_bytes(file: Path) -> bytes:
    """The bytes of a regular file that only this user may write; OSError for any other file, and for a missing one."""
    flags = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    descriptor = os.open(file, os.O_RDONLY | flags)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        has_owner = hasattr(os, "geteuid")  # else files have no POSIX owner
        is_own = not has_owner or (status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if not stat.S_ISREG(status.st_mode) or not is_own:
            raise PermissionError(file)
        return stream.read()


def _digest_line(file: Path, content: bytes) -> bytes:
    """The first line of a file: the SHA-256 of its name and its content."""
    return f"{hashlib.sha256(file.name.encode() + b' ' + content).hexdigest()}\n".encode()


@contextmanager
def _partial_file(file: Path) -> Iterator[Path]:
    """A new empty file in the folder of `file`; on leaving, it is deleted if it is still there."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.", suffix=".partial", dir=file.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _entry(path: Path) -> CacheEntry | None:
    """The entry of a path; None if it is not a file of onnxfn, or was deleted meanwhile."""
    try:
        status = path.stat()
    except OSError:
        return None
    # A cache may share its folder with files of the user: only names that onnxfn gives are counted and deleted.
    is_entry = re.fullmatch(r"[0-9a-f]{64}\.template(\.\w+\.partial)?", path.name)
    return CacheEntry(path, status.st_size, status.st_mtime) if is_entry else None


NOTE = "onnxfn.template"
"""Key of the ONNX metadata of a template: its slots, and the fields of its graph, as JSON."""


def save_template(folder: Path | None, name: str | None, built: BuiltGraph, max_bytes: int = MAX_CACHE_BYTES) -> None:
    """Writes a graph whose parameters are slots, as `write_file` does; does nothing without a folder or a name."""
    import onnx_ir

    if folder is None or name is None:
        return
    values = [value for value in built.model.graph.initializers.values() if slot_of(value)]
    saved = ("limits", "needs_check", "unused_patches", "traced_layers", "from_repeats")
    facts = asdict(built, filter=lambda field, _: field.name in saved or field not in fields(BuiltGraph))
    note = {"slots": {value.name: asdict(value.meta[SLOT]) for value in values}, "facts": facts}
    for value in values:  # ONNX requires initializers to have values
        of_slot = onnx_ir.ExternalTensor("nowhere", None, None, value.dtype, shape=value.shape, name=value.name)
        value.const_value = of_slot
    proto = onnx_ir.to_proto(built.model)
    for value in values:
        value.const_value = None
    proto.metadata_props.add(key=NOTE, value=json.dumps(note))
    write_file(_file(folder, name), proto.SerializeToString(), max_bytes)


def load_template(folder: Path | None, name: str | None) -> BuiltGraph | None:
    """The graph saved under a name; None without a readable file. Any error for a template of another version."""
    import onnx
    import onnx_ir

    content = None if folder is None or name is None else read_file(_file(folder, name))
    if content is None:
        return None
    with quiet():
        graph = onnx_ir.from_proto(onnx.ModelProto.FromString(content))
    note = json.loads(graph.metadata_props.pop(NOTE))
    for value_name, slot in note["slots"].items():
        make_slot(graph.graph.initializers[value_name], Slot(**slot))
    limits = [Condition(**limit) for limit in note["facts"].pop("limits")]
    return BuiltGraph(model=graph, limits=limits, **note["facts"], from_template=True)


def delete_template(folder: Path | None, name: str | None) -> None:
    """Deletes the graph that was saved under a name, if there is one."""
    if folder is not None and name is not None:
        delete_file(_file(folder, name))


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.template"
