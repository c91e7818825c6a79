"""Write: a graph and its weights -> files, which appear whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnxfn.errors import CaptureFailed

SIDECAR = ".onnx_data"
LARGEST_MESSAGE = (1 << 31) - (1 << 26)
"""Bytes of weights that a single ONNX file may hold: protobuf's 2 GiB less room for the graph."""


@contextmanager
def workshop(beside: Path) -> Iterator[Path]:
    """A fresh folder beside the place that is written to, on its file system; gone on leaving, whatever happens."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{beside.name}.", dir=beside.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write(model: Any, path: Path, *, threshold: int, sidecar: str = SIDECAR) -> tuple[Path, ...]:
    """Write one graph; weights of more than `threshold` bytes in all go to one file beside it, named stem + `sidecar`.

    The file passes `onnx.checker` when this returns; CaptureFailed when it does not.
    """
    import onnx
    import onnx_ir

    data = path.with_name(f"{path.stem}{sidecar}")
    if weight_bytes(model) > threshold:
        onnx_ir.save(model, str(path), external_data=data.name, size_threshold_bytes=1024)
    else:
        onnx_ir.save(model, str(path))
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as problem:
        raise CaptureFailed(f"{path.name} is no valid ONNX: {str(problem).splitlines()[0]}") from problem
    return (path, data) if data.exists() else (path,)


def weight_bytes(model: Any) -> int:
    """Bytes of all weights of a graph."""
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


def moved(files: tuple[Path, ...], folder: Path) -> tuple[Path, ...]:
    """Put finished files in their place, each by one rename; the new places."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        file.replace(folder / file.name)
    return tuple(folder / file.name for file in files)
