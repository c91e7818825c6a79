"""What the command line prints: a screen of a result, all of it, or JSON."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import hypothesis
import onnx
import pytest
import tiny
from attrs import evolve
from command_line import error_of, invoke, succeed
from hypothesis import strategies as st
from rich.console import Console
from transformers import LlamaConfig, LlamaForCausalLM

import onnxfn
from onnxfn.export.cli.flags import say
from onnxfn.export.cli.progress import stage_bars, stages
from onnxfn.export.cli.texts import pipeline_text, result_text
from onnxfn.export.load.loading import load_configuration, load_model
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec, WeightBytes
from onnxfn.specs.conditions import Condition
from onnxfn.specs.results.result_facts import LINES, screen
from onnxfn.specs.stored.reports import Exported, GraphSize, NotQuantized, Report

CLI = Path(onnxfn.__file__).parent / "export" / "CLI.md"
SIX = ("float32", "float16", "q8", "int8", "q4", "q4f16")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=16, num_attention_heads=2)
    config.num_hidden_layers, config.num_key_value_heads = 30, 1
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    checkpoint, out = folder / "checkpoint", folder / "out"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(checkpoint)
    return checkpoint, out, succeed("export", checkpoint, out, "--json").stdout


sections = st.lists(st.tuples(st.text("abc", min_size=1), st.lists(st.tuples(st.text("xyz")), max_size=60)), max_size=9)


@hypothesis.given(sections)
def test_a_screen_has_at_most_40_lines_and_says_how_many_rows_are_left_out(given):
    lines = screen("title", given, "summary").splitlines()
    assert len(lines) <= LINES - 1
    left = sum(int(number) for number in re.findall(r"and (\d+) more lines: --verbose", "\n".join(lines)))
    shown = len(lines) - 2 - sum(bool(rows) for _, rows in given)
    cut = sum(line.strip().endswith("more lines: --verbose") for line in lines)
    assert shown - cut + left == sum(len(rows) for _, rows in given)


def test_a_plan_of_30_layers_in_six_dtypes_is_a_screen(decoder, tmp_path):
    flags = [word for dtype in SIX for word in ("--dtype", dtype)]
    brief = succeed("export", decoder, tmp_path / "out", "--dry-run", *flags)
    assert len(brief.output.splitlines()) <= LINES
    assert "past_key_values.{0..29}.key" in brief.stdout
    assert all(f"model{suffix}.onnx" in brief.stdout for suffix in ("", "_fp16", "_q4", "_q4f16", "_int8"))
    verbose = succeed("export", decoder, tmp_path / "out", "--dry-run", "--verbose", *flags)
    assert len(verbose.stdout.splitlines()) >= len(brief.stdout.splitlines())
    assert "forward: past_key_values.{0..29}.keys" in verbose.stdout


def test_an_export_of_30_layers_prints_at_most_40_lines_and_50_with_its_stages(decoder, tmp_path):
    result = succeed("export", decoder, tmp_path / "out")
    assert "check passed" in result.stdout
    assert len(result.stdout.splitlines()) <= LINES
    assert len(result.output.splitlines()) <= 50
    assert re.search(r"^capture model  [\d.]+ s$", result.stderr, re.MULTILINE)


@pytest.mark.parametrize(("parts", "variants"), [(1, 1), (6, 6), (40, 1), (40, 8)])
def test_a_result_of_many_files_is_a_screen_with_the_figures_of_each(parts, variants, tmp_path):
    names = [f"part_{number}" for number in range(parts)]
    spec = onnxfn.plan(onnxfn.spec_for("bert", "fill-mask"), {"vocab_size": 99}).parts[0].spec
    spec = PlannedSpec(name="bert", inputs=spec.inputs, outputs=spec.outputs, derived="BertModel")
    plan = Plan([Part(name, spec, dtype=f"q{number % variants}") for number, name in enumerate(names)])
    measured = [onnxfn.Measurement(name, "logits", "agreement", 0.9876, 0.5, "300 tokens", True) for name in names]
    measured += [onnxfn.Measurement(name, "q_proj", "weights", 0.9912, 0.5, "all weights", True) for name in names]
    plan = evolve(plan, weight_bytes=[WeightBytes(name, 2_000_000) for name in names])
    result = Exported(
        "out",
        [f"out/onnx/{name}.onnx" for name in names] + ["out/config.json"],
        plan,
        18,
        [("plan", 0.1)],
        report=Report([], [f"case {number} (batch_size=2)" for number in range(50)], (), measured),
        graphs=[GraphSize(name, 1000, 10, bytes=2_000_000) for name in names],
        not_quantized=[NotQuantized(names[0], f"weight.{number}", "ScatterND reads it") for number in range(99)],
        limits=[Condition("length <= 7")],
    )
    lines = result_text(result).splitlines()
    assert len(lines) <= LINES - 1
    assert "check passed" in lines[0]
    assert max(map(len, lines)) <= 80
    assert re.search(r"onnx/part_0.onnx +2.00 MB( +1.0 thousand)?( +10)? +good +0.9876 +0.9912", "\n".join(lines))
    (tmp_path / "model_index.json").write_text("{}")
    pipeline = pipeline_text(str(tmp_path), {"unet": result, "vae": result}).splitlines()
    assert parts == 40 or all(text in "\n".join(pipeline) for text in ("model_index.json", "unet: length <= 7"))
    assert len(pipeline) <= LINES - 1
    assert "check passed" in pipeline[0]


def test_json_is_alone_on_standard_output_and_has_what_report_json_has(exported):
    _, out, text = exported
    content, report = json.loads(text), json.loads((out / "report.json").read_text())
    assert (content["schema"], content["schema_version"], content["dry_run"]) == ("onnxfn-export", 1, False)
    for name in ("name", "task", "check", "left_out", "remarks", "modalities"):
        assert content[name] == report[name]
    graph, stored = content["graphs"]["onnx/model.onnx"], report["graphs"]["onnx/model.onnx"]
    for name in ("inputs", "outputs", "opset", "dtype"):
        assert graph[name] == stored[name]
    assert {*content["files"]} == {*report["files"], "report.json"}
    assert content["bytes"] == sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    assert graph["nodes"] >= len(onnx.load(out / "onnx" / "model.onnx").graph.node)
    assert content["seconds"].keys() >= {"plan", "capture", "write", "check"}


def test_json_of_a_plan_has_the_ports_that_the_graph_has(exported, tmp_path):
    checkpoint, _, text = exported
    plan = json.loads(succeed("export", checkpoint, tmp_path / "out", "--dry-run", "--json").stdout)
    (planned,), (graph,) = plan["graphs"].values(), json.loads(text)["graphs"].values()
    assert plan["dry_run"]
    assert [*plan["graphs"]] == ["onnx/model.onnx"]
    assert planned["inputs"] == graph["inputs"]
    assert planned["outputs"] == [{**port, "shape": [*port["shape"][:-1], None]} for port in graph["outputs"]]
    assert {name: planned[name] for name in ("dtype", "opset")} == {name: graph[name] for name in ("dtype", "opset")}
    assert 0 < planned["weight_bytes"] <= graph["weight_bytes"]
    assert not (tmp_path / "out").exists()


def test_every_field_of_the_json_is_documented(exported):
    content = json.loads(exported[2])
    documented = {*re.findall(r"`([\w.*]+)`", CLI.read_text())}
    assert {*content} - documented == set()
    fields = {name.removeprefix("graphs.*").removeprefix(".") for name in documented}
    assert {key for graph in content["graphs"].values() for key in graph} - fields == set()


def test_an_error_leaves_standard_output_empty_and_two_forms_are_refused(tmp_path):
    result = invoke("export", tmp_path / "none", tmp_path / "out", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    message = error_of("export", tmp_path, tmp_path / "out", "--json", "--verbose")
    assert "--json has everything, and --verbose is for text" in message


# The stages of a command on the error stream, colors, and the progress of loading weights

WRITE = (
    onnxfn.Event("write", "model"),
    onnxfn.Event("write", "model", 0.5, "progress", 1_000_000, 4_000_000),
    onnxfn.Event("copy", "model.safetensors"),
    onnxfn.Event("copy", "model.safetensors", 1.0, "end", 8_000_000, 8_000_000),
    onnxfn.Event("write", "model", 2.0, "end", 4_000_000, 4_000_000),
)


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


@pytest.mark.parametrize("colors", ["", "1"])
@pytest.mark.parametrize("transient", [True, False])
def test_a_stage_is_a_line_where_there_is_no_terminal(transient, colors, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", colors)  # as a notebook does
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    show = stages(transient=transient)
    for event in WRITE:
        show(event)
    assert without_codes(sys.stderr.getvalue()).splitlines() == [
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
    load_model(str(tmp_path), config, onnxfn.spec_for("bert", "fill-mask"), tick=lambda *counts: ticks.append(counts))
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
