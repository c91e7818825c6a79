"""The memory that a job needs, from the headers of its checkpoint; and what the system says of memory."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

from attrs import frozen

from onnxfn.export.load.loading import FLOATS
from onnxfn.export.load.quantized import gguf_tensors
from onnxfn.weights.checkpoint_links import entries

SAFETENSORS = "*.safetensors"
OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")
"""Files of weights that are read into memory as a whole."""

FLOAT_BYTES = 4
"""Bytes of a weight in float32, the largest dtype that exports usually have."""

IMPORTS_BYTES = 400_000_000
"""Anonymous memory of the imports of an export: 0.36 GB in benchmarks/results/large.json."""

STREAM_BYTES, STREAM_BYTES_OF_LARGEST = 300_000_000, 2
"""Anonymous memory of writing weights in chunks, and how many bytes more for each element of the largest weight.

Measured above the imports: 0.2 GB at 65 million elements, 0.71 GB at 525 million.
"""

CHECK_BYTES = 1_600_000_000
"""Anonymous memory of a check, above that of writing: at most 1.6 GB was measured, for whisper-tiny."""


@frozen
class StoredWeights:
    """The weights of a checkpoint, from the headers of its files.

    Attributes:
        bytes: The bytes in memory while an export reads the weights: those of the files if they are mapped, else those
            of all weights in float32, because a library copies them.
        elements: The number of elements of all weights.
        largest: The number of elements of the largest weight.
    """

    bytes: int = 0
    elements: int = 0
    largest: int = 0


def stored_weights(folder: Path) -> StoredWeights:
    """The weights of the checkpoint in a folder, or of a GGUF file. No weight is read.

    LoadFailed or ModelNotFound if a file cannot be read.
    """
    if folder.is_file():
        counts = [int(tensor.n_elements) for tensor in gguf_tensors(folder)]
        return StoredWeights(FLOAT_BYTES * sum(counts), sum(counts), max(counts, default=0))
    stored = entries(folder) if any(folder.glob(SAFETENSORS)) else ()
    others = sum(file.stat().st_size for pattern in OTHER_WEIGHTS for file in folder.glob(pattern))
    sizes = [prod(entry.shape) for entry in stored]
    is_mapped = len({entry.dtype for entry in stored} & FLOATS) <= 1
    in_memory = sum(entry.length for entry in stored) if is_mapped else FLOAT_BYTES * sum(sizes)
    return StoredWeights(in_memory + others, sum(sizes) + others // FLOAT_BYTES, max(sizes, default=0))


def memory_need(stored: StoredWeights, check: str) -> int:
    """The bytes of memory that an export to float32 needs at most, from the weights of its checkpoint and its check.

    Anonymous memory counts, and so do the pages of mapped files: an export whose pages another one drives out reads
    them again. A check of whole files has the weights in ONNX Runtime, one by sections those of a layer.
    """
    converted = {"whole": stored.elements, "sections": stored.largest}
    checked = CHECK_BYTES + FLOAT_BYTES * converted[check] if check in converted else 0
    return IMPORTS_BYTES + STREAM_BYTES + STREAM_BYTES_OF_LARGEST * stored.largest + stored.bytes + checked


def stated_bytes(file: str, name: str) -> int | None:
    """The bytes that the line with a name in a file of `/proc` states; None where the system does not tell."""
    try:
        match = re.search(rf"^{name}:\s*(\d+) kB", Path(file).read_text(), re.MULTILINE)
    except OSError:  # also after the process ended
        return None
    return int(match[1]) * 1024 if match else None
