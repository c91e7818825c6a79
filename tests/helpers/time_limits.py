import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}
"""A timer -> its signal."""


@contextmanager
def limited(
    seconds: float, error: type[BaseException] = TimeoutError, timer: int = signal.ITIMER_PROF
) -> Iterator[None]:
    """Raises an error after so many seconds: of this process's processor time, unless another timer is chosen."""

    def interrupt(*_: object) -> None:
        raise error(f"took longer than {seconds} s")

    former = signal.signal(SIGNALS[timer], interrupt)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(SIGNALS[timer], former)
