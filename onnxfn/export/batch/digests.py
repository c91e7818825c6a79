"""What the result of a job depends on, as a digest for later runs; it is found without the model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from attrs import asdict, evolve

from onnxfn.export.jobs import ExportJob, build_of
from onnxfn.graphs.fingerprints import package_versions
from onnxfn.specs.digest import digest

TEXT_BYTES = 2**20
"""Files up to this size are compared by content; of larger ones the size and the time of the last change."""


def job_digest(job: ExportJob, folder: Path) -> str:
    """A digest of the checkpoint in a folder, of what the job asks for, and of the versions of the packages.

    It is equal for two runs if the second one would write the same files. Large files are not read: one that was
    touched counts as changed.
    """
    build = build_of(job)
    options = asdict(evolve(job, spec=None, build=None, overwrite=False, checkpoint=""))
    spec = None if job.spec is None else digest(job.spec)
    build_facts = (str(build.pretranspose), build.find_repeats.__qualname__)
    facts = [json.dumps(options, sort_keys=True, default=str), str(spec), *build_facts]
    for source in (folder, *([job.adapter] if job.adapter else [])):
        facts.extend(_file_state(file) for file in sorted(source.iterdir()) if file.is_file())
    return hashlib.sha256("\n".join((*facts, *package_versions())).encode()).hexdigest()


def _file_state(file: Path) -> str:
    state = file.stat()
    if state.st_size <= TEXT_BYTES:
        return f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}"
    return f"{file.name} {state.st_size} {state.st_mtime_ns}"
