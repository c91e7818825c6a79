import importlib.util
import re
import sys

import pytest
from attrs import evolve

import onnxfn
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import gives, takes
from onnxfn.specs.edits.extra_outputs import ALL_OUTPUTS
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.plan.variants import variants_plan
from onnxfn.specs.results import result_facts
from onnxfn.specs.results.output_types import FLOAT_RESULTS
from onnxfn.specs.results.printing import report_points, report_sections, text
from onnxfn.specs.stored.reports import Difference, Exported, GraphSize, Report
from onnxfn.specs.tasks.tasks import TASKS, for_task
from onnxfn.weights.layouts import dtype_suffix

SECTIONS = [("inputs", [("input_ids", "int64", ""), ("mask", "int64")]), ("outputs", [("a_very_long_name", "float")])]

LLAMA = for_task(onnxfn.ARCHITECTURES["llama"], "text-generation-with-past")
CONFIG = {"vocab_size": 99, "num_hidden_layers": 30, "num_attention_heads": 4, "hidden_size": 64}


def first_cells(record):
    return [line.split("  ")[0] for line in map(str.strip, str(record).splitlines())]


# Tables


def test_the_columns_of_a_section_are_aligned_and_no_line_ends_in_spaces():
    assert text("bert", SECTIONS).splitlines() == [
        "bert",
        "  inputs",
        "    input_ids  int64",
        "    mask       int64",
        "  outputs",
        "    a_very_long_name  float",
    ]


def test_a_table_without_rows_is_its_title():
    assert text("bert", []) == text("bert", [("inputs", [])]) == "bert"


# Specs and plans


def test_the_plan_of_a_decoder_prints_the_cache_of_all_layers_in_two_rows_a_side():
    printed = plan(LLAMA, CONFIG)
    assert first_cells(printed)[1:] == [
        *("inputs", "input_ids", "attention_mask", "past_key_values.{0..29}.key", "past_key_values.{0..29}.value"),
        *("position_ids", "outputs", "logits", "present.{0..29}.key", "present.{0..29}.value"),
    ]
    assert "forward: past_key_values.layers.{0..29}.keys" in str(printed)


def test_a_nested_dummy_prints_as_the_name_of_its_argument():
    spec = compose(
        takes("position_ids", "batch_size sequence_length", "positions"),
        generates("positions", "positions", mask=onnxfn.NestedDummy("padding_mask", "batch_size past+sequence_length")),
        gives("logits", "batch_size"),
    )
    assert str(spec).splitlines()[2].endswith("  positions(mask)")


def test_outputs_show_their_dtype_where_it_is_known():
    """Those of logits and of the cache are; a derived or a custom output has the dtype that its graph has."""
    lines = {line.split()[0]: line.split()[1] for line in str(plan(LLAMA, CONFIG)).splitlines()[1:] if "[" in line}
    assert lines["logits"].startswith("float[")
    assert lines["present.{0..29}.key"].startswith("float[")
    half = str(onnxfn.with_dtypes(LLAMA, float="float16"))
    assert re.search(r"\n    logits +float16\[batch_size, sequence_length, _\]\n", half)
    assert re.search(r"\n    present.{layer}.key +float16\[", half)
    assert re.search(r"\n    codes +\[n\]$", str(gives("codes", "n")))


def test_the_outputs_of_every_task_have_a_known_dtype():
    assert {output.name for spec in TASKS.values() for output in spec.outputs} <= FLOAT_RESULTS
    assert {*ALL_OUTPUTS} <= FLOAT_RESULTS


def test_a_spec_without_a_name_is_captioned_by_what_it_has():
    assert str(onnxfn.text_encoder).splitlines()[0] == "spec of 6 tasks, 3 cases"
    assert str(takes("x", "n", "normal")).splitlines()[0] == "spec of 1 input"
    assert str(onnxfn.EMPTY) == "ExportSpec()"
    assert str(onnxfn.loads("AutoModel")) == "ExportSpec(call=Call(loader='AutoModel'))"


# Reports


def difference(output, max_rel, *, max_abs=0.0, passed=True, case="one (batch_size=1)"):
    return Difference("model", output, ((1, 2),), max_abs or max_rel, max_rel, 1e-5, case, passed=passed)


