"""The progress of an export, or of many: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from onnxfn.export.batch.records import BatchEvent, OnBatchEvent
from onnxfn.export.run.events import OnEvent, title
from onnxfn.specs.stored.reports import Event

ENDED = ("end", "failure")
"""The statuses of an event that is the last of its stage."""


def progress(file: TextIO | None = None) -> OnEvent:
    """A function of events that draws a bar for each stage on a terminal, and prints a line for each elsewhere.

    Args:
        file: Where it is drawn. None: the standard error stream; in a notebook the standard output.

    Returns:
        What `export` takes as `on_event`. Each export needs its own.

    >>> import io
    >>> from onnxfn import Event, progress
    >>> text = io.StringIO()
    >>> show = progress(text)
    >>> show(Event("check", "model"))
    >>> show(Event("check", "model", 2.0, "end", 9, 9))
    >>> print(text.getvalue().strip())
    check model  9/9 cases  2.0 s
    """
    return stages(file, transient=False)


def stages(file: TextIO | None = None, *, transient: bool) -> OnEvent:
    """The same as `progress(file)`; its bars vanish if they are `transient`."""
    console = _console(file)
    if console.file.isatty():
        return stage_bars(console, transient=transient)

    def show(event: Event) -> None:
        if event.status in ENDED:
            _print_line(console, f"{title(event)}  {amount(event)}")

    return show


@contextmanager
def jobs_shown() -> Iterator[OnBatchEvent]:
    """Shows ended jobs and the remaining time: on a terminal by a bar that vanishes at the end, elsewhere by lines."""
    console = _console()
    if not console.file.isatty():  # a notebook asks for colors, and is no terminal
        yield lambda event: _print_job(console, event)
        return
    with _bar(console, transient=True) as bar:
        task = bar.add_task("", total=None, amount="")

        def show(event: BatchEvent) -> None:
            bar.update(task, completed=event.completed, total=event.total, amount=_job_line(event), refresh=True)

        yield show


def _console(file: TextIO | None = None) -> Any:
    """The console for progress: a file, or the standard error stream, which notebooks print in red, so not there."""
    from rich.console import Console

    to_stderr = file is None and "ipykernel" not in sys.modules
    return Console(file=file, stderr=to_stderr, highlight=False, force_jupyter=False)


def stage_bars(console: Any, *, transient: bool) -> OnEvent:
    """A function of events that draws a bar for the innermost stage that runs; earlier bars stay unless `transient`."""
    running: dict[str, Any] = {}
    drawn: list[Any] = []

    def show(event: Event) -> None:
        if not drawn:
            drawn.append(_bar(console, transient=transient))
            drawn[0].start()
        (bar,), name = drawn, title(event)
        if name not in running:
            running[name] = bar.add_task(name, total=None, amount="")
        bar.update(running[name], completed=event.completed, total=event.total or None, amount=amount(event))
        if event.status in ENDED:
            bar.update(running.pop(name), visible=not transient)
        for task in running.values():
            bar.update(task, visible=task == [*running.values()][-1])
        bar.refresh()
        if not running:
            bar.stop()
            drawn.clear()

    return show


def _bar(console: Any, *, transient: bool) -> Any:
    """A bar of rich with a text, the bar and an amount, which is drawn when it is told to."""
    from rich.progress import BarColumn, Progress, TextColumn

    name, amount_so_far = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[amount]}"))
    columns = (name, BarColumn(bar_width=30), amount_so_far)
    return Progress(
        *columns, console=console, transient=transient, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    )


def _print_job(console: Any, event: BatchEvent) -> None:
    if event.status not in ("start", "unchanged"):
        _print_line(console, _job_line(event))


def _print_line(console: Any, line: str) -> None:
    console.print(line, style="dim", markup=False, soft_wrap=True)


def _job_line(event: BatchEvent) -> str:
    """The number of ended jobs, the last event and its job, and the remaining time."""
    left = f", about {event.remaining:.0f} s left" if event.remaining else ""
    return f"{event.completed}/{event.total} {event.status} {event.path}{left}"


def amount(event: Event) -> str:
    """The progress of a stage, the seconds so far, the rate, the remaining time, and whether it failed."""
    is_bytes = event.stage in ("write", "copy", "complete")
    text = rate = left = ""
    if event.total:
        unit, name = (10**6, "MB") if event.total >= 10**5 else (10**3, "kB")  # no 0.0 MB
        sizes = (f"{size / unit:.1f}" if is_bytes else str(int(size)) for size in (event.completed, event.total))
        text = f"{'/'.join(sizes)} {name if is_bytes else 'weights' if event.stage == 'load' else 'cases'}"
    if event.completed >= 10**5 and event.seconds and is_bytes:
        rate = f"{event.completed / 10**6 / event.seconds:.1f} MB/s"
    if event.remaining is not None and event.status == "progress":
        left = "{}:{:02} left".format(*divmod(round(event.remaining), 60))
    return "  ".join(filter(None, (text, f"{event.seconds:.1f} s", rate, left, "failed" * (event.status == "failure"))))
