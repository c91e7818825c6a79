"""The stages of a command on the error stream, colors, and the progress of loading weights."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest
import tiny
from command_line import Terminal
from rich.console import Console

from onnxfn import Event, spec_for
from onnxfn.export.cli.flags import say
from onnxfn.export.cli.progress import stage_bars, stages
from onnxfn.export.load.loading import load_configuration, load_model

WRITE = (
    Event("write", "model"),
    Event("write", "model", 0.5, "progress", 1_000_000, 4_000_000),
    Event("copy", "model.safetensors"),
    Event("copy", "model.safetensors", 1.0, "end", 8_000_000, 8_000_000),
    Event("write", "model", 2.0, "end", 4_000_000, 4_000_000),
)


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of which nothing is known but its kind."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal()


def without_codes(text):
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)


def test_the_bar_has_the_rate_and_the_time_that_is_left_and_vanishes(terminal):
    show = stage_bars(Console(file=terminal, width=120), transient=True)
    for event in WRITE[:2]:
        show(event)
    started = terminal.getvalue()
    for event in WRITE[2:]:
        show(event)
    assert "write model" in without_codes(started)
    assert "1.0/4.0 MB  0.5 s  2.0 MB/s  0:02 left" in without_codes(started)
    assert re.search(r"\x1b\[2K(\x1b\[\?25h|\r)*$", terminal.getvalue())  # the line of the bar is erased


@pytest.mark.parametrize("transient", [True, False])
def test_a_stage_is_a_line_where_there_is_no_terminal(transient, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    show = stages(transient=transient)
    for event in WRITE:
        show(event)
    assert sys.stderr.getvalue().splitlines() == [
        "copy model.safetensors  8.0/8.0 MB  1.0 s  8.0 MB/s",
        "write model  4.0/4.0 MB  2.0 s  2.0 MB/s",
    ]


@pytest.mark.parametrize(
    ("variable", "has_colors"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_has_colors_unless_it_is_asked_to_have_none(variable, has_colors, terminal, monkeypatch):
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", terminal)
    text = "bert · check passed\n  files\n    model.onnx  312 nodes"
    say(text)
    assert without_codes(terminal.getvalue()) == f"{text}\n"
    assert bool(re.search(r"\x1b\[(\d+;)*3[1-7]m", terminal.getvalue())) == has_colors


def test_a_pipe_gets_the_text_alone(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    say("check passed")
    assert sys.stdout.getvalue() == "check passed\n"


def test_loading_counts_the_weights_of_the_model_and_shows_no_bar_of_transformers(tmp_path, capfd):
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(tmp_path)
    capfd.readouterr()
    ticks = []
    config = load_configuration(tmp_path)
    load_model(str(tmp_path), config, spec_for("bert", "fill-mask"), tick=lambda *counts: ticks.append(counts))
    assert capfd.readouterr().err == ""
    total = len(ticks)
    assert total > 10
    assert ticks == [(number, total) for number in range(1, total + 1)]


def test_on_a_terminal_a_file_gets_the_plan_and_the_terminal_the_bar(tmp_path):
    """Standard output is a file, and only the error stream is a terminal."""
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(tmp_path / "bert")
    words = [sys.executable, "-m", "onnxfn", "export", str(tmp_path / "bert"), str(tmp_path / "out"), "--no-check"]
    ours, theirs = pty.openpty()
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with (tmp_path / "stdout").open("w") as stdout:
        process = subprocess.Popen([*words, "--layout", "optimum"], stdout=stdout, stderr=theirs, env=variables)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # Linux, once the other end is closed
        pass
    assert process.wait() == 0
    text = without_codes(shown.decode())
    assert (tmp_path / "stdout").read_text().startswith("task: fill-mask (found)\nbert · fill-mask · opset 18 · unch")
    assert "capture model" in text
    assert "load " in text
    assert "Loading weights" not in text
    assert "task:" not in text
