"""What makes two exports the same: digests of facts about checkpoints, jobs, and the versions of packages."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, evolve

from onnxfn.export.jobs.request import ExportRequest, build_of
from onnxfn.export.load.load_errors import checkpoint_fault
from onnxfn.graphs.templates import fingerprints
from onnxfn.graphs.templates.fingerprints import package_versions
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, OnnxfnError
from onnxfn.specs.stored.serialize import digest
from onnxfn.weights.checkpoint_files import checkpoint_files, patterns_of
from onnxfn.weights.checkpoint_links import entries, read_header
from onnxfn.weights.digests import sha256_of
from onnxfn.weights.layouts import CONFIG_FILES
from onnxfn.weights.names import file_fault
from onnxfn.weights.packed.quantized_checkpoint import INDEX_FILE, SINGLE_FILE

TEXT_BYTES = 2**20
"""Files up to this size are compared by content; of larger ones the size and the time of the last change."""


def job_digest(job: ExportRequest, source: Path) -> str:
    """A digest of a checkpoint, the job and the versions of packages: the same files, the same digest."""
    # Large files are not read: a touched one counts as changed. A download without weights has its commit.
    options = asdict(evolve(job, spec=None, build=None, overwrite=False, checkpoint=""))
    spec, build = None if job.spec is None else digest(job.spec), build_of(job)
    facts = [json.dumps(options, sort_keys=True, default=str), str(spec)]
    facts.extend((str(build.pretranspose), build.find_repeats.__qualname__, str(build.source_lines)))
    is_download = not Path(job.checkpoint).exists()
    facts.extend((source.parent.parent.name, source.name) if is_download else ())
    for folder in (*([] if is_download else [source]), *([job.adapter] if job.adapter else [])):
        for file in sorted(_files(folder, patterns_of(job.library))):
            state = file.stat()
            known = sha256_of(file) if state.st_size <= TEXT_BYTES else f"{state.st_size} {state.st_mtime_ns}"
            facts.append(f"{file.relative_to(folder)} {known}")
    return _sha256((*facts, *package_versions()))


def _files(source: Path, patterns: tuple[str, ...]) -> set[Path]:
    """The files that an export of a source reads or copies, and the others at the top of its folder; links excepted."""
    if source.is_file():
        return {source}
    top = {file for file in source.iterdir() if file.is_file() and file_fault(file, source) is None}
    return {*top, *checkpoint_files(source, patterns)}


def fingerprint(model_or_folder: Any, *, weights: bool = False) -> str | None:
    """The SHA-256 of everything in a model or checkpoint that graphs depend on; a template cache finds graphs by it.

    It covers the configuration, the modules, the shapes and dtypes of parameters, and the versions of onnxfn, torch,
    transformers and the other packages that build graphs or define the model. A model and its checkpoint have different
    fingerprints: one is computed from the modules, the other from the files.

    Args:
        model_or_folder: A model, or the folder of a checkpoint.
        weights: Whether it covers the values of the weights, too: a cache of files needs them, one of graphs does not.

    Returns:
        64 hexadecimal digits, or None if what the graphs depend on cannot be known. That is the case for a model with
        a class or a function of the user, or a checkpoint with code, adapter, quantized weights, or not in safetensors.

    Raises:
        ModelNotFound: there is no such folder.

    >>> import torch
    >>> module = torch.nn.Linear(4, 2)
    >>> same_size = torch.nn.Linear(4, 2)
    >>> fingerprint(module) == fingerprint(same_size)
    True
    >>> fingerprint(module, weights=True) == fingerprint(same_size, weights=True)
    False
    """
    if not isinstance(model_or_folder, (str, Path)):
        of_graph = fingerprints.fingerprint(model_or_folder)
        return _sha256((of_graph, fingerprints.weights_digest(model_or_folder))) if weights and of_graph else of_graph
    folder = Path(model_or_folder)
    if not folder.is_dir():
        raise ModelNotFound(f"no folder {str(folder)!r}; a fingerprint is that of a model or of a checkpoint's folder")
    of_graph = _checkpoint_fingerprint(folder)
    files = sorted(folder.glob("*.safetensors"))
    return _sha256((of_graph, *map(sha256_of, files))) if weights and of_graph else of_graph


def _checkpoint_fingerprint(folder: Path) -> str | None:
    """A digest that is equal for checkpoints that differ only in the values of their weights."""
    try:
        # A checkpoint with code of its own, adapters, quantized weights or other files has to be loaded: None.
        checkpoint_files(folder)
        config = json.loads((folder / CONFIG_FILES["config"]).read_bytes())
        unsafe = _asks_for_more(config) or any(folder.glob("*.py")) or any(folder.glob("adapter_*"))
        unsafe = unsafe or checkpoint_fault(folder) is not None
        facts = [json.dumps(config, sort_keys=True), *_weight_headers(folder)]
        generation = folder / CONFIG_FILES["generation_config"]
        facts.append(sha256_of(generation) if generation.exists() else "no such file")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OnnxfnError):
        return None
    installed = sorted(info.name for path in sys.path for info in Path(path or ".").glob("*.dist-info"))
    facts.extend((*package_versions(), *installed))
    return None if unsafe else _sha256(facts)


def _sha256(facts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _weight_headers(folder: Path) -> Iterator[str]:
    """The headers of the safetensors files of a checkpoint; InvalidSpec if they are not what transformers reads."""
    files = sorted(folder.glob("*.safetensors"))
    index = folder / INDEX_FILE
    if [file.name for file in files] != [SINGLE_FILE] or index.exists():
        weight_map = {name: folder / file for name, file in json.loads(index.read_bytes())["weight_map"].items()}
        tensors = {entry.name: entry.file for entry in entries(folder)}
        if files != sorted(set(weight_map.values())) or weight_map != tensors:
            raise InvalidSpec(f"{index} does not list the tensors that are in {folder}")
    yield from (f"{file.name} {json.dumps(read_header(file)[0])}" for file in files)


def _asks_for_more(config: Any) -> bool:
    """Whether a configuration has, at any depth, a key whose effect on the model is known only when it is loaded."""
    if isinstance(config, list):
        return any(map(_asks_for_more, config))
    unsafe = ("auto_map", "quantization_config", "compression_config")
    return isinstance(config, Mapping) and (any(map(config.get, unsafe)) or _asks_for_more([*config.values()]))
