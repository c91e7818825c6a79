"""The stages of a command, or its jobs, on the error stream: one bar on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onnxfn.export.batch.records import BatchEvent, OnBatchEvent
from onnxfn.export.cli_results import Form
from onnxfn.export.events import OnEvent
from onnxfn.export.progress import amount
from onnxfn.specs.reports import Event

ENDED = ("end", "failure")


@contextmanager
def stages(form: Form = "brief") -> Iterator[OnEvent]:
    """Shows the stages of a command: a bar for what runs on a terminal, which vanishes; a line for each part elsewhere.

    The form `verbose` has a line for each stage in both. Nothing is drawn between two stages, so that what the command
    prints meanwhile stands alone.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with stage_bar(console) as show_bar:
            yield _both(show_bar, _stage_lines(console)) if form == "verbose" else show_bar
    elif form == "verbose":
        yield _stage_lines(console)
    else:
        with part_lines(console) as show_line:
            yield show_line


@contextmanager
def stage_bar(console: Any) -> Iterator[OnEvent]:
    """A bar for the stage that runs: its name, its part, the amount, the rate and the time that is left.

    Of stages that run inside each other, the innermost is shown.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[amount]}", markup=False),
    )
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    running: dict[str, Any] = {}

    def show(event: Event) -> None:
        key = _name(event)
        if event.status == "start":
            bar.start()
            running[key] = bar.add_task(key, total=None, amount="")
        bar.update(running[key], completed=event.completed, total=event.total or None, amount=amount(event))
        if event.status in ENDED:
            bar.remove_task(running.pop(key))
        for task in running.values():
            bar.update(task, visible=task == [*running.values()][-1])
        if not running:
            bar.stop()

    try:
        yield show
    finally:
        bar.stop()


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
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda event: _print_job(console, event)
        return
    columns = (SpinnerColumn(), BarColumn(bar_width=30), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("", total=None)

        def show(event: BatchEvent) -> None:
            bar.update(task, description=_job_line(event), completed=event.completed, total=event.total)

        yield show


def _print_job(console: Any, event: BatchEvent) -> None:
    if event.status not in ("start", "unchanged"):
        console.print(_job_line(event), style="dim", markup=False, soft_wrap=True)


def _job_line(event: BatchEvent) -> str:
    """How many jobs ended, what happened to which job, and the time that is left."""
    left = "" if event.remaining is None else f", about {event.remaining:.0f} s left"
    return f"{event.completed}/{event.total} {event.status} {event.path}{left}"


def _stage_lines(console: Any) -> OnEvent:
    """A function of events that prints a line at the end of each stage."""

    def show(event: Event) -> None:
        if event.status in ENDED:
            line = f"{event.stage} {event.part}: {event.seconds:.2f} s{_failed(event)}"
            console.print(line, style="dim", markup=False, soft_wrap=True)

    return show


def _both(first: OnEvent, second: OnEvent) -> OnEvent:
    def show(event: Event) -> None:
        first(event)
        second(event)

    return show


def _name(event: Event) -> str:
    return f"{event.stage} {event.part}".strip()


def _failed(event: Event) -> str:
    return " (failed)" if event.status == "failure" else ""
