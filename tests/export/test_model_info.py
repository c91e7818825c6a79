"""What Optimum's TasksManager and transformers' FeaturesManager answered; and README's table of their names."""

import ast
import json
import re
from pathlib import Path

import pytest
import tiny
import transformers
from refusals import refusal

import onnxfn
from onnxfn import (
    ARCHITECTURES,
    canonical,
    framework_of,
    library_of,
    model_class,
    model_files,
    model_for,
    model_types_for,
    supported_task,
    synonyms,
    task_at,
    tasks_for,
)
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, UnknownName
from onnxfn.specs.tasks import SYNONYMS, TASKS

HERE = Path(__file__).parents[1]
README = (HERE.parent / "README.md").read_text()
TOLD = json.loads((HERE / "contract" / "coming_from.json").read_text())["names"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("checkpoint") / "tiny-bert"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(place)
    return place


# Tasks


@pytest.mark.parametrize("task", [*TASKS, *SYNONYMS])
def test_the_names_of_a_task_are_names_of_one_another(task):
    for other in synonyms(task):
        assert canonical(other) == canonical(task)
        assert task in synonyms(other)
    assert task not in synonyms(task)


def test_a_model_type_is_known_for_its_tasks_and_a_task_for_its_model_types():
    for task in TASKS:
        types = model_types_for(task)
        assert set(types) == {one for one in ARCHITECTURES if task in tasks_for(one)}


@pytest.mark.parametrize("it", ["bert", tiny.config("bert")])
def test_a_task_that_is_known_is_told_under_its_own_name(it):
    assert supported_task(it, "sequence-classification") == "text-classification"


def test_a_task_that_is_not_known_is_refused_with_what_is():
    assert refusal(UnknownName, supported_task, "splinter", "fill-mask") == (
        "no task 'fill-mask' for splinter; known: feature-extraction, question-answering"
    )


def test_the_task_of_a_checkpoint_is_that_of_its_class(folder):
    assert task_at(folder) == "fill-mask"


# Classes and models


@pytest.mark.parametrize(
    ("task", "it", "name"),
    [
        ("masked-lm", None, "AutoModelForMaskedLM"),
        ("causal-lm-with-past", None, "AutoModelForCausalLM"),
        ("automatic-speech-recognition", "whisper", "AutoModelForSpeechSeq2Seq"),
        ("text-classification", "bert", "AutoModelForSequenceClassification"),
    ],
)
def test_a_task_has_a_class(task, it, name):
    assert model_class(task, it) is getattr(transformers, name)


def test_an_unknown_task_has_no_class():
    assert "did you mean 'fill-mask'?" in refusal(UnknownName, model_class, "fil-mask")


def test_a_checkpoint_is_loaded_for_its_task_or_another(folder):
    assert type(model_for(str(folder))).__name__ == "BertForMaskedLM"
    bare = model_for(str(folder), "default")
    assert type(bare).__name__ == "BertModel"
    assert not bare.training


def test_a_head_that_was_not_trained_is_not_made_up(folder):
    assert "no trained weights for text-classification" in refusal(
        InvalidSpec, model_for, str(folder), "text-classification"
    )


# Frameworks, libraries, files


@pytest.mark.parametrize(
    "ask", [lambda: framework_of(framework="tf"), lambda: model_class("fill-mask", framework="tf")]
)
def test_another_framework_is_refused(ask):
    assert refusal(UnknownName, ask) == "no framework 'tf': onnxfn exports models of PyTorch, 'pt', alone"


def test_weights_of_another_framework_are_refused(tmp_path, folder):
    assert framework_of(folder) == framework_of() == "pt"
    (tmp_path / "tf_model.h5").write_bytes(b"")
    assert "weights of TensorFlow alone" in refusal(ModelNotFound, framework_of, tmp_path)


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
def test_a_folder_is_of_a_library(files, library, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert library_of(tmp_path) == library_of(str(tmp_path)) == library
    assert model_files(tmp_path) == tuple(sorted(files))
    if library in ("timm", "diffusers"):
        assert f"is of {library}" in refusal(ModelNotFound, model_for, str(tmp_path))


def test_a_folder_that_tells_nothing_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    assert "there is: notes.txt" in refusal(ModelNotFound, library_of, tmp_path)


def test_a_class_and_a_model_are_of_a_library():
    assert library_of(transformers.BertModel) == library_of(tiny.model("bert")) == "transformers"
    assert refusal(ModelNotFound, library_of, Path).startswith("pathlib is none of the libraries")


# README


def rows():
    """{class or module: {name: what to write instead}} from the tables of README."""
    tables = {}
    for group, table in re.findall(r"^\| `([\w.]+)` \| instead \|\n\|[- |]+\|\n((?:\|.*\n)+)", README, re.MULTILINE):
        cells = (re.split(r"(?<!\\) \| ", line.strip("| \n")) for line in table.splitlines())
        tables[group] = {name.strip("`"): instead for name, instead in cells}
    return tables


def test_every_public_name_of_optimum_and_transformers_onnx_has_a_row():
    assert {group: list(names) for group, names in rows().items()} == TOLD


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, names in TOLD.items() for name in names])
def test_what_to_write_instead_is_in_onnxfn(group, name):
    """Each name that is called, or stands alone and is no argument's name, is public."""
    codes = re.findall(r"`([^`]+)`", rows()[group][name].replace("\\|", "|"))
    assert codes or rows()[group][name].startswith(("nothing", "the functions"))
    for code in codes:
        if code.startswith(("onnxfn export", "transformers.", "-with-past")) or code in ("threshold", "path", "pt"):
            continue
        tree = ast.parse(code.replace("...", "0"), mode="eval").body
        called = [node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for public in {*called, *([tree.id] if isinstance(tree, ast.Name) else [])} - {"tuple"}:
            assert hasattr(onnxfn, public), public
