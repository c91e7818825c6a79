"""Which job starts next: the first one that fits into the memory and whose graphs are not being traced by another."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import frozen

from onnxfn.export.jobs.jobs import ExportJob


@frozen
class Task:
    """A job with what the order of jobs depends on.

    Attributes:
        number: The place of the job among all jobs.
        job: The job.
        kind: A digest that jobs share which differ in the values of weights alone; None if it has none.
        bytes: The memory that the job needs at most.
        digest: What the result depends on.
        attempt: How often the job was started, with this time.
    """

    number: int
    job: ExportJob
    kind: str | None = None
    bytes: int = 0
    digest: str = ""
    attempt: int = 1


def next_task(
    waiting: Sequence[Task], running: Collection[Task], known_kinds: Collection[str | None], memory: int | None
) -> Task | None:
    """The first waiting task that can start; None if all must wait for one that runs.

    A task waits while another one of its kind runs, until one of that kind has succeeded: then its graphs are in the
    template cache. It waits while its bytes and those of the running tasks exceed `memory`. A task that needs more than
    all of `memory` runs alone.

    >>> small, large = Task(0, ExportJob("a", "x"), bytes=1), Task(1, ExportJob("b", "y"), bytes=9)
    >>> next_task([large, small], [], (), 8).number
    0
    >>> next_task([large], [small], (), 8) is None, next_task([large], [], (), 8).number
    (True, 1)
    """
    traced = {task.kind for task in running if task.kind is not None} - {*known_kinds}
    startable = (task for task in waiting if task.kind not in traced)
    if memory is None or not running:
        fitting = next((task for task in startable if memory is None or task.bytes <= memory), None)
        return fitting or next((task for task in waiting if task.kind not in traced), None)
    used = sum(task.bytes for task in running)
    return next((task for task in startable if used + task.bytes <= memory), None)
