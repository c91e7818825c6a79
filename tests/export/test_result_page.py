"""The result of an export on a screen, in a notebook and as a page: all that one needs to call its files."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import every_part
import numpy as np
import onnx
import pytest
import tiny
from command_line import error_of, succeed
from hypothesis import given
from hypothesis import strategies as st

import onnxfn
from onnxfn.check.verdict.verdict import Error, Norms, judged
from onnxfn.export.batch.records import batch_title
from onnxfn.export.cli.flags import say
from onnxfn.export.cli.progress import amount
from onnxfn.export.report.folder_report import folder_facts
from onnxfn.export.report.report_file import check_facts, report_of
from onnxfn.specs.results.printing import report_points
from onnxfn.specs.results.result_facts import exported_facts, joined_rows
from onnxfn.specs.results.snippet import snippet

MODELS = {
    "bert": ("bert", "AutoModel", "feature-extraction", {}),
    "decoder": (
        *("llama", "AutoModelForCausalLM", "text-generation-with-past"),
        {"dtypes": ("float32", "float16", "q4")},
    ),
    "whisper": ("whisper", "AutoModelForSpeechSeq2Seq", "automatic-speech-recognition-with-past", {}),
    "sees": ("llava", "AutoModelForImageTextToText", "image-text-to-text-with-past", {}),
}
"""A name -> a model type, the class of the model, a task, and options of the export."""


@pytest.fixture(scope="module", params=MODELS)
def exported(request, tmp_path_factory):
    model_type, loader, task, options = MODELS[request.param]
    model = every_part.tiny_model(model_type, task) if request.param == "sees" else tiny.model(model_type, loader)
    folder = tmp_path_factory.mktemp("page") / request.param
    return onnxfn.export(onnxfn.spec_for(model, task), model, folder, **options)


@pytest.fixture(scope="module")
def failed():
    spec, model = tiny.spec_and_model("llama", "text-generation-with-past")
    wrong = onnxfn.export(spec, model, check=False).model_proto()
    weight = max(wrong.graph.initializer, key=lambda each: len(each.raw_data))
    weight.raw_data = (np.frombuffer(weight.raw_data, np.float32) * 1.5).tobytes()
    return spec, model, wrong


def is_shown(name, text):
    """Whether a table has a row for a tensor; layers are in one row, and so are keys and values."""
    stem, _, last = re.sub(r"\.\d+\.", ".{n}.", name).rpartition(".")
    alone, joined = re.escape(f"{stem}.{last}".lstrip(".")), rf"{re.escape(stem)}\.\w+(, \.\w+)*, \.{last}"
    return re.search(rf" ({alone}|{joined})(, \.\w+)* ", text)


def test_a_screen_has_the_result_and_every_input_and_output_that_a_call_needs(exported):
    lines = str(exported).splitlines()
    assert len(lines) < 40
    assert [line for line in lines if len(line) > 80 and "/" not in line] == []
    text = re.sub(r"\{[\d.,]+\}", "{n}", re.sub(r"\s+", " ", str(exported)))
    first = [size for size in exported.graphs if not size.part.endswith(("_fp16", "_q4"))]
    assert [name for size in first for name, _ in (*size.inputs, *size.outputs) if not is_shown(name, text)] == []
    assert text.count("report.json") == 1
    headings = re.findall(r"inputs of \S+", text)
    assert headings == sorted(headings, key=lambda heading: "decoder" not in heading)


def test_no_row_that_passed_is_above_its_bound(exported):
    report = exported.report
    assert report.passed
    assert all(error <= bound for each in report.differences for _, error, bound in each.errors)
    assert all(each.of_bound <= 1 for each in report.differences)
    assert max(point for row in report_points(report).values() for point in row.values()) <= 1


numbers = st.floats(0, 1e6, allow_subnormal=False)


@given(numbers, numbers, numbers, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_an_output_passes_if_its_largest_error_is_within_what_is_allowed(largest, rms, peak, of_rms, of_peak):
    comparison = judged(Error(largest, Norms(rms, peak)), Norms(of_rms, of_peak), 1.0, "")
    if comparison.passed:
        assert largest <= comparison.tolerance or (rms, peak) == (0, 0)
    else:
        assert comparison.of_bound > 1 or largest == 0


def test_sizes_are_those_of_the_files_and_each_file_is_named_once(exported):
    facts = exported_facts(exported)
    for name, size in facts.sizes.items():
        data = [file for file in facts.others if file == f"{name}_data"]
        assert size == sum((Path(facts.root) / file).stat().st_size for file in (name, *data))
    assert len({*facts.others}) == len(facts.others)
    assert "million parameters" not in facts.summary


def test_the_page_of_a_folder_shows_what_the_result_shows(exported):
    content = json.loads(Path(exported.path, "report.json").read_text())
    ours, stored = exported_facts(exported), folder_facts(content)
    assert stored.title == ours.title
    assert stored.ports == ours.ports
    assert stored.sizes == ours.sizes
    assert stored.files == ours.files
    assert {*stored.others} == {*ours.others}
    assert stored.report.passed
    assert report_of(check_facts(stored.report)).measurements == stored.report.measurements == ours.report.measurements


class Page(HTMLParser):
    """Collects the elements that are open."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in ("meta", "wbr", "line", "rect", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("form", ["html", "_repr_html_"])
