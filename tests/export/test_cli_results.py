"""What the command line prints: at most 25 lines of a result, all of it, or JSON."""

import json
import re
from pathlib import Path

import hypothesis
import onnx
import pytest
import tiny
from attrs import evolve
from command_line import error_of, invoke, succeed
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

import onnxfn
from onnxfn.export.cli.texts import LINES, pipeline_text, result_text, screen
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec, WeightBytes
from onnxfn.specs.results.measurements import Measurement
from onnxfn.specs.stored.reports import Exported, GraphSize, NotQuantized, Report

CLI = Path(onnxfn.__file__).parent / "export" / "CLI.md"
SIX = ("float32", "float16", "q8", "int8", "q4", "q4f16")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """The checkpoint of a decoder of 30 layers."""
    folder = tmp_path_factory.mktemp("decoder")
    config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=16, num_attention_heads=2)
    config.num_hidden_layers, config.num_key_value_heads = 30, 1
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A checkpoint, the folder of its export, and what the export printed as JSON."""
    folder = tmp_path_factory.mktemp("bert")
    checkpoint, out = folder / "checkpoint", folder / "out"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(checkpoint)
    return checkpoint, out, succeed("export", checkpoint, out, "--json").stdout


sections = st.lists(
    st.tuples(st.text("abc", min_size=1), st.lists(st.tuples(st.text("xyz")), max_size=60)), max_size=10
)


@hypothesis.given(sections)
def test_a_screen_has_at_most_25_lines_and_says_how_many_rows_are_left_out(given):
    lines = screen("title", given, "summary").splitlines()
    assert len(lines) <= LINES - 1
    left = sum(int(number) for number in re.findall(r"and (\d+) more: --verbose", "\n".join(lines)))
    shown = len(lines) - 2 - sum(bool(rows) for _, rows in given)
    cut = sum(line.strip().endswith("more: --verbose") for line in lines)
    assert shown - cut + left == sum(len(rows) for _, rows in given)


def test_a_plan_of_30_layers_in_six_dtypes_is_a_screen(decoder, tmp_path):
    flags = [word for dtype in SIX for word in ("--dtype", dtype)]
    brief = succeed("export", decoder, tmp_path / "out", "--dry-run", *flags)
    assert len(brief.output.splitlines()) <= LINES
    assert "past_key_values.{0..29}.key" in brief.stdout
    assert all(f"model{suffix}.onnx" in brief.stdout for suffix in ("", "_fp16", "_q4", "_q4f16", "_int8"))
    verbose = succeed("export", decoder, tmp_path / "out", "--dry-run", "--verbose", *flags)
    assert len(verbose.stdout.splitlines()) >= LINES
    assert "forward: past_key_values.{0..29}.keys" in verbose.stdout


def test_an_export_of_30_layers_prints_at_most_25_lines_and_40_with_its_stages(decoder, tmp_path):
    result = succeed("export", decoder, tmp_path / "out")
    assert "check passed" in result.stdout
    assert len(result.stdout.splitlines()) <= LINES
    assert len(result.output.splitlines()) <= 40
    assert re.search(r"^capture model  [\d.]+ s$", result.stderr, re.MULTILINE)


@pytest.mark.parametrize(("parts", "variants"), [(1, 1), (6, 6), (40, 1), (40, 8)])
def test_a_result_of_many_files_is_a_screen_with_the_figures_of_each(parts, variants):
    names = [f"part_{number}" for number in range(parts)]
    spec = onnxfn.plan(onnxfn.spec_for("bert", "fill-mask"), {"vocab_size": 99}).parts[0].spec
    spec = PlannedSpec(name="bert", inputs=spec.inputs, outputs=spec.outputs, derived="BertModel")
    plan = Plan([Part(name, spec, dtype=f"q{number % variants}") for number, name in enumerate(names)])
    measured = [Measurement(name, "logits", "agreement", 0.9876, 0.5, "300 tokens", True) for name in names]
    measured += [Measurement(name, "q_proj", "weights", 0.9912, 0.5, "all weights", True) for name in names]
    plan = evolve(plan, weight_bytes=[WeightBytes(name, 2_000_000) for name in names])
    result = Exported(
        "out",
        [f"out/onnx/{name}.onnx" for name in names] + ["out/config.json"],
        plan,
        18,
        [("plan", 0.1)],
        report=Report([], [f"case {number} (batch_size=2)" for number in range(50)], (), measured),
        graphs=[GraphSize(name, 1000, 10) for name in names],
        not_quantized=[NotQuantized(names[0], f"weight.{number}", "ScatterND reads it") for number in range(99)],
    )
    lines = result_text(result).splitlines()
    assert len(lines) <= LINES - 1
    assert "check passed" in lines[0]
    assert re.search(r"onnx/part_0.onnx +2.00 MB +10 +ok +0.9876 +0.9912", "\n".join(lines))
    pipeline = pipeline_text("out", {"unet": result, "vae": result}).splitlines()
    assert len(pipeline) <= LINES - 1
    assert "check passed" in pipeline[0]


def test_json_is_alone_on_standard_output_and_has_what_report_json_has(exported):
    _, out, text = exported
    content = json.loads(text)
    report = json.loads((out / "report.json").read_text())
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
