"""Events: the progress of an export, reported to a function of the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter

from onnxfn.specs.reports import Event, StageTimer

OnEvent = Callable[[Event], None]
"""Is called with an event when a stage starts, and with another when it ends."""


def ignore(_: Event) -> None:
    """Ignores an event."""


@contextmanager
def stage_timer(on_event: OnEvent) -> Iterator[tuple[StageTimer, Mapping[str, float]]]:
    """A timer that reports the start and the end of each stage, and the seconds of each stage so far.

    The end is reported after an error, too: a display of the progress then shows that nothing is running.

    >>> with stage_timer(lambda event: print(event.stage, event.seconds is None)) as (timed, seconds):
    ...     with timed("plan", ""):
    ...         pass
    plan True
    plan False
    >>> list(seconds)
    ['plan']
    """
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str, part: str) -> Iterator[None]:
        on_event(Event(stage, part))
        start = perf_counter()
        try:
            yield
        finally:
            spent = perf_counter() - start
            seconds[stage] = seconds.get(stage, 0.0) + spent
            on_event(Event(stage, part, spent))

    yield timed, seconds
