"""`onnxfn bench`: which steps of which files are timed, on which sizes."""

from __future__ import annotations

import json

import pytest
import tiny
from typer.testing import CliRunner

from onnxfn import export, spec_for
from onnxfn.export.bench import bench, example_inputs, example_sizes
from onnxfn.export.cli import app
from onnxfn.export.graph_summary import graph_files

KINDS = {
    "decoder": ("llama", "AutoModelForCausalLM", "text-generation-with-past"),
    "encoder-decoder": ("t5", "AutoModelForSeq2SeqLM", "text2text-generation-with-past"),
    "encoder": ("bert", "AutoModelForMaskedLM", "fill-mask"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("bench")
    for kind, (model_type, auto_class, task) in KINDS.items():
        model = tiny.model(model_type, auto_class)
        export(spec_for(model, task), model, root / kind, check=False)
    return root


def test_a_decoder_runs_a_prompt_and_the_token_after_it(folders):
    prompt, token = bench(graph_files(folders / "decoder"), {"sequence_length": 7}, runs=2)
    assert (prompt.step, token.step) == ("prompt", "next token")
    assert prompt.sizes == {"batch_size": 1, "sequence_length": 7, "past_sequence_length": 0}
    assert token.sizes == {"batch_size": 1, "sequence_length": 1, "past_sequence_length": 7}
    assert 0 < token.fastest <= token.median


def test_each_file_of_an_encoder_decoder_is_timed(folders):
    timings = bench(graph_files(folders / "encoder-decoder"), {}, runs=1)
    assert [(timing.file, timing.step) for timing in timings] == [
        ("decoder_model_merged", "prompt"),
        ("decoder_model_merged", "next token"),
        ("encoder_model", "run"),
    ]


def test_sizes_stay_within_the_limits_of_a_file():
    class Session:
        def __init__(self, limits):
            self.limits = limits

        def get_modelmeta(self):
            return type("Meta", (), {"custom_metadata_map": {"onnxfn.limits": self.limits}})

        def get_inputs(self):
            port = {"name": "x", "shape": ["batch_size", "2*length", 3], "type": "tensor(int64)"}
            return [type("Port", (), port)]

    assert example_sizes(Session(""), {}) == {"batch_size": 1, "length": 128}
    assert example_sizes(Session("length up to 96"), {}) == {"batch_size": 1, "length": 96}
    assert example_sizes(Session("length from 200"), {"batch_size": 4}) == {"batch_size": 4, "length": 200}
    assert example_sizes(Session("length is 7, batch_size from 2"), {}) == {"batch_size": 2, "length": 7}
    arrays = example_inputs(Session(""), {"batch_size": 2, "length": 5})
    assert arrays["x"].shape == (2, 10, 3)
    assert arrays["x"].dtype == "int64"


def test_the_command_prints_a_table_or_json(folders):
    words = ["bench", str(folders / "encoder"), "--runs", "1", "--threads", "1", "--size", "sequence_length=9"]
    table = CliRunner().invoke(app, words)
    assert table.exit_code == 0, table.output
    assert "batch_size=1, sequence_length=9" in table.stdout
    (timing,) = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert timing["sizes"] == {"batch_size": 1, "sequence_length": 9}
    assert 0 < timing["fastest"] <= timing["median"] < timing["load"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "sequence_lenght=4"], "did you mean 'sequence_length'?"),
        (["--size", "sequence_length=99999"], "does not run with batch_size=1, sequence_length=99999"),
        (["--dtype", "q4"], "no file *_q4.onnx"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(folders, words, message):
    result = CliRunner().invoke(app, ["bench", str(folders / "encoder"), *words])
    assert result.exit_code == 1
    assert message in result.stderr
