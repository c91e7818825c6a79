"""The command `batch`: exports many checkpoints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import typer
from attrs import evolve

from onnxfn.export.batch.job_files import read_jobs
from onnxfn.export.batch.many import batch_preview, export_many
from onnxfn.export.batch.records import batch_content, batch_sections, batch_title
from onnxfn.export.cli.progress import jobs_shown
from onnxfn.export.cli.texts import result_form, say_in_form, screen
from onnxfn.export.jobs.options import OF_ALL_JOBS, Values, with_check
from onnxfn.specs.errors import OutputExists

LOG = "batch.jsonl"
"""The log of a batch, in the folder of its exports."""


def export_listed(jobs: Path, out: Path, values: Values, *, resume: bool, **options: Any) -> None:
    """Runs the jobs of a file or a folder, or prints what it would do; `options` are arguments of `export_many`.

    Exit 1 if a job failed.
    """
    form, is_dry_run = result_form(values), "dry_run" in values
    defaults = with_check({name: values[name] for name in OF_ALL_JOBS if name in values})
    listed = read_jobs(jobs, out, **defaults)
    if is_dry_run:
        result = batch_preview(listed, out / LOG if resume else None)
    else:
        log, overwrite = out / LOG, "overwrite" in values
        if not resume and log.exists():  # of an earlier run that this one does not continue
            if not overwrite:
                advice = "pass --resume to go on, or --overwrite to start again"
                raise OutputExists(f"{log} is the log of an earlier run; {advice}")
            log.unlink()
        listed = tuple(evolve(job, overwrite=job.overwrite or overwrite) for job in listed)
        with jobs_shown() as on_event:
            result = export_many(listed, log=log, on_event=on_event, **options)
    content = partial(batch_content, result, is_dry_run=is_dry_run)
    say_in_form(form, content, result, lambda: screen(batch_title(result), batch_sections(result)))
    if result.failed and not is_dry_run:
        raise typer.Exit(1)
