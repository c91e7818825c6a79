"""A checkpoint that changes during an export: graph, configuration and tokenizer are of one state, or there is none."""

import json

import pytest
import tiny
from refusals import refusal

from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.run.requests import export_request
from onnxfn.specs.errors import LoadFailed

BEFORE, AFTER = 1e-12, 0.5
"""The epsilon of the configuration, before and after it changes."""


@pytest.fixture
def request_of_bert(tmp_path):
    model = tiny.model("bert", "AutoModel")
    assert model.config.layer_norm_eps == BEFORE
    model.save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("old")
    return ExportRequest(tmp_path / "bert", tmp_path / "out", edits={"task": "feature-extraction"})


def changing_at(stage, folder):
    """A function that changes a checkpoint when a stage of its export starts."""

    def on_event(event):
        if (event.stage, event.status) == (stage, "start"):
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": AFTER}))
            (folder / "vocab.txt").write_text("new")

    return on_event


def test_files_that_change_after_the_model_is_loaded_are_written_as_they_were(request_of_bert, tmp_path):
    export_request(request_of_bert, on_event=changing_at("plan", tmp_path / "bert"))
    assert (tmp_path / "out" / "vocab.txt").read_text() == "old"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["layer_norm_eps"] == BEFORE
    assert json.loads((tmp_path / "bert" / "config.json").read_text())["layer_norm_eps"] == AFTER


def test_a_configuration_that_changes_while_the_model_is_loaded_ends_the_export(request_of_bert, tmp_path):
    on_event = changing_at("load", tmp_path / "bert")
    assert refusal(LoadFailed, export_request, request_of_bert, on_event=on_event) == (
        f"{tmp_path / 'bert' / 'config.json'} changed while the checkpoint was loaded; export it again"
    )
    assert not (tmp_path / "out").exists()
