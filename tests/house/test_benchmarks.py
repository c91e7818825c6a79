"""The arithmetic of the benchmarks, and the tables of their last results."""

import doctest
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("module", ["figures", "models", "answers", "stored_bits"])
def test_the_examples_are_right(module):
    result = doctest.testmod(import_module(module))
    assert result.attempted
    assert not result.failed


def test_a_requirement_holds_up_to_its_limit_and_not_beyond_it():
    required = import_module("figures").Required
    verdicts = [required("ratio", figure, 1.0).verdict for figure in (None, 1.0, 1.01)]
    assert verdicts == ["not measured", "holds", "does not hold"]


def test_a_ratio_is_the_median_of_the_ratios_of_pairs():
    """A slow round is slow for both exporters: the ratio of the medians would be 0.1."""
    assert import_module("figures").ratio([1.0, 1.0, 50.0], [2.0, 10.0, 100.0]) == 0.5


def test_a_model_that_the_peer_cannot_export_counts_in_no_ratio():
    rows = [{"ratio": 3.0, "whole ratio": None}, {"ratio": None}, {"ratio": 2.0, "whole ratio": 0.5}]
    measured = [requirement.measured for requirement in import_module("export_real").required(rows)]
    assert measured == [2.5, 3.0, 0.5]


def test_a_process_that_ends_instead_of_an_answer_is_a_problem():
    program = "import sys; print('{\"seconds\": 1.0}', flush=True) if input() == 'a' else None; input(); sys.exit(3)"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as process:
        answers = [import_module("export_real").answer(process, model) for model in "ab"]
    assert answers == [{"seconds": 1.0}, {"problem": "cannot: ends with 3, limit 120 s"}]


def test_a_process_is_measured_with_its_children():
    child = "import time; held = b'x' * 60_000_000; time.sleep(0.2); print(len(held))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    process = import_module("processes").run_process([sys.executable, "-c", parent])
    assert (process.code, process.output.strip()) == (0, "60000000")
    assert process.anonymous > 60_000_000
    assert process.resident >= process.anonymous


def test_the_tables_are_written_from_the_last_results():
    readme = import_module("readme")
    results = readme.read_results()
    text = readme.benchmarks_readme(results)
    assert [name for name, *_ in readme.TABLES if f"| `{name}` |" not in text] == []
    assert len(readme.key_figures(results).splitlines()) == len(readme.KEY_FIGURES) + 6
    worst = max(results["export_real"]["rows"], key=lambda row: row.get("whole ratio") or 0)
    assert f"command lines: {worst['model']} " in readme.key_figures(results)
    rows = [row for name, _, columns in readme.TABLES for row in readme.section(results[name], columns).splitlines()]
    assert [row for row in rows if row.startswith(("| llama |", "| bert |"))] != []


def test_a_shard_of_the_large_checkpoint_is_read_by_safetensors(tmp_path):
    deserialize, write_shard = import_module("safetensors").deserialize, import_module("large_checkpoints").write_shard
    shapes, one = {"a": [3, 5], "b": [7]}, b"\x80\x3f"  # 1.0 in bfloat16
    for number, block in ((b"\0\0", None), (one, one * 4)):
        write_shard(tmp_path / "shard.safetensors", shapes, block)
        tensors = dict(deserialize((tmp_path / "shard.safetensors").read_bytes()))
        assert {name: tensor["shape"] for name, tensor in tensors.items()} == shapes
        assert all(tensor["dtype"] == "BF16" for tensor in tensors.values())
        assert [tensors[name]["data"] for name in "ab"] == [number * 15, number * 7]


def test_the_time_that_an_export_may_take_is_that_of_imports_graph_and_copying():
    large, process = import_module("large"), import_module("processes").Process
    lines = "capture model  2.0 s\npasses model  1.0 s\nwrite model  8.0/8.0 MB  3.0 s  2.7 MB/s\n"
    run = process(9.0, 9.0, 0, int(1.4e9), 0, lines)
    imports = process(4.0, 4.0, 0, int(1e9), 0, "")
    exporter = large.EXPORTERS["onnxfn float16 unchecked"]
    row = large.Row(large.CHECKPOINTS["llama-1b-bf16"], exporter, (run,), (imports,), (2.0,), 10**9)
    figures = large.figures(row, 4 * 10**9)
    assert (figures["allowed s"], figures["seconds / allowed"]) == (10.0, 0.9)
    assert round(figures["above imports GB"], 6) == 0.4
    assert [requirement.verdict for requirement in large.required([figures])] == ["holds", "holds"]


def test_figures_of_exporters_that_are_not_run_stay_in_the_results(tmp_path):
    large, file = import_module("large"), tmp_path / "large.json"
    names = [("llama-1b-bf16", "onnxfn"), ("llama-1b-bf16", "mobius float16"), ("llama-8b of zeros", "onnxfn q4")]
    rows = [{"model": model, "exporter": exporter} for model, exporter in names]
    assert large.rows_of_before(file, rows) == []
    file.write_text(json.dumps({"rows": rows}))
    assert large.rows_of_before(file, rows[:1]) == rows[1:]
    assert large.rows_of_before(file, [{"model": "llama-8b", "exporter": "onnxfn q4"}]) == rows[:2]


def test_the_large_checkpoint_is_refused_where_no_export_of_it_fits(tmp_path, monkeypatch):
    large_checkpoints = import_module("large_checkpoints")
    free = {"bytes": 10**9}
    monkeypatch.setattr(large_checkpoints.shutil, "disk_usage", lambda _: type("Usage", (), {"free": free["bytes"]}))
    with pytest.raises(SystemExit, match="1 GB free"):
        large_checkpoints.eight_billion(tmp_path)
    free["bytes"] = 30 * 10**9
    assert large_checkpoints.eight_billion(tmp_path).name == "llama-8b of zeros"
