"""Digests: an ONNX file states the SHA-256 of its external data, which ends with its own, so that its end is enough."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from os import SEEK_END
from pathlib import Path
from typing import Any

from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.chunks import CHUNK_BYTES, counted
from onnxfn.weights.names import name_fault
from onnxfn.weights.onnx_files import HashedFile, metadata, written_by_onnxfn

DIGESTS_KEY = "onnxfn.external_data"
"""The key in an ONNX file's metadata under which it states the digests of its external data, as JSON: name to digest.

Files of external data that are a checkpoint's own are not listed: onnxfn does not write them.
"""

END_MARK = b"onnxfn external data, SHA-256:".ljust(32)
"""The bytes before the digest at the end of a file of external data. No weight lies there, so no program reads them."""

END_BYTES = len(END_MARK) + sha256().digest_size


def sha256_of(file: Path, tick: Tick = no_tick) -> str:
    """The SHA-256 of the content of a file, in hexadecimal digits. `tick` is called with the bytes read so far."""
    digest, total = sha256(), file.stat().st_size
    with file.open("rb") as opened:
        for chunk in counted(iter(partial(opened.read, CHUNK_BYTES), b""), tick, 0, total):
            digest.update(chunk)
    return digest.hexdigest()


def write_with_digest(file: HashedFile, chunks: Iterable[Any]) -> tuple[str, str]:
    """Writes chunks, then `END_MARK` and their SHA-256; returns this digest, which ONNX files state, and the file's."""
    for chunk in chunks:
        file.write(chunk)
    weights = file.sha256()
    file.write(END_MARK + bytes.fromhex(weights))
    return weights, file.sha256()


def digest_at_end(file: Path) -> str:
    """The digest at the end of a file of external data, as it was written; empty if it has none or cannot be read."""
    with suppress(OSError), file.open("rb") as opened:
        opened.seek(-END_BYTES, SEEK_END)
        end = opened.read()
        return end.removeprefix(END_MARK).hex() if end.startswith(END_MARK) else ""
    return ""


def stated_digests(graph: Path) -> Mapping[str, str]:
    """The digests that an ONNX file of onnxfn states, by the names of its external data files; else none."""
    with suppress(ValueError, TypeError, RecursionError):
        return dict(json.loads(metadata(graph).get(DIGESTS_KEY, "{}"))) if written_by_onnxfn(graph) else {}
    return {}


def foreign_data(graph: Path) -> tuple[str, ...]:
    """The external data files of an ONNX file with other digests than it states, and all outside its folder."""
    stated = stated_digests(graph).items()
    return tuple(
        name
        for name, digest in stated
        if name_fault(name, graph.parent) or ((file := graph.parent / name).is_file() and digest_at_end(file) != digest)
    )
