"""Weights that stay where they are: which of them lie byte for byte in the files of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onnxfn.checkpoints import Entry
from onnxfn.streaming import chunks, torch_tensor

FIRST = 64
"""Bytes by which candidates are told apart before they are compared whole."""


def found(tensors: Mapping[str, Any], entries: Iterable[Entry]) -> dict[str, Entry]:
    """Which tensor of a checkpoint holds the bytes of each tensor here, where one does: every byte is compared.

    A name decides only between several that do. What is transposed, converted or computed is in no file.
    """
    known = tuple(entries)
    pages = {file: np.memmap(file, np.uint8, "r") for file in dict.fromkeys(one.file for one in known)}
    places = {one: pages[one.file][one.offset : one.offset + one.length] for one in known}
    alike: dict[Any, list[Entry]] = {}
    for one, bytes_ in places.items():
        alike.setdefault((one.type, one.length, bytes(bytes_[:FIRST])), []).append(one)
    every = {
        name: next((one for one in _by_name(name, alike.get(key, ())) if _same(tensor, places[one])), None)
        for name, tensor in tensors.items()
        if (key := _key(tensor)) is not None
    }
    return {name: one for name, one in every.items() if one is not None}


def _key(tensor: Any) -> Any:
    raw = torch_tensor(tensor)
    if raw is None or not raw.is_contiguous():
        return None
    return tensor.dtype.name, tensor.nbytes, bytes(next(chunks(tensor, FIRST)))


def _by_name(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Those first that are called so, with or without the prefix of a headed model."""
    return sorted(
        entries, key=lambda one: not f".{name}".endswith(f".{one.name}") and not one.name.endswith(f".{name}")
    )


def _same(tensor: Any, page: Any) -> bool:
    start = 0
    for chunk in chunks(tensor):
        if not np.array_equal(chunk, page[start : start + len(chunk)]):
            return False
        start += len(chunk)
    return start == len(page)
