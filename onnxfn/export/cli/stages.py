"""The stages of a command, or its jobs, on the error stream: one bar on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onnxfn.export.batch.records import BatchEvent, OnBatchEvent
from onnxfn.export.cli.progress import bar_of, stage_bars, stage_lines
from onnxfn.export.cli.texts import Form
from onnxfn.export.run.events import OnEvent


def stages(form: Form = "brief") -> OnEvent:
    """Shows the stages of a command: a bar for what runs on a terminal, a line for each stage elsewhere.

    Bars vanish, unless the form is `verbose`.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    return stage_bars(console, transient=form != "verbose") if console.is_terminal else stage_lines(console)


@contextmanager
def jobs_shown() -> Iterator[OnBatchEvent]:
    """Shows the progress over all jobs: a bar on a terminal, which vanishes; a line for each job that ends elsewhere.

    Both have the number of jobs that ended and the time that is left.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda event: _print_job(console, event)
        return
    with bar_of(console, transient=True) as bar:
        task = bar.add_task("", total=None, amount="")

        def show(event: BatchEvent) -> None:
            bar.update(task, completed=event.completed, total=event.total, amount=_job_line(event), refresh=True)

        yield show


def _print_job(console: Any, event: BatchEvent) -> None:
    if event.status not in ("start", "unchanged"):
        console.print(_job_line(event), style="dim", markup=False, soft_wrap=True)


def _job_line(event: BatchEvent) -> str:
    """How many jobs ended, what happened to which job, and the time that is left."""
    left = "" if event.remaining is None else f", about {event.remaining:.0f} s left"
    return f"{event.completed}/{event.total} {event.status} {event.path}{left}"
