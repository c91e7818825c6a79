"""Every error at the command line is one line; the traceback is in a file, or on the terminal with --debug."""

import errno
import re
from pathlib import Path

import pytest
import typer

from onnxfn.export.cli import flags
from onnxfn.export.cli.flags import one_line_errors
from onnxfn.specs.errors import ADVICE, InvalidSpec, OnnxfnError, WriteFailed, write_errors

TRACEBACK_FILE = re.compile(r" \(traceback: (.+)\)$")


def lines_for(error, capsys, *, debug=False):
    with pytest.raises(typer.Exit) as caught, one_line_errors(debug=debug):
        raise error
    assert caught.value.exit_code == 1
    return capsys.readouterr().err.splitlines()


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("message", "notes"), [("no such axis", ()), ("no file 'a\nb'", ()), ("no such axis", ("torch 9.0 is installed",))]
)
def test_an_error_of_onnxfn_is_its_message_in_a_line_and_its_notes(message, notes, capsys):
    error = InvalidSpec(message)
    for note in notes:
        error.add_note(note)
    assert lines_for(error, capsys) == [f"error: {message}".replace("\n", " "), *notes]


CAUSED = [
    (caused(InvalidSpec("the file is damaged"), ValueError("header")), "the file is damaged"),
    (MemoryError("Unable to allocate 8 GiB"), "not enough memory: Unable to allocate 8 GiB"),
    (KeyError("layers"), "unexpected error: KeyError: 'layers'; please report it as a fault of onnxfn"),
    (RuntimeError("first\nsecond"), "unexpected error: RuntimeError: first; please report it"),
    (PermissionError(errno.EACCES, "Permission denied", "/out"), "permission denied: /out; change the permissions"),
]


@pytest.mark.parametrize(("error", "start"), CAUSED, ids=[type(error).__name__ for error, _ in CAUSED])
def test_the_line_names_a_file_with_the_traceback(error, start, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (line,) = lines_for(error, capsys)
    assert line.startswith(f"error: {start}")
    file = Path(TRACEBACK_FILE.search(line)[1])
    assert [file] == list(tmp_path.iterdir())
    assert "Traceback (most recent call last):" in file.read_text()


def test_the_traceback_is_on_the_terminal_with_debug(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines = lines_for(KeyError("layers"), capsys, debug=True)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith("error: unexpected error: KeyError: 'layers'")
    assert list(tmp_path.iterdir()) == []


def test_the_line_stays_when_no_file_can_be_written(capsys, monkeypatch):
    monkeypatch.setattr(flags, "NamedTemporaryFile", full_disk)
    (line,) = lines_for(KeyError("layers"), capsys)
    assert line.endswith("(traceback: not saved; repeat the command with --debug)")


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("error", [typer.Exit(3), typer.Abort(), BrokenPipeError(), KeyboardInterrupt()])
def test_what_typer_turns_into_an_exit_code_passes(error):
    with pytest.raises(type(error)) as caught, one_line_errors(debug=False):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("number", ADVICE)
def test_an_error_of_the_system_says_what_to_do(number, tmp_path):
    path = tmp_path / "out"
    with pytest.raises(WriteFailed) as caught, write_errors(path):
        raise OSError(number, "Reason", "/elsewhere")
    assert str(caught.value).startswith(f"cannot write {path}: reason: /elsewhere; ")
    assert str(caught.value).endswith(ADVICE[number])
    assert caught.value.__cause__.errno == number


def test_a_full_disk_names_the_bytes(tmp_path):
    with pytest.raises(WriteFailed) as caught, write_errors(tmp_path / "out", lambda: 1234567):
        full_disk()
    assert re.search(
        r"device; the weights take up to 1,234,567 bytes, [\d,]+ bytes are free; free space", str(caught.value)
    )


def test_an_error_of_onnxfn_that_is_an_os_error_stays(tmp_path):
    with pytest.raises(OnnxfnError, match="exists") as caught, write_errors(tmp_path):
        raise WriteFailed("exists")
    assert caught.value.__cause__ is None
