"""The memory that a job needs: a pure function of its plan and of the headers of its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType

from attrs import frozen

from onnxfn.export.jobs import ExportJob, job_plan, job_spec
from onnxfn.export.lookup.loading import load_configuration, model_without_weights
from onnxfn.export.lookup.lookup import has_row
from onnxfn.export.lookup.stored_dtypes import FLOATS
from onnxfn.export.weight_sizes import with_weight_bytes
from onnxfn.specs.plan.variants import plans_by_dtype
from onnxfn.specs.planned import Plan
from onnxfn.weights.safetensors import entries

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

CHECK_BYTES: Mapping[str, int] = MappingProxyType({"none": 0, "whole": 1_600_000_000, "sections": 1_600_000_000})
"""Anonymous memory of a check, above that of writing: at most 1.6 GB was measured, for whisper-tiny."""

WHOLE = "whole"
"""The check in which ONNX Runtime holds all weights of a file."""


@frozen
class StoredWeights:
    """The weights of a checkpoint, from the headers of its files.

    Attributes:
        bytes: The bytes that must be in memory while an export reads them: those of the files where they are mapped,
            and of all weights in float32 where a library copies them.
        elements: The number of elements of all weights.
        largest: The number of elements of the largest weight.
    """

    bytes: int = 0
    elements: int = 0
    largest: int = 0


def stored_weights(folder: Path) -> StoredWeights:
    """The weights of the checkpoint in a folder. No weight is read."""
    stored = entries(folder) if any(folder.glob(SAFETENSORS)) else ()
    others = sum(file.stat().st_size for pattern in OTHER_WEIGHTS for file in folder.glob(pattern))
    sizes = [prod(entry.shape) for entry in stored]
    is_mapped = len({entry.dtype for entry in stored} & FLOATS) <= 1
    in_memory = sum(entry.length for entry in stored) if is_mapped else FLOAT_BYTES * sum(sizes)
    return StoredWeights(in_memory + others, sum(sizes) + others // FLOAT_BYTES, max(sizes, default=0))


def memory_need(plan: Plan, stored: StoredWeights, check: str) -> int:
    """The bytes of memory that the export of a plan needs, from the bytes of its weights.

    Anonymous memory counts, and so do the pages of mapped files: an export whose pages another one drives out reads
    them again. A check of whole files also has the weights of a variant in ONNX Runtime, one variant after the other.

    Args:
        plan: A plan with the bytes of its weights (`with_weight_bytes`).
        stored: The weights of the checkpoint.
        check: `whole`, `sections` or `none`.
    """
    sizes = {size.part: size.bytes for size in plan.weight_bytes}
    written = [sum(sizes.get(part.name, 0) for part in variant.parts) for variant in plans_by_dtype(plan).values()]
    return _need(max(written), stored, check)


def memory_bound(stored: StoredWeights, check: str) -> int:
    """The memory of an export to float32, for jobs whose plan is not known: usually more than `memory_need`."""
    return _need(FLOAT_BYTES * stored.elements, stored, check)


def planned_memory(job: ExportJob, folder: Path) -> int | None:
    """`memory_need` of a job whose checkpoint lies in a folder. None if its plan follows only from the loaded model."""
    config = load_configuration(folder, trust_remote_code=job.trust_remote_code)
    if job.spec is None and not has_row(config):
        return None
    plan = job_plan(job, job_spec(job, config), config)
    model = model_without_weights(config, plan.parts[0].spec, trust_remote_code=job.trust_remote_code)
    return memory_need(with_weight_bytes(plan, model), stored_weights(folder), job.check)


def _need(written: int, stored: StoredWeights, check: str) -> int:
    streaming = IMPORTS_BYTES + STREAM_BYTES + STREAM_BYTES_OF_LARGEST * stored.largest
    return streaming + stored.bytes + CHECK_BYTES[check] + (written if check == WHOLE else 0)
