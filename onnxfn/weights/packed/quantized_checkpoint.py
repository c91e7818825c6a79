"""Quantized checkpoints: their quantized weights, from the configuration and the headers of the files."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import LoadFailed, ModelNotFound, listed
from onnxfn.weights.checkpoint_links import ONNX_DTYPES, TensorEntry, arrays, entries, numpy_dtype
from onnxfn.weights.packed.quantized_formats import FORMATS, QuantizedFormat

CONFIG_KEY = "quantization_config"
SINGLE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"

CHUNK_ELEMENTS = 1 << 22
"""The approximate number of elements that are dequantized at once; at least `MIN_ROWS` rows of a matrix."""

MIN_ROWS = 32
"""Rows of a chunk are a multiple of this: packed values of 32 rows fill whole words for every number of bits."""


@frozen(eq=False)
class QuantizedWeight:
    """A quantized weight by its float name, and its stored tensors by the ends of their names."""

    name: str
    format: QuantizedFormat = field(repr=False)
    parts: Mapping[str, Array] = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the float weight."""
        return self.format.shape(self.parts, self.settings)

    def rows(self, start: int, stop: int) -> Array:
        """The rows `start` to `stop` of the float weight, in float32."""
        return self.format.rows(self.parts, self.settings, start, stop)


@frozen
class QuantizedCheckpoint:
    """A checkpoint with quantized weights; `others` are its other tensors, as they are stored."""

    folder: Path
    weights: tuple[QuantizedWeight, ...] = field(converter=as_tuple)
    others: tuple[TensorEntry, ...] = field(converter=as_tuple)

    @property
    def stored_bytes(self) -> int:
        """The bytes of all its tensors."""
        quantized = sum(part.nbytes for weight in self.weights for part in weight.parts.values())
        return quantized + sum(entry.length for entry in self.others)

    @property
    def parameters(self) -> int:
        """The number of elements of all weights, after they are dequantized."""
        return sum(prod(shape) for shape in self.shapes.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """From the name of each tensor, after weights are dequantized, to its shape."""
        quantized = {weight.name: weight.shape for weight in self.weights}
        return quantized | {entry.name: entry.shape for entry in self.others}


def quantization_settings(folder: Path) -> Mapping[str, Any] | None:
    """The `quantization_config` in the configuration of a checkpoint, also in that of its text model; None if none."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    nested = (config, config.get("text_config")) if isinstance(config, dict) else ()
    settings = next((value for item in nested if isinstance(item, dict) and (value := item.get(CONFIG_KEY))), None)
    return settings if isinstance(settings, dict) else None


def quantized_checkpoint(folder: Path) -> QuantizedCheckpoint | None:
    """The quantized weights of a checkpoint, None if it has none. LoadFailed for an unknown format or weight."""
    settings = quantization_settings(folder)
    if settings is None:
        return None
    formats = _formats_for(folder, settings)
    stored = {entry.name: entry for entry in _entries(folder, formats[0].name)}
    quantized = [parts for name in stored if (parts := _parts_of_weight(name, stored, formats)) is not None]
    by_name = arrays(stored.values())
    weights = [
        QuantizedWeight(name, row, {end: by_name[part] for end, part in parts.items()}, settings)
        for name, row, parts in quantized
    ]
    if not weights:
        raise LoadFailed(
            f"{folder} is quantized ({formats[0].name}) by its config.json, and none of its tensors is; it has: "
            f"{listed(stored, most=4)}; if it is not quantized, remove quantization_config from config.json"
        )
    read = {part for _, _, parts in quantized for part in parts.values()}
    others = [entry for name, entry in stored.items() if name not in read]
    without_scale = [entry.name for entry in others if entry.dtype.startswith("FLOAT8")]
    if without_scale:
        raise LoadFailed(
            f"{folder} is quantized by {formats[0].name}, and has no scales that onnxfn knows for "
            f"{listed(without_scale, most=4)}; export the checkpoint that it was made from"
        )
    return QuantizedCheckpoint(folder, weights, others)


def _formats_for(folder: Path, settings: Mapping[str, Any]) -> list[QuantizedFormat]:
    """The formats that the settings of a checkpoint name; LoadFailed if there is none."""
    method = settings.get("quant_method")
    formats = [row for row in FORMATS if row.method == method]
    if not formats:
        known = listed(dict.fromkeys(row.method for row in FORMATS))
        raise LoadFailed(
            f"{folder} is quantized by {method or 'an unnamed method'}, which onnxfn cannot read; known: {known}, and "
            "GGUF; export the checkpoint that it was made from"
        )
    for key, known_values in formats[0].settings:
        if settings.get(key, known_values[0]) not in known_values:
            values = listed(map(str, known_values))
            raise LoadFailed(
                f"{folder} is quantized by {formats[0].name} with {key}={settings[key]!r}, which onnxfn cannot read; "
                f"known: {values}; export the checkpoint that it was made from"
            )
    return formats


def _entries(folder: Path, format_name: str) -> Iterable[TensorEntry]:
    """The tensors in the files that transformers would load from a folder."""
    try:
        every = entries(folder)
    except ModelNotFound:
        raise LoadFailed(
            f"{folder} is quantized ({format_name}), and has no *.safetensors files; convert its weights to safetensors"
        ) from None
    index, files = folder / INDEX_FILE, {SINGLE_FILE} if (folder / SINGLE_FILE).exists() else set()
    if not files and index.exists():
        files = set(json.loads(index.read_bytes())["weight_map"].values())
    return [entry for entry in every if not files or entry.file.name in files]


def _parts_of_weight(
    name: str, stored: Mapping[str, TensorEntry], formats: Iterable[QuantizedFormat]
) -> tuple[str, QuantizedFormat, Mapping[str, str]] | None:
    """The name, the format, and the tensors by their ends, of the weight whose values a tensor holds; None for none."""
    for row in formats:
        prefix = name.removesuffix(row.values)
        if prefix == name or any(prefix + end not in stored for end in row.needs):
            continue
        if stored[name].dtype not in row.dtypes:
            raise LoadFailed(
                f"{name} is quantized by {row.name}, and has the dtype {stored[name].dtype}; known: "
                f"{listed(row.dtypes)}; export the checkpoint that it was made from"
            )
        ends = (row.values, *row.needs, *row.may_have)
        return prefix + row.weight, row, {end: prefix + end for end in ends if prefix + end in stored}
    return None


def write_float_checkpoint(checkpoint: QuantizedCheckpoint, folder: Path) -> None:
    """Writes the checkpoint with float weights to an existing folder: one safetensors file and a configuration."""
    for pattern in ("config.json", "generation_config.json", "*.py"):
        for file in checkpoint.folder.glob(pattern):
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
    in_safetensors = {name: dtype for dtype, name in ONNX_DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, shape in checkpoint.shapes.items():
        stored = dtypes.get(name, dtype)
        end = start + prod(shape) * numpy_dtype(stored).itemsize
        header[name] = {"dtype": in_safetensors[stored], "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _dtype_in_file(entry: TensorEntry, dtype: str) -> str:
    """The dtype of a tensor that is not quantized: `dtype` if it has floats."""
    return dtype if _is_float(entry) else entry.dtype


def _chunks(checkpoint: QuantizedCheckpoint, dtype: str) -> Iterator[Array]:
    """The elements of all tensors, in the order of the header."""
    for weight in checkpoint.weights:
        for start, stop in row_ranges(weight.shape):
            yield weight.rows(start, stop).astype(numpy_dtype(dtype), copy=False)
    for entry in checkpoint.others:
        flat, to = arrays((entry,))[entry.name].reshape(-1), numpy_dtype(_dtype_in_file(entry, dtype))
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
