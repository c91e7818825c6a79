"""The table of options: each of them changes what is asked for, in both notations."""

from __future__ import annotations

import pytest

from onnxfn import InvalidSpec, UnknownName
from onnxfn.export.cli.export_command import export_request
from onnxfn.export.jobs.jobs import ExportJob, job_of
from onnxfn.export.jobs.options import JOB_KEYS, LIBRARIES, OPTIONS, checked_edits, value_of

WRITTEN = {
    "task": "fill-mask",
    "adapter": "adapter",
    "opset": 20,
    "dtype": ["q8"],
    "io_dtype": "float32",
    "output": ["attentions"],
    "shape": ["batch_size=1"],
    "with_input": ["attention_mask"],
    "without": ["attention_mask"],
    "size": ["batch_size=3"],
    "adapter_input": ["q_proj"],
    "rename": ["logits=scores"],
    "decoders": "separate",
    "check": "sections",
    "atol": 1e-3,
    "rtol": 1e-3,
    "floor": ["agreement=0.5"],
    "layout": "optimum",
    "weights": "none",
    "external_data_suffix": ".data",
    "template_cache": "cache",
}
"""What is written for each option that is no flag."""


@pytest.mark.parametrize("name", JOB_KEYS)
def test_an_option_changes_the_job(name):
    written = WRITTEN.get(name, True)
    assert job_of("model", "out", {name: written}) != job_of("model", "out", {})


def test_options_that_are_off_or_not_said_change_nothing():
    nothing = {"split": False, "dtype": [], "opset": None, "overwrite": False}
    assert job_of("model", "out", nothing) == job_of("model", "out", {})


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


def test_edits_are_made_in_the_order_of_the_table():
    edits = {"rename": {"a": "b"}, "opset": 20, "task": "fill-mask"}
    assert [name for name, _ in checked_edits(edits)] == ["task", "opset", "rename"]
    job = ExportJob("model", "out", edits=edits)
    assert ExportJob("model", "out", edits=job.edits) == job


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
        ExportJob("model", "out", edits=edits)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_option_that_models_of_a_library_cannot_have_is_refused(library):
    for name, option in OPTIONS.items():
        values = {"library": library, name: library if name == "library" else WRITTEN.get(name, True)}
        if library in option.libraries:
            export_request("model", "out", values)
        else:
            with pytest.raises(InvalidSpec, match=f"{option.flag} is not for "):
                export_request("model", "out", values)
