"""What a job depends on: a digest for later runs, and the bytes of its weights, both found without its model."""

from __future__ import annotations

import hashlib
import json
from math import prod
from pathlib import Path

from attrs import asdict, evolve

from onnxfn.export.jobs import ExportJob, build_of
from onnxfn.graphs.fingerprints import package_versions
from onnxfn.specs.digest import digest
from onnxfn.weights.safetensors import entries

SAFETENSORS = "*.safetensors"
OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")
"""Files of weights that are read into memory as a whole."""

TEXT_BYTES = 2**20
"""Files up to this size are compared by content; of larger ones the size and the time of the last change."""

ITEM_BYTES = 4
"""Bytes of a weight in an export in float32, the largest dtype that exports usually have."""

HALF_BYTES = 2
HALF_DTYPES = ("float16", "bfloat16", "q4f16")
"""The dtypes of exports whose weights are converted to 16 bits at most."""


def job_digest(job: ExportJob, folder: Path) -> str:
    """A digest of the checkpoint in a folder, of what the job asks for, and of the versions of the packages.

    It is equal for two runs if the second one would write the same files. Large files are not read: one that was
    touched counts as changed.
    """
    build = build_of(job)
    options = asdict(evolve(job, spec=None, build=None, overwrite=False, checkpoint=""))
    spec = None if job.spec is None else digest(job.spec)
    facts = [json.dumps(options, sort_keys=True, default=str), str(spec), build.fuse, str(build.pretranspose)]
    for source in (folder, *([job.adapter] if job.adapter else [])):
        facts.extend(_file_state(file) for file in sorted(source.iterdir()) if file.is_file())
    return hashlib.sha256("\n".join((*facts, *package_versions())).encode()).hexdigest()


def weight_bytes_of(job: ExportJob, folder: Path) -> int:
    """The bytes of the weights of a job in the largest dtype that it writes, from the shapes in the checkpoint.

    An export needs less where it streams, and more where a library reads a whole file: it is what two exports together
    should leave free, not a measurement.
    """
    dtypes = job.dtypes or (job.edits.dtype,)
    item = HALF_BYTES if {*dtypes} <= {*HALF_DTYPES} else ITEM_BYTES
    stored = entries(folder) if any(folder.glob(SAFETENSORS)) else ()
    others = sum(file.stat().st_size for pattern in OTHER_WEIGHTS for file in folder.glob(pattern))
    return others + item * sum(prod(entry.shape) for entry in stored)


def _file_state(file: Path) -> str:
    state = file.stat()
    if state.st_size <= TEXT_BYTES:
        return f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}"
    return f"{file.name} {state.st_size} {state.st_mtime_ns}"
