"""A limit of processor time."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after so many seconds of this process's processor time."""

    def interrupt(*_: object) -> None:
        raise TimeoutError(f"took longer than {seconds} s")

    former = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
