"""The stages of a command, or its jobs, on the error stream: one bar on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onnxfn.export.batch.records import BatchEvent, OnBatchEvent
from onnxfn.export.cli_results import Form
from onnxfn.export.events import OnEvent
from onnxfn.export.progress import ENDED, bar_of, stage_bars, stage_lines
from onnxfn.specs.reports import Event


@contextmanager
def stages(form: Form = "brief") -> Iterator[OnEvent]:
    """Shows the stages of a command: a bar for what runs on a terminal, which vanishes; a line for each part elsewhere.

    The form `verbose` has a line for each stage in both.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if form == "verbose" and console.is_terminal:
        yield _both(stage_bars(console, transient=True), stage_lines(console))
    elif console.is_terminal:
        yield stage_bars(console, transient=True)
    elif form == "verbose":
        yield stage_lines(console)
    else:
        with part_lines(console) as show_line:
            yield show_line


@contextmanager
def part_lines(console: Any) -> Iterator[OnEvent]:
    """Prints the stages of a part, in a row, as one line, when a stage of another part ends, and at the end.

    So an export of several dtypes has one line for each of them.
    """
    waiting: list[Event] = []

    def print_line() -> None:
        if waiting:
            stages = ", ".join(f"{event.stage} {event.seconds:.2f} s{_failed(event)}" for event in waiting)
            name = f"{waiting[0].part}: " if waiting[0].part else ""
            console.print(f"{name}{stages}", style="dim", markup=False, soft_wrap=True)
            waiting.clear()

    def show(event: Event) -> None:
        if event.status in ENDED:
            if waiting and waiting[-1].part != event.part:
                print_line()
            waiting.append(event)

    try:
        yield show
    finally:
        print_line()


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


def _both(first: OnEvent, second: OnEvent) -> OnEvent:
    def show(event: Event) -> None:
        first(event)
        second(event)

    return show


def _failed(event: Event) -> str:
    return " (failed)" if event.status == "failure" else ""
