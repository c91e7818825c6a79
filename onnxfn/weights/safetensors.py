"""The tensors in the safetensors files of a checkpoint, read from the headers of the files; weights are not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.specs.errors import ModelNotFound, listed

MAX_HEADER_BYTES = 100_000_000
"""Bytes. The safetensors library refuses longer headers."""

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
"""From a dtype of safetensors to the name of the `onnx_ir.DataType`."""


@frozen
class TensorEntry:
    """A tensor in a safetensors file.

    `dtype` is the name of an `onnx_ir.DataType`. `offset` and `length` are in bytes, `offset` from the start of `file`.
    """

    name: str
    dtype: str
    file: Path
    offset: int
    length: int
    shape: tuple[int, ...] = ()


def entries(folder: Path) -> tuple[TensorEntry, ...]:
    """The tensors in the safetensors files of a folder, those in `model*.safetensors` first.

    ModelNotFound if the folder has no such files, or if one of them is not a safetensors file.
    """
    files = sorted(folder.glob("*.safetensors"), key=lambda file: (not file.name.startswith("model"), file.name))
    if not files:
        known = listed(sorted(file.name for file in folder.iterdir())) if folder.is_dir() else "no such folder"
        raise ModelNotFound(
            f"weight storage 'link' needs *.safetensors files; {folder} has none; it has: {known}; "
            "use 'copy' or 'share'"
        )
    return tuple(entry for file in files for entry in _file_entries(file))


def _file_entries(file: Path) -> Iterator[TensorEntry]:
    header, data_start = read_header(file)
    for name, tensor in header.items():
        if tensor.get("dtype") in ONNX_DTYPES:
            start, end = tensor["data_offsets"]
            dtype, shape = ONNX_DTYPES[tensor["dtype"]], tuple(tensor["shape"])
            yield TensorEntry(name, dtype, file, data_start + start, end - start, shape)


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and the offset of its data.

    The format is: the length of the header in 8 bytes (little-endian), the header in JSON, the data.
    ModelNotFound if the file has no such header.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(min(length, MAX_HEADER_BYTES))
    try:
        header: dict[str, Any] = dict(json.loads(text))
    except (ValueError, TypeError):
        raise ModelNotFound(f"{path} is not a safetensors file: it does not begin with a JSON header") from None
    return header, 8 + length
