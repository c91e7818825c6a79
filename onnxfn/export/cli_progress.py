"""The stage of an export that is running, shown by the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnxfn.export.events import OnEvent
from onnxfn.specs.reports import Event


@contextmanager
def stage_line() -> Iterator[OnEvent]:
    """Shows the stage that is running in a line of the error stream."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("export") as status:

        def show(event: Event) -> None:
            if event.status == "start":
                status.update(f"{event.stage} {event.part}")
            elif event.status != "progress":
                console.print(f"{event.stage} {event.part}: {event.seconds:.2f} s", style="dim", highlight=False)

        yield show
