"""A checkpoint that changes during an export: graph, configuration and tokenizer are of one state, or there is none."""

import json

import onnx
import pytest
import tiny
from onnx.numpy_helper import to_array
from own_processes import printed
from refusals import refusal
from transformers import AutoModel, BertModel

from onnxfn import ExportRequest, LoadFailed
from onnxfn.export.run.requests import export_request

BEFORE, AFTER = 1e-12, 0.5
"""The epsilon of the configuration, before and after it changes."""


@pytest.fixture
def request_of_bert(tmp_path):
    model = tiny.model("bert", "AutoModel")
    assert model.config.layer_norm_eps == BEFORE
    model.save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("old")
    return ExportRequest(tmp_path / "bert", tmp_path / "out", edits={"task": "feature-extraction"})


def test_files_that_change_after_the_model_is_loaded_are_written_as_they_were(request_of_bert, tmp_path):
    def on_event(event):
        if (event.stage, event.status) == ("plan", "start"):
            config = json.loads((tmp_path / "bert" / "config.json").read_text())
            (tmp_path / "bert" / "config.json").write_text(json.dumps({**config, "layer_norm_eps": AFTER}))
            (tmp_path / "bert" / "vocab.txt").write_text("new")

    export_request(request_of_bert, on_event=on_event)
    assert (tmp_path / "out" / "vocab.txt").read_text() == "old"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["layer_norm_eps"] == BEFORE
    assert json.loads((tmp_path / "bert" / "config.json").read_text())["layer_norm_eps"] == AFTER


@pytest.mark.parametrize("last", [BEFORE, AFTER])
def test_a_configuration_that_changes_while_the_model_is_loaded_ends_the_export(
    request_of_bert, tmp_path, monkeypatch, last
):
    """Also if it is in the end as it was: the graph would compute with one epsilon, and the files state another."""
    file, load = tmp_path / "bert" / "config.json", BertModel.from_pretrained
    texts = {epsilon: file.read_text().replace(str(BEFORE), str(epsilon)) for epsilon in (BEFORE, AFTER)}

    def from_pretrained(*arguments, **options):
        file.write_text(texts[AFTER])
        model, info = load(*arguments, **options)
        file.write_text(texts[last])
        assert model.config.layer_norm_eps == AFTER
        return model, info

    monkeypatch.setattr(AutoModel, "from_pretrained", from_pretrained)
    message = f"{file} changed while the checkpoint was loaded; export it again"
    assert refusal(LoadFailed, export_request, request_of_bert) == message
    assert not (tmp_path / "out").exists()


ON_THE_HUB = """
import sys
from pathlib import Path
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.run.requests import export_request

def on_event(event):
    if event.stage == "load":
        Path(sys.argv[1]).write_text("b" * 40)

request = ExportRequest("someone/bert", sys.argv[2], edits={"task": "feature-extraction"}, check="none")
export_request(request, on_event)
"""


def test_the_weights_of_a_name_on_the_hub_are_of_the_commit_of_its_configuration(tmp_path):
    """The hub's client finds both commits in its cache. A subprocess, as it reads the path of the cache when it is
    imported."""
    cached = tmp_path / "hub" / "models--someone--bert"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("a" * 40)
    for commit, value in (("a", 1.0), ("b", 2.0)):
        model = tiny.model("bert", "AutoModel")
        model.embeddings.LayerNorm.bias.data.fill_(value)
        model.save_pretrained(cached / "snapshots" / (commit * 40))
    folders = (cached / "refs" / "main", tmp_path / "out")
    printed("-c", ON_THE_HUB, *folders, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1")
    (file,) = (tmp_path / "out").rglob("*.onnx")
    weights = {each.name: to_array(each) for each in onnx.load(file).graph.initializer}
    assert (weights["embeddings.LayerNorm.bias"] == 1.0).all()
