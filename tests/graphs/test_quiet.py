"""`quiet` silences one thread and the tracing libraries alone; everything else is heard."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from contextlib import ExitStack

import pytest

from onnxfn.graphs.capture.quiet import quiet


@pytest.fixture
def heard():
    """The messages that the handler of the root logger receives."""
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    yield records
    logging.getLogger().removeHandler(handler)


def in_another_thread(function, *arguments):
    """What a function returns in another thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)))
    thread.start()
    thread.join()
    return results[0]


def test_text_printed_in_this_thread_is_dropped_and_in_another_is_printed(capsys):
    with quiet():
        print("traced")
        print("traced", file=sys.stderr)
        sys.stdout.writelines(["traced"])
        in_another_thread(print, "host")
    print("after")
    assert capsys.readouterr() == ("host\nafter\n", "")


def test_logs_of_the_tracing_libraries_are_dropped_and_the_hosts_are_not(heard):
    with quiet():
        logging.getLogger("onnxscript.rewriter").error("traced")
        logging.getLogger("onnx_ir").error("traced")
        logging.getLogger("host").error("host")
    logging.getLogger("onnxscript.rewriter").error("after")
    assert heard == ["host", "after"]


def test_logs_of_another_thread_are_heard(heard):
    with quiet():
        in_another_thread(logging.getLogger("onnxscript.elsewhere").error, "theirs")
    assert heard == ["theirs"]


def test_warnings_are_not_shown_and_their_settings_are_restored():
    filters, show = list(warnings.filters), warnings.showwarning
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with quiet():
            warnings.warn("traced", stacklevel=1)
        warnings.warn("after", stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["after"]
    assert (list(warnings.filters), warnings.showwarning) == (filters, show)
    assert not [log_filter for handler in logging.getLogger().handlers for log_filter in handler.filters]


def test_streams_and_filters_are_restored_after_an_error():
    before = (sys.stdout, sys.stderr)
    with pytest.raises(ZeroDivisionError), quiet():
        raise ZeroDivisionError
    assert (sys.stdout, sys.stderr) == before


def test_streams_are_restored_when_two_threads_overlap():
    """Thread A enters, thread B enters as soon as it can, A leaves, B leaves."""
    before = sys.stdout, sys.stderr, warnings.showwarning, list(warnings.filters)
    b_started, b_entered, a_left = threading.Event(), threading.Event(), threading.Event()

    def thread_b():
        b_started.set()
        with quiet():
            b_entered.set()
            a_left.wait()

    b = threading.Thread(target=thread_b)
    with quiet():
        b.start()
        b_started.wait()
        b_entered.wait(timeout=0.2)  # B may have to wait until A leaves
    a_left.set()
    b.join()
    assert b_entered.is_set()
    assert (sys.stdout, sys.stderr, warnings.showwarning, list(warnings.filters)) == before


def test_many_threads_at_once_restore_the_streams():
    before = sys.stdout, sys.stderr

    def enter_and_leave():
        for _ in range(20):
            with quiet():
                print("traced")

    threads = [threading.Thread(target=enter_and_leave) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("first", [0, 1])
def test_streams_are_restored_in_whatever_order_two_are_left(first, capsys):
    before = sys.stdout, sys.stderr
    stacks = (ExitStack(), ExitStack())
    for stack in stacks:
        stack.enter_context(quiet())
    stacks[first].close()
    print("traced")
    stacks[1 - first].close()
    assert (sys.stdout, sys.stderr) == before
    print("after")
    assert capsys.readouterr().out == "after\n"


def test_another_thread_sees_a_working_stream(tmp_path, monkeypatch):
    names = ("encoding", "errors", "closed", "newlines", "line_buffering", "buffer", "name", "mode")
    with (tmp_path / "out.txt").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        before = [getattr(stream, name) for name in names], stream.fileno(), stream.isatty(), stream.writable()
        with quiet():
            after = in_another_thread(
                lambda: (
                    [getattr(sys.stdout, name) for name in names],
                    sys.stdout.fileno(),
                    sys.stdout.isatty(),
                    sys.stdout.writable(),
                )
            )
            in_another_thread(lambda: sys.stdout.writelines(["host\n", "host\n"]))
            in_another_thread(lambda: print("host", flush=True))
            with pytest.raises(AttributeError):
                sys.stdout.no_such_name  # noqa: B018
    assert after == before
    assert (tmp_path / "out.txt").read_text() == "host\n" * 3


def test_a_stream_that_a_library_stored_while_quiet_writes_afterwards(capsys):
    """transformers' log handler stores `sys.stderr` when it is first imported, which may be inside `quiet`."""
    with quiet():
        stored = sys.stdout
        stored.write("traced")
    stored.write("after")
    assert capsys.readouterr().out == "after"


def test_a_program_without_a_console_stays_without(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with quiet():
        assert sys.stdout is None
        print("traced")
    assert sys.stdout is None
