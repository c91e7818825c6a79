"""Work in another thread: the caller is heard meanwhile, and does not wait for what it has given up."""

import gc
import threading
import weakref

import pytest

from onnxfn.specs.stored.reports import no_tick
from onnxfn.weights.chunks import watched


class StoppedError(Exception):
    """Raised by the tick of a test."""


class Session:
    """Stands for a large object that a function returns."""


def stop_now(*_):
    raise StoppedError


def test_the_result_comes_back_and_no_thread_stays():
    before = threading.active_count()
    assert watched(lambda: 3, no_tick, stop_now) == 3
    assert threading.active_count() == before
    with pytest.raises(ZeroDivisionError):
        watched(lambda: 1 / 0, no_tick, lambda: None)


def test_a_function_that_is_given_up_is_not_awaited_and_its_result_is_dropped():
    may_end, flags, sessions, threads = threading.Event(), [], [], []

    def load():
        threads.append(threading.current_thread())
        assert may_end.wait(60)
        session = Session()
        sessions.append(weakref.ref(session))
        return session

    with pytest.raises(StoppedError) as caught:
        watched(load, stop_now, lambda: flags.append("stop"))
    assert flags == ["stop"]
    assert threads[0].is_alive()
    may_end.set()
    threads[0].join(60)
    assert not threads[0].is_alive()
    gc.collect()
    assert sessions[0]() is None
    assert caught.value is not None  # its traceback holds the frames that waited
