"""Jobs as a folder of checkpoints, or as a file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxfn.export.jobs.options import CALLER_KEYS, JOB_KEYS, OPTIONS
from onnxfn.export.jobs.request import ExportRequest, request_of
from onnxfn.export.load.load_errors import CONFIG
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, OnnxfnError, refuse_unknown, shortened
from onnxfn.weights.names import name_fault


def read_jobs(source: str | Path, out: str | Path, **defaults: Any) -> tuple[ExportRequest, ...]:
    """The jobs of a folder or of a file.

    Args:
        source: A folder: each folder in it that has a `config.json` is a checkpoint. Or a file: each line is a job in
            JSON. The keys of a job are `model` and the options of `onnxfn export`, with underscores: `task`, `dtype`,
            `check`, ... Paths of models are relative to the folder of the file. A job cannot have `trust_remote_code`
            and `template_cache`: these are of the caller alone.
        out: The folder of the exports. The path of a job in it is its `out`, or the name of its model's folder.
        defaults: Values for jobs that do not have the key.

    Returns:
        The jobs, in the order of the file, or of the names of the folders.

    Raises:
        ModelNotFound: There is no such folder or file, or no folder with a `config.json` in it.
        UnknownName: A job has an unknown key.
        InvalidSpec: A file has no JSON lines, a job no model, a key of the caller or a wrong type, or leaves `out`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "jobs.jsonl")
    ...     _ = file.write_text('{"model": "org/bert", "task": "fill-mask", "dtype": "q8"}')
    ...     [job] = read_jobs(file, "onnx", check=False)
    >>> job.path, job.task, job.dtypes, job.check
    ('onnx/bert', 'fill-mask', ('q8',), 'none')
    """
    source, out = Path(source), Path(out)
    if source.is_dir():
        models = sorted(file.parent for file in source.glob(f"*/{CONFIG}"))
        if not models:
            raise ModelNotFound(
                f"no folder in {source} has a {CONFIG}; a folder of jobs has a folder for each checkpoint"
            )
        return tuple(_job({"model": str(model)}, out, defaults) for model in models)
    if not source.is_file():
        raise ModelNotFound(f"no folder and no file {str(source)!r}; pass a folder of checkpoints, or a file of jobs")
    lines = enumerate(source.read_bytes().splitlines(), start=1)
    return tuple(_line_job(source, f"line {number}", line, out, defaults) for number, line in lines if line.strip())


def _line_job(file: Path, position: str, line: bytes, out: Path, defaults: Mapping[str, Any]) -> ExportRequest:
    """The job of a line of a file; its errors name the file and the line."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:  # also of UTF-8
        raise InvalidSpec(f"{position} of {file} is no JSON: {error}; write a job a line") from None
    if not isinstance(values, dict):
        raise InvalidSpec(f'{position} of {file} is not a job; write an object such as {{"model": "models/bert"}}')
    try:
        if refused := [key for key in CALLER_KEYS if key in values]:
            advice = f"pass it to the call, for all jobs: {OPTIONS[refused[0]].flag}"
            raise InvalidSpec(f"a job in a file cannot have {refused[0]}; {advice}")
        model = values.get("model")
        # The model is a folder next to the file, or a name on the hub.
        local = file.parent / model if model and isinstance(model, str) else None
        return _job({**values, "model": str(local)} if local and local.exists() else values, out, defaults)
    except OnnxfnError as error:
        raise type(error)(f"{position} of {file}: {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidSpec(f"{position} of {file} has a value of a wrong type: {error}") from None


def _job(values: Mapping[str, Any], out: Path, defaults: Mapping[str, Any]) -> ExportRequest:
    values = {**defaults, **values}
    for key in values:
        refuse_unknown("key", key, ("model", "out", *JOB_KEYS), of="a job")
    model = values.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidSpec("the job has no model; write model = the folder of a checkpoint, or a name on the hub")
    path = values.get("out", Path(model).name)
    if fault := name_fault(path, out):
        raise InvalidSpec(f"out is {shortened(path)}, which {fault}; write the name of a folder in {out}")
    return request_of(model, out / path, {key: value for key, value in values.items() if key not in ("model", "out")})
