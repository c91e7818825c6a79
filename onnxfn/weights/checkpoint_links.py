"""The tensors in safetensors files, and the weights of a graph that lie unchanged in them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import frozen
from toolz import groupby

from onnxfn.specs.errors import ModelNotFound, listed, shortened
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.chunks import first_difference, viewed_array

ONNX_DTYPES = MappingProxyType(
    {
        "F64": "DOUBLE",
        "F32": "FLOAT",
        "F16": "FLOAT16",
        "BF16": "BFLOAT16",
        "F8_E4M3": "FLOAT8E4M3FN",
        "F8_E5M2": "FLOAT8E5M2",
        **{f"I{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
        **{f"U{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
        "BOOL": "BOOL",
    }
)
"""From a dtype of safetensors to the name of the `onnx_ir.DataType`."""


@frozen
class TensorEntry:
    """A tensor in a safetensors file, in an ONNX file or in its external data, from the byte `offset` of `file` on."""

    name: str
    dtype: str
    file: Path
    offset: int
    length: int
    shape: tuple[int, ...] = ()


def entries(folder: Path) -> tuple[TensorEntry, ...]:
    """The tensors in the safetensors files of a folder, `model*.safetensors` first; ModelNotFound if there are none."""
    files = sorted(folder.glob("*.safetensors"), key=lambda file: (not file.name.startswith("model"), file.name))
    if not files:
        known = listed(sorted(file.name for file in folder.iterdir())) if folder.is_dir() else "no such folder"
        raise ModelNotFound(
            f"weight storage 'link' needs *.safetensors files; {folder} has none; it has: {known}; "
            "use 'copy' or 'share'"
        )
    return tuple(entry for file in files for entry in file_entries(file))


def file_entries(file: Path) -> Iterator[TensorEntry]:
    """The tensors in a safetensors file. ModelNotFound if it is none."""
    header, data_start = read_header(file)
    for name, tensor in header.items():
        match tensor:
            case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(start), int(end)]} if all(
                isinstance(size, int) for size in shape
            ):
                if dtype in ONNX_DTYPES:
                    yield TensorEntry(name, ONNX_DTYPES[dtype], file, data_start + start, end - start, tuple(shape))
            case _ if name != "__metadata__":
                raise ModelNotFound(f"{file} has a header of safetensors that does not say where {shortened(name)} is")


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file (length in 8 bytes, JSON) and its data's offset. ModelNotFound without."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(min(length, 100_000_000))  # the safetensors library refuses longer ones
    try:
        header: dict[str, Any] = dict(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        is_cut = text[:1] == b"{" and len(text) < length
        fault = "is truncated within its header" if is_cut else "does not begin with a JSON header"
        raise ModelNotFound(f"{path} is not a safetensors file: it {fault}") from None
    return header, 8 + length


PREFIX_BYTES = 64
"""The first bytes of a tensor. Only tensors with the same first bytes are compared as a whole."""


def entries_by_bytes(
    tensors: Mapping[str, Any], entries: Iterable[TensorEntry], tick: Tick = no_tick
) -> dict[str, TensorEntry]:
    """From a tensor's name to the entry with the same dtype and bytes, all compared; of several, by their names."""
    views = byte_views(entries)
    candidates = groupby(lambda entry: (entry.dtype, entry.length, bytes(views[entry][:PREFIX_BYTES])), views)
    matches = {}
    for name, tensor in tensors.items() if views else ():
        ordered = sorted(candidates.get(_prefix_key(tensor), ()), key=lambda entry: not names_match(entry.name, name))
        matches[name] = next((entry for entry in ordered if first_difference(tensor, views[entry], tick) is None), None)
    return {name: entry for name, entry in matches.items() if entry is not None}


def names_match(first: str, second: str) -> bool:
    """Whether two names are equal but for a prefix, up to a dot, that one of them has."""
    return f".{second}".endswith(f".{first}") or first.endswith(f".{second}")


def byte_views(entries: Iterable[TensorEntry]) -> dict[TensorEntry, Any]:
    """The bytes of each entry, as uint8 arrays that are memory-mapped from the files."""
    known = tuple(entries)
    files = {file: np.asarray(np.memmap(file, np.uint8, "r")) for file in dict.fromkeys(entry.file for entry in known)}
    return {entry: files[entry.file][entry.offset : entry.offset + entry.length] for entry in known}


def arrays(entries: Iterable[TensorEntry]) -> dict[str, Any]:
    """From the name of each entry to its tensor, as an array that is memory-mapped from the file."""
    views = byte_views(entries).items()
    return {entry.name: view.view(numpy_dtype(entry.dtype)).reshape(entry.shape) for entry, view in views}


def numpy_dtype(name: str) -> Any:
    """The numpy dtype of the `onnx_ir.DataType` with a name."""
    from onnx_ir import DataType

    return DataType[name].numpy()


def _prefix_key(tensor: Any) -> Any:
    """The dtype, length and first bytes of a contiguous tensor; None for any other tensor."""
    array = viewed_array(tensor)
    if array is None or not array.flags.c_contiguous:
        return None
    return tensor.dtype.name, tensor.nbytes, bytes(array.reshape(-1).view(np.uint8)[:PREFIX_BYTES])
