"""Facts about models and checkpoints, as Optimum's TasksManager and transformers' FeaturesManager gave them."""

from pathlib import Path

import pytest
import tiny
import transformers
from refusals import refusal

from onnxfn import (
    ARCHITECTURES,
    library_of,
    model_class,
    model_files,
    model_for,
    model_types_for,
    supported_task,
    task_at,
    tasks_for,
)
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, UnknownName
from onnxfn.specs.tasks.tasks import TASKS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "tiny-bert"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(path)
    return path


# Tasks


def test_model_types_for_a_task_are_those_whose_tasks_include_it():
    for task in TASKS:
        types = model_types_for(task)
        assert set(types) == {model_type for model_type in ARCHITECTURES if task in tasks_for(model_type)}


@pytest.mark.parametrize("model_or_type", ["bert", tiny.config("bert")])
def test_a_supported_task_is_returned_by_its_canonical_name(model_or_type):
    assert supported_task(model_or_type, "sequence-classification") == "text-classification"


def test_the_task_of_a_checkpoint_is_that_of_its_class(folder):
    assert task_at(folder) == "fill-mask"


# Classes and models


@pytest.mark.parametrize(
    ("task", "model_type", "name"),
    [
        ("masked-lm", None, "AutoModelForMaskedLM"),
        ("causal-lm-with-past", None, "AutoModelForCausalLM"),
        ("automatic-speech-recognition", "whisper", "AutoModelForSpeechSeq2Seq"),
        ("text-classification", "bert", "AutoModelForSequenceClassification"),
    ],
)
def test_a_task_has_a_class(task, model_type, name):
    assert model_class(task, model_type) is getattr(transformers, name)


def test_an_unknown_task_has_no_class():
    assert "did you mean 'fill-mask'?" in refusal(UnknownName, model_class, "fil-mask")


def test_a_checkpoint_is_loaded_for_its_task_or_another(folder):
    assert type(model_for(str(folder))).__name__ == "BertForMaskedLM"
    model = model_for(str(folder), "default")
    assert type(model).__name__ == "BertModel"
    assert not model.training


# Frameworks, libraries, files


def test_weights_of_another_framework_raise_an_error(tmp_path):
    (tmp_path / "tf_model.h5").write_bytes(b"")
    assert "weights of TensorFlow only" in refusal(ModelNotFound, model_for, str(tmp_path))


@pytest.mark.parametrize(
    ("files", "library"),
    [
        ({"config.json": '{"model_type": "bert"}'}, "transformers"),
        ({"config.json": '{"model_type": "bert"}', "sentence_bert_config.json": "{}"}, "sentence_transformers"),
        ({"config_sentence_transformers.json": "{}"}, "sentence_transformers"),
        ({"config.json": '{"architecture": "vit_base"}'}, "timm"),
        ({"model_index.json": "{}", "unet/config.json": "{}"}, "diffusers"),
        ({"config.json": '{"_diffusers_version": "0.30"}'}, "diffusers"),
    ],
)
def test_the_files_of_a_folder_name_its_library(files, library, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert library_of(tmp_path) == library_of(str(tmp_path)) == library
    assert model_files(tmp_path) == tuple(sorted(files))
    if library in ("timm", "diffusers"):
        assert f"is a model of {library}" in refusal(ModelNotFound, model_for, str(tmp_path))


def test_a_folder_without_a_known_file_raises_an_error(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    assert "files: notes.txt" in refusal(ModelNotFound, library_of, tmp_path)


def test_the_library_of_a_class_and_of_a_model_is_that_of_its_module():
    assert library_of(transformers.BertModel) == library_of(tiny.model("bert")) == "transformers"
    assert refusal(ModelNotFound, library_of, Path) == (
        "Path is a class of pathlib; known libraries: transformers, sentence_transformers, timm, diffusers"
    )


@pytest.mark.parametrize(
    ("content", "end"),
    [("[]", "holds a list, not an object"), ("{", "is not JSON: "), ("[" * 100_000, "is not JSON: ")],
)
def test_a_configuration_that_is_no_object_has_no_library(content, end, tmp_path):
    (tmp_path / "config.json").write_text(content)
    message = refusal(InvalidSpec, library_of, tmp_path)
    assert message.startswith(f"{tmp_path / 'config.json'} {end}")


def test_an_empty_name_has_no_files():
    assert refusal(ModelNotFound, model_files, "").startswith("the checkpoint has no name")
