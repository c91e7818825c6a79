"""Silence is for one thread and for the tracing libraries; the host's own words are heard."""

from __future__ import annotations

import logging
import sys
import threading
import warnings

import pytest

from onnxfn.graphs.capture.quiet import quiet


@pytest.fixture
def heard():
    """What the root logger's handler hears."""
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    yield records
    logging.getLogger().removeHandler(handler)


def test_what_is_printed_in_this_thread_is_not_heard_and_in_another_is(capsys):
    with quiet():
        print("traced")
        print("traced", file=sys.stderr)
        other = threading.Thread(target=print, args=("host",))
        other.start()
        other.join()
    print("after")
    assert capsys.readouterr() == ("host\nafter\n", "")


def test_the_tracing_libraries_log_nothing_and_the_host_does(heard):
    with quiet():
        logging.getLogger("onnxscript.rewriter").error("traced")
        logging.getLogger("onnx_ir").error("traced")
        logging.getLogger("host").error("host")
    logging.getLogger("onnxscript.rewriter").error("after")
    assert heard == ["host", "after"]


def test_another_threads_logs_are_heard(heard):
    with quiet():
        other = threading.Thread(target=lambda: logging.getLogger("onnxscript.elsewhere").error("theirs"))
        other.start()
        other.join()
    assert heard == ["theirs"]


def test_warnings_are_not_shown_and_what_was_set_up_stays():
    filters, shown = list(warnings.filters), warnings.showwarning
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with quiet():
            warnings.warn("traced", stacklevel=1)
        warnings.warn("after", stacklevel=1)
    assert [str(one.message) for one in seen] == ["after"]
    assert (list(warnings.filters), warnings.showwarning) == (filters, shown)
    assert not [made for handler in logging.getLogger().handlers for made in handler.filters]


def test_streams_and_filters_are_put_back_after_an_error():
    before = (sys.stdout, sys.stderr)
    with pytest.raises(ZeroDivisionError), quiet():
        raise ZeroDivisionError
    assert (sys.stdout, sys.stderr) == before
