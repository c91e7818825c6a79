"""A bar of the progress of an export, for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, TextIO

from onnxfn.export.run.events import OnEvent, title
from onnxfn.specs.stored.reports import Event

BYTE_STAGES = ("write", "copy", "complete")
"""The stages whose progress is counted in bytes."""

MEGABYTE = 1_000_000

ENDED = ("end", "failure")
"""The statuses of an event that is the last of its stage."""


def progress(file: TextIO | None = None) -> OnEvent:
    """A function of events that draws a bar for each stage, in a terminal or a notebook, and lines elsewhere.

    Args:
        file: Where it is drawn. None: the standard error stream, or the cell of a notebook.

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
    from rich.console import Console

    if file is None and Console().is_jupyter:
        return stages_table(_draw_in_cell())
    console = Console(file=file, stderr=file is None, force_jupyter=False)
    return stage_bars(console) if console.is_terminal else stage_lines(console)


def stage_bars(console: Any, *, transient: bool = False) -> OnEvent:
    """A function of events that draws a bar for the stage that runs; of stages inside each other, for the innermost.

    It is drawn at each event: it has no thread, and leaves the standard streams alone. Between two stages nothing is
    drawn, and the bars before stay, unless they are `transient`.
    """
    running: dict[str, Any] = {}
    drawn: list[Any] = []

    def show(event: Event) -> None:
        if not drawn:
            drawn.append(bar_of(console, transient=transient))
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


def stage_lines(console: Any) -> OnEvent:
    """A function of events that prints a line at the end of each stage."""

    def show(event: Event) -> None:
        if event.status in ENDED:
            console.print(
                f"{title(event)}  {amount(event)}", style="dim", markup=False, highlight=False, soft_wrap=True
            )

    return show


def bar_of(console: Any, *, transient: bool) -> Any:
    """A bar of rich with a text, the bar and an amount, which is drawn when it is told to."""
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[amount]}", markup=False),
    )
    return Progress(
        *columns,
        console=console,
        transient=transient,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def stages_table(draw: Callable[[str], None]) -> OnEvent:
    """A function of events that draws all stages so far as an HTML table: name, bar, amount.

    >>> pages = []
    >>> stages_table(pages.append)(Event("check", "model", 2.0, "progress", 3, 9))
    >>> '<progress value="3" max="9"></progress>' in pages[0], "3/9 cases" in pages[0]
    (True, True)
    """
    rows: dict[str, str] = {}

    def show(event: Event) -> None:
        key = title(event)
        share = f' value="{event.completed}" max="{event.total}"' if event.total else ""
        share = ' value="1" max="1"' if event.status == "end" else share
        bar = "" if event.status == "failure" else f"<progress{share}></progress>"
        cells = (escape(key), bar, amount(event))
        rows[key] = "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells)
        draw(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows.values())}</table>")

    return show


def _draw_in_cell() -> Callable[[str], None]:
    """A function that replaces what the cell of a notebook shows by an HTML page."""
    from IPython.display import HTML, display

    shown = display(HTML(""), display_id=True)
    return lambda page: shown.update(HTML(page))


def amount(event: Event) -> str:
    """How much of a stage is ready, the seconds so far, the rate and the time that is left, and whether it failed.

    >>> amount(Event("write", "model", 2.0, "progress", 1_000_000, 4_000_000))
    '1.0/4.0 MB  2.0 s  0.5 MB/s  0:06 left'
    """
    is_bytes = event.stage in BYTE_STAGES
    counts = rate = left = ""
    if event.total:
        sizes = (f"{size / MEGABYTE:.1f}" if is_bytes else str(size) for size in (event.completed, event.total))
        counts = f"{'/'.join(sizes)} {'MB' if is_bytes else 'weights' if event.stage == 'load' else 'cases'}"
    if event.total and event.completed and event.seconds and is_bytes:
        rate = f"{event.completed / MEGABYTE / event.seconds:.1f} MB/s"
        minutes, seconds = divmod(round(event.seconds * (event.total / event.completed - 1)), 60)
        left = f"{minutes}:{seconds:02} left" if event.status == "progress" else ""
    failed = "failed" if event.status == "failure" else ""
    return "  ".join(filter(None, (counts, f"{event.seconds:.1f} s", rate, left, failed)))