def rows_of(report):
    rows = dict(report_sections(report))["ONNX Runtime against PyTorch"]
    return [list(row) for row in rows[1:]]


def test_a_report_names_the_worst_layer_and_shows_its_figures():
    report = Report(
        [
            difference("logits", 1e-7),
            *(difference(f"present.{layer}.key", 2e-7) for layer in range(17)),
            difference("present.17.key", 9e-7, max_abs=3e-6, case="left-padded (batch_size=3)"),
            *(difference(f"present.{layer}.key", 1e-7) for layer in range(18, 30)),
        ]
    )
    assert rows_of(report) == [
        ["model: logits", "1.0e-07", "1.0e-05", "0.01", "ok", "one"],
        ["model: present.{0..29}.key", "3.0e-06", "1.0e-05", "0.3", "ok", "present.17.key, left-padded"],
    ]


def test_layers_that_failed_are_a_row_of_their_own():
    report = Report([difference(f"present.{n}.key", 1e-7 * n, passed=n not in (3, 4)) for n in range(8)])
    assert [(row[0], row[4], row[5]) for row in rows_of(report)] == [
        ("model: present.{0..2,5..7}.key", "ok", "present.7.key, one"),
        ("model: present.{3,4}.key", "FAILED", "present.4.key, one"),
    ]


def test_outputs_of_two_files_are_two_rows():
    parts = [("encoder_model", "states.0"), ("decoder_model", "states.1")]
    report = Report([Difference(part, output, (), 0.0, 0.0, 1e-5, "one", passed=True) for part, output in parts])
    assert [row[0] for row in rows_of(report)] == ["encoder_model: states.0", "decoder_model: states.1"]


@pytest.mark.parametrize("report", [None, Report([difference(f"present.{layer}.key", 1e-7) for layer in range(30)])])
def test_the_result_of_an_export_groups_layers_in_all_its_sections(report):
    result = Exported("out", ["out/model.onnx"], plan(LLAMA, CONFIG), 18, [("plan", 0.1)], report)
    everything = result_facts.everything(result_facts.exported_facts(result))
    assert len(everything.splitlines()) < 25
    assert ("model: present.{0..29}.key" in everything) == (report is not None)
    assert "present.{0..29}.key, .value" in str(result)


# One screen

SCREEN = 40
"""Lines of a terminal."""

DTYPES = ("float32", "float16", "q8", "q4", "q4f16", "bnb4")


def measurements(part):
    outputs = [onnxfn.Measurement(part.name, name, "cases", 0.9, 0.5, "9 cases", True) for name in part.outputs]
    own = [("kl", 0.4, 0.8), ("agreement", 0.6, 0.4), ("weights", 0.99, 0.97)]
    measured = [onnxfn.Measurement(part.name, "logits", *each, "300 tokens of text", True) for each in own]
    return [*measured, *outputs]


def test_a_decoder_of_six_dtypes_fits_on_a_screen():
    planned = variants_plan(lambda dtype: plan(onnxfn.with_dtypes(LLAMA, float=dtype), CONFIG), DTYPES, dtype_suffix)
    floats, quantized = planned.parts[:2], planned.parts[2:]
    differences = [evolve(difference(name, 1e-7), part=part.name) for part in floats for name in part.outputs]
    worse = [evolve(each, value=0.2) if each.output == "present.7.key" else each for each in measurements(quantized[1])]
    measured = [*worse, *(each for part in (quantized[0], *quantized[2:]) for each in measurements(part))]
    report = Report(differences, ["one (batch_size=2)"] * 12, (), measured)
    sizes = [GraphSize(part.name, 10**9, 3000, []) for part in planned.parts]
    files = [f"out/{name}" for name in (*planned.files, "config.json", "report.json")]
    seconds = [("plan", 0.1)] * 8
    result = Exported("out", files, planned, 18, seconds, report, graphs=sizes, repeats=["30 layers of one"])
    for record in (planned, result):
        assert len(str(record).splitlines()) <= SCREEN
    columns = result_facts.exported_facts(result).files["model_q4.onnx"]
    expected = {"status": "poor", "kl": "0.4", "agreement": "0.6", "weights": "0.99", "cases": "0.2"}
    assert {name: columns[name] for name in expected} == expected
    assert "model_q4.onnx · llama · text-generation-with-past · opset 18 · q4\n" in str(planned)


