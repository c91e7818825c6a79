"""The table of options: each of them changes the request, in all notations."""

import json
import shlex
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from onnxfn import BuildOptions, InvalidSpec, UnknownName, text_encoder
from onnxfn.export.cli.commands import app
from onnxfn.export.jobs.options import JOB_KEYS, LIBRARIES, OPTIONS, checked_edits, stated, value_of
from onnxfn.export.jobs.request import ExportRequest, command_line, recorded_values, request_of, written

WRITTEN = json.loads(Path(__file__).with_name("written_options.json").read_text())
"""What is written for each option that is no flag."""


@pytest.mark.parametrize("name", JOB_KEYS)
def test_an_option_changes_the_job(name):
    without = {"library": OPTIONS[name].libraries[0]}
    values = {**without, name: WRITTEN.get(name, True)}
    assert request_of("model", "out", values) != request_of("model", "out", without)


def test_options_that_are_off_or_not_said_change_nothing():
    nothing = {"split": False, "dtype": [], "opset": None, "overwrite": False}
    assert request_of("model", "out", nothing) == request_of("model", "out", {})


@pytest.mark.parametrize(
    ("name", "texts", "values"),
    [
        ("shape", ["a=1", "b=2:3"], {"a": 1, "b": [2, 3]}),
        ("size", ["a=1"], {"a": 1}),
        ("rename", ["a=b"], {"a": "b"}),
        ("dtype", ["fp16"], "float16"),
        ("floor", ["kl=0.5"], {"kl": 0.5}),
        ("output", ["a"], "a"),
    ],
)
def test_a_file_says_in_values_what_the_command_line_says_in_texts(name, texts, values):
    assert value_of(name, texts) == value_of(name, values)


def requests_for(library):
    names = [name for name in JOB_KEYS if library in OPTIONS[name].libraries and name not in ("library", "no_check")]
    options = st.fixed_dictionaries({}, optional={name: st.just(WRITTEN.get(name, True)) for name in names})
    return options.map(lambda values: request_of("org/model", "an out", {**values, "library": library}))


requests = st.sampled_from(LIBRARIES).flatmap(requests_for)


@given(requests)
def test_a_request_is_what_its_options_and_its_command_line_ask_for(request):
    assert request_of(request.checkpoint, request.path, written(request)) == request
    words = shlex.split(command_line(written(request), request.checkpoint, request.path))
    values = get_command(app).commands["export"].make_context("export", words[2:]).params
    assert request_of(values.pop("model"), values.pop("out"), stated(values)) == request


@given(requests)
def test_a_report_says_the_request_without_folders_of_this_machine(request):
    recorded = json.loads(json.dumps(recorded_values(request)))
    left_out = {"overwrite": request.overwrite, "threads": request.threads}
    again = request_of(request.checkpoint, request.path, {**recorded, **left_out})
    assert evolve(again, build=None) == evolve(request, build=None)


def test_a_request_that_no_options_make_says_none():
    assert written(ExportRequest("model", "out", build=BuildOptions(pretranspose=False))) is None
    assert recorded_values(ExportRequest("model", "out", spec=text_encoder)) is None


def test_edits_are_made_in_the_order_of_the_table():
    edits = {"rename": {"a": "b"}, "opset": 20, "task": "fill-mask"}
    assert [name for name, _ in checked_edits(edits)] == ["task", "opset", "rename"]
    job = ExportRequest("model", "out", edits=edits)
    assert ExportRequest("model", "out", edits=job.edits) == job


@pytest.mark.parametrize(
    ("edits", "error", "words"),
    [
        ({"opsett": 20}, UnknownName, "did you mean 'opset'"),
        ({"opset": "new"}, InvalidSpec, "opset"),
        ({"atol": -1.0}, InvalidSpec, "a tolerance is a number"),
        ({"shape": ["a"]}, InvalidSpec, "--shape a="),
        ({"size": ["a=b"]}, InvalidSpec, "--size a has no number"),
        ({"rename": ["a="]}, InvalidSpec, "--rename a has no new name"),
        ({"output": [3]}, InvalidSpec, "--output is"),
    ],
)
def test_an_edit_that_cannot_be_made_is_refused_before_a_model_is_loaded(edits, error, words):
    with pytest.raises(error, match=words):
        ExportRequest("model", "out", edits=edits)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_option_that_models_of_a_library_cannot_have_is_refused(library):
    for name, option in OPTIONS.items():
        values = {"library": library, name: library if name == "library" else WRITTEN.get(name, True)}
        if library in option.libraries:
            request_of("model", "out", values)
        else:
            with pytest.raises(InvalidSpec, match=f"{option.flag} is not for "):
                request_of("model", "out", values)