def test_a_page_is_whole_and_loads_nothing(exported, form):
    text = getattr(exported, form)().replace("</circle>", "")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert not re.search(r"https?:|<script|<link|<img|url\(", text)
    is_poor = "quality poor" in str(exported)
    assert ("header", {"class": "fair" if is_poor else "ok"}) in page.seen
    assert text.count("<circle") >= len(exported.report.cases) / 2
    assert "prefers-color-scheme: dark" in text


def test_the_lines_that_call_the_files_run(exported):
    names = {}
    exec(snippet(exported_facts(exported)), names)
    assert names["outputs"]


def test_a_failed_check_fits_on_a_screen_and_is_red(failed, tmp_path):
    spec, model, wrong = failed
    onnx.save(wrong, tmp_path / "wrong.onnx")
    report = onnxfn.validate(spec, model, tmp_path / "wrong.onnx")
    lines = str(report).splitlines()
    assert len(lines) < 40
    assert max(map(len, lines)) <= 80
    assert "FAILED" in lines[0]
    assert '<header class="bad">' in report.html()
    assert 'class="bad">FAILED' in report._repr_html_()


def test_the_command_writes_a_page_beside_the_folder(exported):
    page = f"{exported.path}.html"
    assert succeed("report", exported.path).stdout.strip() == page
    assert "pass --overwrite" in error_of("report", exported.path)
    succeed("report", exported.path, "--overwrite")
    assert "outline: modules and their weights" in Path(page).read_text()
    Path(page).write_text("my own page")
    assert "onnxfn did not write" in error_of("report", exported.path, "--overwrite")
    assert "no report.json" in error_of("report", page)


def test_a_damaged_report_is_refused_in_a_line(exported, tmp_path):
    content = json.loads(Path(exported.path, "report.json").read_text())
    for change in ({"left_out": 5}, {"graphs": {}, "versions": None}, {"check": {**content["check"], "outputs": [1]}}):
        (tmp_path / "report.json").write_text(json.dumps({**content, **change}))
        assert "report.json" in error_of("report", tmp_path, "--out", tmp_path / "page.html")
        assert not (tmp_path / "page.html").exists()


def test_small_numbers_are_said_as_they_are(exported):
    assert amount(onnxfn.Event("complete", "", 1.0, "end", 30_000, 30_000)).startswith("30.0/30.0 kB")
    assert batch_title(onnxfn.BatchResult([])).startswith("0 jobs")
    assert batch_title(onnxfn.BatchResult([onnxfn.JobResult("a", "b", "exported")])).startswith("1 job: ")
    measured = [f"{each.part}.onnx {each.output} {each.measure}" for each in exported.report.measurements]
    words = str(onnxfn.verify(exported.path))
    assert [each for each in measured if each not in words and "cases" not in each] == []


def test_keys_and_values_of_one_type_are_a_row():
    rows = [("ids", "int64[n]"), ("past.{0..3}.key", "float[n]"), ("past.{0..3}.value", "float[n]"), ("a.b", "int")]
    assert joined_rows(rows) == [("ids", "int64[n]"), ("past.{0..3}.key, .value", "float[n]"), ("a.b", "int")]


def test_a_terminal_shows_verdicts_in_green_and_red(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    say("bert · check passed\n  model  ok\nt5 · check FAILED")
    assert "\x1b[32mcheck passed\x1b[0m" in terminal.getvalue()
    assert "\x1b[1;31mcheck FAILED\x1b[0m" in terminal.getvalue()
