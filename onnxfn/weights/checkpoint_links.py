"""Weights that stay where they are: which of them lie byte for byte in the files of a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from onnxfn.weights.chunks import chunks, torch_tensor
from onnxfn.weights.safetensors import TensorEntry

PREFIX_BYTES = 64
"""Bytes by which candidates are told apart before they are compared whole."""


def entries_by_bytes(tensors: Mapping[str, Any], entries: Iterable[TensorEntry]) -> dict[str, TensorEntry]:
    """Which tensor of a checkpoint holds the bytes of each tensor here, where one does: every byte is compared.

    A name decides only between several that do. What is transposed, converted or computed is in no file.
    """
    known = tuple(entries)
    places = byte_views(known)
    alike: dict[Any, list[TensorEntry]] = {}
    for one, bytes_ in places.items():
        alike.setdefault((one.dtype, one.length, bytes(bytes_[:PREFIX_BYTES])), []).append(one)
    every = {
        name: next(
            (one for one in _same_name_first(name, alike.get(key, ())) if _same_bytes(tensor, places[one])), None
        )
        for name, tensor in tensors.items()
        if (key := _prefix_key(tensor)) is not None
    }
    return {name: one for name, one in every.items() if one is not None}


def entries_by_name(
    tensors: Mapping[str, Sequence[str]], bound: Mapping[str, Any], entries: Mapping[TensorEntry, str]
) -> dict[str, TensorEntry]:
    """Which tensor of a checkpoint each tensor here was read from, where that is beyond doubt.

    `tensors` tells by what names a tensor goes, `entries` what each of the checkpoint's is called once it is loaded.
    One of these, and no more, is called so, with or without the prefix of a headed model; it has this shape, this type,
    every byte, and no other tensor is read from it.
    """
    called = {
        name: [one for one, loaded in entries.items() if any(_names_match(loaded, own) for own in names)]
        for name, names in tensors.items()
    }
    read = {
        name: found[0] for name, found in called.items() if len(found) == 1 and _is_stored_in(bound[name], found[0])
    }
    often = Counter(read.values())
    return {name: one for name, one in read.items() if often[one] == 1}


def _names_match(stored: str, name: str) -> bool:
    return f".{name}".endswith(f".{stored}") or stored.endswith(f".{name}")


def _is_stored_in(tensor: Any, one: TensorEntry) -> bool:
    raw = torch_tensor(tensor)
    if raw is None or not raw.is_contiguous() or (tensor.dtype.name, tuple(raw.shape)) != (one.dtype, one.shape):
        return False
    return _same_bytes(tensor, byte_views((one,))[one])


def byte_views(entries: Iterable[TensorEntry]) -> dict[TensorEntry, Any]:
    """The bytes of tensors of a checkpoint where they lie, as arrays of uint8."""
    known = tuple(entries)
    files = {file: np.asarray(np.memmap(file, np.uint8, "r")) for file in dict.fromkeys(one.file for one in known)}
    return {one: files[one.file][one.offset : one.offset + one.length] for one in known}


def arrays(entries: Iterable[TensorEntry]) -> dict[str, Any]:
    """The tensors of a checkpoint by name, as arrays that look at the bytes where they lie."""
    from onnx_ir import DataType

    return {
        one.name: page.view(DataType[one.dtype].numpy()).reshape(one.shape) for one, page in byte_views(entries).items()
    }


def _prefix_key(tensor: Any) -> Any:
    raw = torch_tensor(tensor)
    if raw is None or not raw.is_contiguous():
        return None
    return tensor.dtype.name, tensor.nbytes, bytes(next(chunks(tensor, PREFIX_BYTES)))


def _same_name_first(name: str, entries: Iterable[TensorEntry]) -> list[TensorEntry]:
    """Those first that are called so, with or without the prefix of a headed model."""
    return sorted(entries, key=lambda one: not _names_match(one.name, name))


def _same_bytes(tensor: Any, page: Any) -> bool:
    start = 0
    for chunk in chunks(tensor):
        if not np.array_equal(chunk, page[start : start + len(chunk)]):
            return False
        start += len(chunk)
    return start == len(page)
