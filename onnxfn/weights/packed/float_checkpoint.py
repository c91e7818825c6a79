"""Writes the float checkpoint of a quantized one: each weight is dequantized some rows at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from onnxfn.specs.algebra.dummies import Array
from onnxfn.weights.checkpoint_links import ONNX_DTYPES, TensorEntry, arrays
from onnxfn.weights.packed.quantized_checkpoint import CONFIG_KEY, SINGLE_FILE, QuantizedCheckpoint

CHUNK_ELEMENTS = 1 << 22
"""The approximate number of elements that are dequantized at once; at least `MIN_ROWS` rows of a matrix."""

MIN_ROWS = 32
"""Rows of a chunk are a multiple of this: packed values of 32 rows fill whole words for every number of bits."""

COPIED = ("config.json", "generation_config.json", "*.py")
"""Files that a float checkpoint has from the quantized one."""

SAFETENSORS_DTYPES = MappingProxyType({name: dtype for dtype, name in ONNX_DTYPES.items()})
"""From the name of an `onnx_ir.DataType` to a dtype of safetensors."""


def write_float_checkpoint(checkpoint: QuantizedCheckpoint, folder: Path) -> None:
    """Writes the checkpoint with float weights to an existing folder: one safetensors file and a configuration.

    The weights are in float32; in bfloat16 if that holds every value.
    """
    for file in (path for pattern in COPIED for path in checkpoint.folder.glob(pattern)):
        shutil.copyfile(file, folder / file.name)
    config = json.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(_without_quantization(config)))
    dtype = float_dtype(checkpoint)
    with (folder / SINGLE_FILE).open("wb") as opened:
        opened.write(_header(checkpoint, dtype))
        for chunk in _chunks(checkpoint, dtype):
            opened.write(np.ascontiguousarray(chunk).view(np.uint8).data)


def float_dtype(checkpoint: QuantizedCheckpoint) -> str:
    """The `onnx_ir` dtype of the weights of a float checkpoint: one that holds all their values."""
    needed = {weight.format.exact_in for weight in checkpoint.weights}
    needed |= {entry.dtype for entry in checkpoint.others if _is_float(entry)}
    return needed.pop() if len(needed) == 1 else "FLOAT"


def _without_quantization(config: Any) -> Any:
    """A configuration without the quantization settings, at any depth."""
    if not isinstance(config, dict):
        return config
    return {key: _without_quantization(value) for key, value in config.items() if key != CONFIG_KEY}


def _is_float(entry: TensorEntry) -> bool:
    return "FLOAT" in entry.dtype or entry.dtype == "DOUBLE"


def _header(checkpoint: QuantizedCheckpoint, dtype: str) -> bytes:
    """The header of the safetensors file, padded to a multiple of 8 bytes, after its length."""
    dtypes = {entry.name: _dtype_in_file(entry, dtype) for entry in checkpoint.others}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, shape in checkpoint.shapes.items():
        stored = dtypes.get(name, dtype)
        end = start + prod(shape) * _numpy_dtype(stored).itemsize
        header[name] = {"dtype": SAFETENSORS_DTYPES[stored], "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _dtype_in_file(entry: TensorEntry, dtype: str) -> str:
    """The dtype of a tensor that is not quantized: `dtype` if it has floats."""
    return dtype if _is_float(entry) else entry.dtype


def _numpy_dtype(dtype: str) -> Any:
    from onnx_ir import DataType

    return DataType[dtype].numpy()


def _chunks(checkpoint: QuantizedCheckpoint, dtype: str) -> Iterator[Array]:
    """The elements of all tensors, in the order of the header."""
    for weight in checkpoint.weights:
        for start, stop in row_ranges(weight.shape):
            yield weight.rows(start, stop).astype(_numpy_dtype(dtype), copy=False)
    for entry in checkpoint.others:
        flat, to = arrays((entry,))[entry.name].reshape(-1), _numpy_dtype(_dtype_in_file(entry, dtype))
        for start in range(0, flat.size, CHUNK_ELEMENTS):
            yield flat[start : start + CHUNK_ELEMENTS].astype(to, copy=False)


def row_ranges(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The ranges of rows of a weight that are dequantized at once; for a stack of matrices, one matrix each.

    >>> [*row_ranges((2500, 4096))], [*row_ranges((2, 2880, 5760))]
    ([(0, 1024), (1024, 2048), (2048, 2500)], [(0, 1), (1, 2)])
    """
    most = CHUNK_ELEMENTS // max(1, shape[-1]) // MIN_ROWS * MIN_ROWS
    step = 1 if len(shape) > 2 else max(MIN_ROWS, most)  # noqa: PLR2004 - rows and columns
    return ((start, min(start + step, shape[0])) for start in range(0, shape[0], step))
