"""Configurations and models are loaded from a folder or from the hub, a model for its task or another."""

import pytest
import tiny
import torch
from own_processes import printed
from refusals import refusal

import onnxfn
from onnxfn import InvalidSpec, ModelNotFound, model_for
from onnxfn.check.variants.text_references import text_tokens
from onnxfn.export.load import loading
from onnxfn.export.load.folders import checkpoint_folder
from onnxfn.export.load.loading import load_configuration, load_library_model, load_model
from onnxfn.run.prompts import saved_processor
from onnxfn.weights.layouts import write_configs
from onnxfn.weights.side_files import copy_side_files, read_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoints") / "bert"
    tiny.model("bert", "AutoModelForMaskedLM").to(torch.float16).save_pretrained(path)
    (path / "vocab.txt").write_text("cat\n")
    (path / "model.safetensors.index.json").write_text("{}")
    return path


def spec(task):
    return onnxfn.spec_for("bert", task)


def test_a_head_without_trained_weights_raises_an_error(folder):
    message = refusal(InvalidSpec, load_model, str(folder), load_configuration(folder), spec("question-answering"))
    assert message == (
        f"{folder} is a checkpoint of BertForMaskedLM, a model for fill-mask: it has no trained weights for "
        "question-answering; export it for fill-mask or feature-extraction"
    )


def test_missing_weights_raise_an_error_also_for_a_configuration_without_a_class_name(folder, tmp_path):
    tiny.model("bert", "AutoModel").save_pretrained(tmp_path)
    config = load_configuration(tmp_path)
    config.architectures = None
    message = refusal(InvalidSpec, load_model, str(tmp_path), config, spec("text-classification"))
    assert message.startswith(f"{tmp_path} lacks weights that BertForSequenceClassification needs: classifier.bias")


def test_a_name_of_the_hub_is_found_in_the_cache(folder, tmp_path):
    """The test needs no network: the hub's client finds the files in its cache. A subprocess, as the client reads the
    path of the cache when it is imported."""
    cached = tmp_path / "hub" / "models--someone--bert"
    snapshot = cached / "snapshots" / "0123"
    copy_side_files(read_checkpoint(folder), snapshot)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0123")
    code = "from onnxfn.export.load.folders import checkpoint_folder; print(checkpoint_folder('someone/bert'))"
    assert printed("-c", code, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1").strip() == str(snapshot)


def test_a_name_that_is_no_folder_and_not_on_the_hub_raises_an_error(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = refusal(ModelNotFound, checkpoint_folder, "no-one/nothing")
    assert message.startswith(
        "no folder and no model in the cache of the hub has the name 'no-one/nothing': the hub was"
    )


def test_a_file_is_not_the_folder_of_a_checkpoint(folder):
    message = refusal(ModelNotFound, checkpoint_folder, str(folder / "vocab.txt"))
    assert message.endswith("is not the folder of a checkpoint")


def test_no_configuration_is_written_for_a_module_without_one(tmp_path):
    assert write_configs(torch.nn.Linear(1, 1), tmp_path) == ()


@pytest.mark.parametrize("library", ["sentence_transformers", "diffusers"])
@pytest.mark.parametrize("trust", [False, True])
def test_the_caller_says_to_each_library_whether_code_may_run(library, trust, monkeypatch, tmp_path):
    """Without the argument, a library would decide by itself, or ask at the terminal."""
    calls = []
    monkeypatch.setattr(loading, "resolve", lambda *_, **__: lambda *words, **named: calls.append((words, named)))
    load_library_model(library, str(tmp_path), trust_remote_code=trust)
    assert calls == [((str(tmp_path),), {"trust_remote_code": trust})]


def test_a_tokenizer_with_code_of_its_own_is_not_loaded(tmp_path):
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    (tmp_path / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["own.Own", null]}}')
    assert text_tokens(None, tmp_path) is None
    assert "no processor in" in refusal(ModelNotFound, saved_processor, tmp_path)
    assert not (tmp_path / "executed").exists()


def test_a_checkpoint_is_loaded_for_its_task_in_float32_or_another(folder):
    model = model_for(str(folder))
    assert type(model).__name__ == "BertForMaskedLM"
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    model = model_for(str(folder), "default")
    assert type(model).__name__ == "BertModel"
    assert not model.training
