"""The memory that a job needs, from the headers of its checkpoint; and what the system says of memory."""

import re
import sys
from math import prod
from pathlib import Path

from attrs import frozen

from onnxfn.export.jobs.options import TRANSFORMERS
from onnxfn.export.load.load_errors import INDEX
from onnxfn.export.load.loading import FLOATS
from onnxfn.export.load.quantized import FLOAT32_BYTES, gguf_tensors
from onnxfn.weights.checkpoint_files import checkpoint_files, names_in, patterns_of
from onnxfn.weights.checkpoint_links import file_entries

# Measured above the imports: 0.2 GB at 65 million elements, 0.71 GB at 525 million.
STREAM_BYTES, STREAM_BYTES_OF_LARGEST = 300_000_000, 2
"""Anonymous memory of writing weights in chunks, and how many bytes more for each element of the largest weight."""

UNKNOWN_BYTES = sys.maxsize
"""The need of a job whose weights are not known: larger than any memory, so the job runs alone."""


@frozen
class StoredWeights:
    """The weights of a checkpoint: bytes in memory (of mapped files, else in float32), elements, the largest."""

    bytes: int = 0
    elements: int = 0
    largest: int = 0


def checkpoint_weights(name: str, source: Path, library: str = TRANSFORMERS) -> StoredWeights | None:
    """The weights of a checkpoint by its name and its folder or GGUF file, unread; None if the cache lacks them."""
    stored = stored_weights(source, library)
    listed = [source / file for index in source.glob(INDEX) for file in names_in(index)]
    return stored if Path(name).exists() or (stored.bytes and all(file.is_file() for file in listed)) else None


def stored_weights(source: Path, library: str = TRANSFORMERS) -> StoredWeights:
    """The weights in a folder or in a GGUF file. No weight is read. LoadFailed or ModelNotFound as above."""
    if source.is_file():
        counts = [int(tensor.n_elements) for tensor in gguf_tensors(source)]
        return StoredWeights(FLOAT32_BYTES * sum(counts), sum(counts), max(counts, default=0))
    files = checkpoint_files(source, patterns_of(library))
    stored = [entry for file in files if file.suffix == ".safetensors" for entry in file_entries(file)]
    # read into memory as a whole
    others = sum(file.stat().st_size for file in files if file.suffix in (".bin", ".pt", ".pth", ".gguf"))
    sizes = [prod(entry.shape) for entry in stored]
    is_mapped = len({entry.dtype for entry in stored} & FLOATS) <= 1
    in_memory = sum(entry.length for entry in stored) if is_mapped else FLOAT32_BYTES * sum(sizes)
    return StoredWeights(in_memory + others, sum(sizes) + others // FLOAT32_BYTES, max(sizes, default=0))


def memory_need(stored: StoredWeights | None, check: str) -> int:
    """The bytes that an export to float32 needs at most for weights and check; pages of mapped files count."""
    if stored is None:
        return UNKNOWN_BYTES
    converted = {"whole": stored.elements, "sections": stored.largest}
    most = 1_600_000_000  # anonymous memory of a check, above that of writing: measured for whisper-tiny
    checked = most + FLOAT32_BYTES * converted[check] if check in converted else 0
    imports = 400_000_000  # anonymous memory: 0.36 GB in benchmarks/results/large.json
    return imports + STREAM_BYTES + STREAM_BYTES_OF_LARGEST * stored.largest + stored.bytes + checked


def stated_bytes(file: str, name: str) -> int | None:
    """The bytes that the line with a name in a file of `/proc` states; None where the system does not tell."""
    try:
        match = re.search(rf"^{name}:\s*(\d+) kB", Path(file).read_text(), re.MULTILINE)
    except OSError:  # also after the process ended
        return None
    return int(match[1]) * 1024 if match else None
