"""The memory that a job needs: a pure function of its plan and of the headers of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from pathlib import Path

from attrs import frozen

from onnxfn.export.batch.section_memory import SectionSizes, section_memory, section_sizes
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

CHECK_BYTES = 1_600_000_000
"""Anonymous memory of a check, above that of writing: at most 1.6 GB was measured, for whisper-tiny."""


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


def memory_need(plan: Plan, stored: StoredWeights, check: str, sections: Iterable[SectionSizes] = ()) -> int:
    """The bytes of memory that the export of a plan needs, from the bytes of its weights.

    Anonymous memory counts, and so do the pages of mapped files: an export whose pages another one drives out reads
    them again. A check of whole files also has the weights of a variant in ONNX Runtime, one variant after the other.
    A check by sections begins when the writing has ended.

    Args:
        plan: A plan with the bytes of its weights (`with_weight_bytes`).
        stored: The weights of the checkpoint.
        check: `whole`, `sections` or `none`.
        sections: The sizes of a check by sections, for each part of the plan.
    """
    if check == "sections":
        return IMPORTS_BYTES + stored.bytes + max((_stream_bytes(stored), *map(section_memory, sections)))
    sizes = {size.part: size.bytes for size in plan.weight_bytes}
    written = [sum(sizes.get(part.name, 0) for part in variant.parts) for variant in plans_by_dtype(plan).values()]
    return _need(stored, CHECK_BYTES + max(written) if check == "whole" else 0)


def memory_bound(stored: StoredWeights, check: str) -> int:
    """The memory of an export to float32, for jobs whose plan is not known: usually more than `memory_need`."""
    converted = {"whole": stored.elements, "sections": stored.largest}
    return _need(stored, CHECK_BYTES + FLOAT_BYTES * converted[check] if check in converted else 0)


def planned_memory(job: ExportJob, folder: Path) -> int | None:
    """`memory_need` of a job whose checkpoint lies in a folder. None if its plan follows only from the loaded model."""
    config = load_configuration(folder, trust_remote_code=job.trust_remote_code)
    if job.spec is None and not has_row(config):
        return None
    plan = job_plan(job, job_spec(job, config), config)
    model = model_without_weights(config, plan.parts[0].spec, trust_remote_code=job.trust_remote_code)
    sections = [section_sizes(part, model) for part in plan.parts] if job.check == "sections" else []
    return memory_need(with_weight_bytes(plan, model), stored_weights(folder), job.check, sections)


def _need(stored: StoredWeights, check: int) -> int:
    return IMPORTS_BYTES + _stream_bytes(stored) + stored.bytes + check


def _stream_bytes(stored: StoredWeights) -> int:
    """The anonymous memory of writing weights."""
    return STREAM_BYTES + STREAM_BYTES_OF_LARGEST * stored.largest
