"""What lies where in the safetensors files of a checkpoint: their headers, and no weight."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.specs.errors import ModelNotFound, listed

MAX_HEADER_BYTES = 100_000_000
"""Bytes; safetensors itself reads no longer one."""

ONNX_DTYPES = MappingProxyType(
    {
        "F64": "DOUBLE",
        "F32": "FLOAT",
        "F16": "FLOAT16",
        "BF16": "BFLOAT16",
        "F8_E4M3": "FLOAT8E4M3FN",
        "F8_E5M2": "FLOAT8E5M2",
        "I64": "INT64",
        "I32": "INT32",
        "I16": "INT16",
        "I8": "INT8",
        "U64": "UINT64",
        "U32": "UINT32",
        "U16": "UINT16",
        "U8": "UINT8",
        "BOOL": "BOOL",
    }
)
"""What safetensors calls a type -> what ONNX calls it."""


@frozen
class TensorEntry:
    """A tensor of a checkpoint: its name, ONNX type and shape, and where in which file its bytes lie."""

    name: str
    dtype: str
    file: Path
    offset: int
    length: int
    shape: tuple[int, ...] = ()


def entries(folder: Path) -> tuple[TensorEntry, ...]:
    """The tensors in the safetensors files of a folder, `model*.safetensors` first; ModelNotFound when it has none."""
    files = sorted(folder.glob("*.safetensors"), key=lambda file: (not file.name.startswith("model"), file.name))
    if not files:
        there = listed(sorted(file.name for file in folder.iterdir())) if folder.is_dir() else "no such folder"
        raise ModelNotFound(f"no *.safetensors in {folder} for weights='link'; there is: {there}; take weights='copy'")
    return tuple(entry for file in files for entry in _file_entries(file))


def _file_entries(file: Path) -> Iterator[TensorEntry]:
    header, start = read_header(file)
    for name, fact in header.items():
        if fact.get("dtype") in ONNX_DTYPES:
            first, end = fact["data_offsets"]
            yield TensorEntry(name, ONNX_DTYPES[fact["dtype"]], file, start + first, end - first, tuple(fact["shape"]))


def read_header(file: Path) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and where its data begins: 8 bytes that say its length, JSON, data."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        start = opened.read(min(length, MAX_HEADER_BYTES))
    try:
        header: dict[str, Any] = dict(json.loads(start))
    except (ValueError, TypeError):
        raise ModelNotFound(f"{file} is no safetensors file: it does not begin with a header in JSON") from None
    return header, 8 + length