def test_the_spec_of_a_decoder_shows_its_cache():
    assert [cell for cell in first_cells(LLAMA) if "{layer}" in cell] == [
        *("past_key_values.{layer}.key", "past_key_values.{layer}.value"),
        *("present.{layer}.key", "present.{layer}.value"),
    ]
    assert "for each of num_layers" in str(LLAMA)


def test_the_heading_of_a_result_has_its_verdict_time_size_and_versions():
    planned = plan(LLAMA, CONFIG)
    logits = ("logits", "float32[batch_size, sequence_length, 99]")
    seconds, report = [("plan", 0.1), ("check", 2.0)], Report([difference("logits", 1e-7)])
    sizes = {"graphs": [GraphSize("model", 1_250_000, 312, [logits], (), 4_100_000)], "bytes": 5_100_000}
    versions = [("onnxfn", "0.1.0"), ("torch", "2.13.0")]
    result = Exported("out", ["out/model.onnx"], planned, 18, seconds, report, **sizes, versions=versions)
    assert str(result).splitlines()[:2] == [
        "llama · text-generation-with-past · opset 18 · check passed",
        "  2.1 s without loading · 5.10 MB · onnxfn 0.1.0, torch 2.13.0",
    ]
    assert re.search(r"\n    model.onnx +float32 +4.10 MB +1.2 million +312 +ok +0.01\n", str(result))
    assert re.search(r"\n    logits +float32\[batch_size, sequence_length, 99\]\n", str(result))


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("PyTorch in float32; float64 was not needed", "a few roundings of the dtype x the output's size"),
        ("PyTorch in float64", "a multiple of PyTorch's own error"),
        ("PyTorch in float32, by the tolerance of the spec", "atol x the output's size (1 at least) + rtol x the "),
    ],
)
def test_a_report_says_why_an_error_is_allowed(reference, reason):
    by_reference = Difference("model", "y", ((2,),), 1e-7, 1e-7, 1e-5, "one", passed=True, references=(reference,))
    assert f"{reference} 1 comparison {reason}" in re.sub(r"\s+", " ", str(Report([by_reference], ["one"])))


# The points of `Report.plot`, and the plot where matplotlib is installed

CASES = ["one (batch_size=1)", "several (batch_size=3)"]


def plotted(output, *errors, passed=True):
    by_case = tuple((case, error, 1e-5) for case, error in zip(CASES, errors, strict=True))
    return Difference("model", output, ((1,), (3,)), max(errors), 0.1, 1e-5, CASES[0], passed=passed, errors=by_case)


REPORT = Report(
    [plotted("logits", 0.0, 2e-5, passed=False), *(plotted(f"present.{n}.key", 1e-6 * n, 5e-6) for n in range(30))],
    CASES,
)


def test_a_point_is_a_multiple_of_the_allowed_error_and_layers_are_one_line():
    points = {"one": 0.0, "several": pytest.approx(2.0)}, {"one": pytest.approx(2.9), "several": pytest.approx(0.5)}
    names = ("model: logits", "model: present.{0..29}.key")
    assert [*report_points(REPORT).items()] == [*zip(names, points, strict=True)]


def test_an_error_where_none_is_allowed_is_infinite():
    exact = Difference("model", "ids", ((1,),), 1.0, 1.0, 0.0, "one", passed=False, errors=(("one", 1.0, 0.0),))
    assert report_points(Report([exact], ["one"])) == {"model: ids": {"one": float("inf")}}


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(onnxfn.OnnxfnError, match=r"^plot needs matplotlib: pip install 'onnxfn\[plot\]'$"):
        REPORT.plot()


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is an extra")
def test_a_plot_has_a_row_for_each_output_the_dots_of_each_case_and_a_line_for_what_is_allowed():
    axes = REPORT.plot()
    assert [line.get_label() for line in axes.get_lines()] == ["one", "several", "bound"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [*report_points(REPORT)]
    assert [*axes.get_lines()[0].get_xdata()] == [0.1, pytest.approx(2.9)]  # an exact one is at the left end
    pyplot = importlib.import_module("matplotlib.pyplot")
    assert pyplot.gcf() is axes.figure  # so that a notebook shows it
    pyplot.close(axes.figure)
