"""Events: the progress of an export, reported to a function of the caller, which may stop it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

from onnxfn.specs.errors import InvalidSpec, TimedOut
from onnxfn.specs.stored.reports import Event, EventStatus, StageTimer, Tick, no_tick

OnEvent = Callable[[Event], None]
"""Is called when a stage starts, often while it runs, and when it ends or fails. What it raises stops the export."""

PERIOD = 0.25
"""Seconds between two events of a stage that runs."""


class Stopped(BaseException):
    """Carries an exception of the caller's function out of an export: no handler inside takes it for a failed stage."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def title(event: Event) -> str:
    """The stage of an event, with its part if it has one."""
    return f"{event.stage} {event.part}".strip()


def ignore(_: Any) -> None:
    """Ignores an event, or a plan."""


def limited(on_event: OnEvent, timeout: float | None, what: str = "the export") -> OnEvent:
    """A function that calls `on_event`, and raises TimedOut at the first event after `timeout` seconds, if any."""
    if timeout is None:
        return on_event
    if not timeout >= 0:
        raise InvalidSpec(f"timeout is {timeout:g} s; pass 0 or more seconds, or None for no limit")
    start = perf_counter()

    def listen(event: Event) -> None:
        is_late = perf_counter() - start > timeout and event.status != "failure"
        if not is_late or event.status == "start":  # a stage that fails has started
            on_event(event)
        if is_late:
            raise TimedOut(f"{what} takes over {timeout:g} s and was stopped at {title(event)}; pass a longer timeout")

    return listen


@contextmanager
def stage_timer(on_event: OnEvent) -> Iterator[tuple[StageTimer, Mapping[str, float]]]:
    """A timer that reports the start, the progress and the end of each stage, and the seconds of each stage so far."""
    seconds: dict[str, float] = {}
    is_watched = on_event is not ignore
    error = None

    def report(event: Event) -> None:
        try:
            on_event(event)
        except BaseException as error:
            raise Stopped(error) from error

    @contextmanager
    def timed(stage: str, part: str) -> Iterator[Tick]:
        start = perf_counter()
        try:
            with _reported(report, stage, part) as tick:
                yield tick if is_watched else no_tick
        finally:
            seconds[stage] = seconds.get(stage, 0.0) + perf_counter() - start

    try:
        yield timed, seconds
    except Stopped as stopped:
        error = stopped.error
    if error is not None:
        raise error


@contextmanager
def _reported(report: OnEvent, stage: str, part: str) -> Iterator[Tick]:
    """Reports the start and the end, or the failure, of what runs inside. Yields the function to call meanwhile."""
    start = last = perf_counter()
    amounts: tuple[float, ...] = (0, 0, 0)
    calls = calls_before = 0

    def event(status: EventStatus) -> Event:
        completed, total, following = amounts
        step = min(1.0, calls / calls_before) if calls_before else 0  # a step has as many calls as the one before
        return Event(stage, part, perf_counter() - start, status, completed + step * (following - completed), total)

    def tick(*new: float) -> None:
        nonlocal last, amounts, calls, calls_before
        calls += 1
        if new:
            calls, calls_before, amounts = 0, calls if amounts[1] else 0, (*new, new[0])[:3]
        if perf_counter() - last >= PERIOD:
            last = perf_counter()
            report(event("progress"))

    try:
        report(Event(stage, part))
        yield tick
        amounts = (amounts[1],) * 3  # a stage that ends has completed all of it
        report(event("end"))
    except Stopped:
        with suppress(Stopped):  # the export ends with the first exception of the caller's function
            report(event("failure"))
        raise
    except BaseException:
        report(event("failure"))
        raise
