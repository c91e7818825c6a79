"""From a folder or a hub name to a model."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import tiny
import torch
from refusals import refusal

import onnxfn
from onnxfn.export.lookup.loading import checkpoint_folder, load_configuration, load_model
from onnxfn.specs.errors import InvalidSpec, ModelNotFound
from onnxfn.weights.layouts import copy_side_files, side_files, write_configs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("checkpoints") / "bert"
    tiny.model("bert", "AutoModelForMaskedLM").to(torch.float16).save_pretrained(made)
    (made / "vocab.txt").write_text("cat\n")
    (made / "model.safetensors.index.json").write_text("{}")
    return made


def spec(task):
    return onnxfn.spec_for("bert", task)


def test_a_checkpoint_is_loaded_for_its_task_in_float32(folder):
    config = load_configuration(checkpoint_folder(str(folder)))
    model = load_model(str(folder), config, spec("fill-mask"))
    assert type(model).__name__ == "BertForMaskedLM"
    assert {one.dtype for one in model.parameters()} == {torch.float32}


def test_the_bare_model_of_any_checkpoint_can_be_had(folder):
    model = load_model(str(folder), load_configuration(folder), spec("feature-extraction"))
    assert type(model).__name__ == "BertModel"


def test_a_head_that_would_be_random_is_refused(folder):
    told = refusal(InvalidSpec, load_model, str(folder), load_configuration(folder), spec("question-answering"))
    assert "holds BertForMaskedLM, a model for fill-mask: it has no trained weights for question-answering" in told


def test_missing_weights_are_refused_though_the_configuration_says_nothing(folder, tmp_path):
    model = tiny.model("bert", "AutoModel")
    model.save_pretrained(tmp_path)
    config = load_configuration(tmp_path)
    config.architectures = None
    told = refusal(InvalidSpec, load_model, str(tmp_path), config, spec("text-classification"))
    assert told.startswith(f"{tmp_path} lacks weights that BertForSequenceClassification needs: classifier.bias")


def test_a_name_of_the_hub_is_found_in_the_cache(folder, tmp_path):
    """The hub cannot be reached here; what its client has cached can. It reads where that is when it is imported."""
    cached = tmp_path / "hub" / "models--someone--bert"
    snapshot = cached / "snapshots" / "0123"
    copy_side_files(folder, snapshot)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0123")
    code = "from onnxfn.export.lookup.loading import checkpoint_folder; print(checkpoint_folder('someone/bert'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
    )
    assert done.stdout.strip() == str(snapshot)


def test_a_name_that_is_no_folder_and_not_on_the_hub_is_refused(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert refusal(ModelNotFound, checkpoint_folder, "no-one/nothing").startswith(
        "no folder and no model of the hub is called"
    )


def test_a_file_is_no_checkpoint(folder):
    assert refusal(ModelNotFound, checkpoint_folder, str(folder / "vocab.txt")).endswith(
        "is not the folder of a checkpoint"
    )


def test_side_files_are_all_but_the_weights(folder, tmp_path):
    assert [file.name for file in side_files(folder)] == ["config.json", "vocab.txt"]
    assert sorted(file.name for file in copy_side_files(folder, tmp_path)) == ["config.json", "vocab.txt"]


def test_a_module_without_a_configuration_has_none_to_write(tmp_path):
    assert write_configs(torch.nn.Linear(1, 1), tmp_path) == ()
