"""A checkpoint is exported again without its model, and only where nothing speaks against it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from onnxfn.export import recipes
from onnxfn.export.cli import app
from onnxfn.export.recipes import load_recipe, recipe_key

PLAIN = {"task": None}
FLAGS = ("--no-check", "--task")
PROGRAM = """
import sys
from onnxfn.export.cli import app
app(sys.argv[1:], standalone_mode=False)
print(sorted({"torch", "transformers", "onnxruntime", "onnxscript"} & set(sys.modules)))
"""


def saved(folder, model, times=1.0, **how):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(times)
    model.save_pretrained(folder, **how)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return folder


def llama(folder, times=1.0, **said):
    return saved(folder, tiny.model("llama", "AutoModelForCausalLM", **said), times)


def exported(checkpoint, out, templates, *flags):
    """Whether an export was made of a recipe; it must have gone well."""
    words = ["export", checkpoint, out, "--no-check", "--template-cache", templates, *flags]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert "unchecked" in done.stdout
    return "    plan " not in done.stdout


def content(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A checkpoint, the templates that its export left, and the folder that was written."""
    folder = tmp_path_factory.mktemp("kept")
    checkpoint = llama(folder / "llama")
    assert not exported(checkpoint, folder / "out", folder / "templates")
    return checkpoint, folder / "templates", folder / "out"


@pytest.fixture
def checkpoint(kept, tmp_path):
    return shutil.copytree(kept[0], tmp_path / "llama")


def test_a_second_export_needs_neither_torch_nor_transformers(kept, tmp_path):
    words = ["export", kept[0], tmp_path / "out", "--no-check", "--template-cache", kept[1]]
    ran = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, words)], capture_output=True, check=True, text=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    assert "task: text-generation-with-past (found)" in ran.stdout
    assert content(tmp_path / "out") == content(kept[2])


def test_a_second_export_is_what_it_would_be_with_the_model(kept, tmp_path):
    templates = tmp_path / "templates"
    templates.mkdir()
    for file in kept[1].glob("*.onnx"):
        shutil.copy(file, templates)
    assert not exported(kept[0], tmp_path / "by model", templates)
    assert exported(kept[0], tmp_path / "by recipe", templates)
    assert content(tmp_path / "by recipe") == content(tmp_path / "by model") == content(kept[2])


def test_another_fine_tune_has_its_own_weights(kept, tmp_path):
    other = llama(tmp_path / "other", times=1.5)
    assert exported(other, tmp_path / "again", kept[1])
    assert not exported(other, tmp_path / "whole", tmp_path / "none")
    assert content(tmp_path / "again") == content(tmp_path / "whole")
    assert content(tmp_path / "again")["model.onnx"] != content(kept[2])["model.onnx"]


def test_what_the_model_writes_of_itself_is_written_again(kept, tmp_path):
    checkpoint = llama(tmp_path / "llama")
    (checkpoint / "generation_config.json").unlink()
    assert not exported(checkpoint, tmp_path / "one", kept[1])
    assert exported(checkpoint, tmp_path / "two", kept[1])
    assert "generation_config.json" in content(tmp_path / "one")
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_file_of_a_name_and_other_places_of_weights(kept, tmp_path):
    for file in ("one/named.onnx", "two/named.onnx"):
        again = exported(kept[0], tmp_path / file, kept[1])
    assert again
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.parametrize("asked", [("--weights", "share"), ("--weights", "none"), ("--layout", "transformers.js")])
def test_several_files_and_other_places_of_weights(tmp_path, asked):
    checkpoint = saved(tmp_path / "t5", tiny.model("t5", "AutoModelForSeq2SeqLM", vocab_size=20000))
    flags = (*asked, "--decoders", "both")
    assert not exported(checkpoint, tmp_path / "one", tmp_path / "templates", *flags)
    assert exported(checkpoint, tmp_path / "two", tmp_path / "templates", *flags)
    assert len(list((tmp_path / "two").rglob("*.onnx"))) == 4
    assert len(list((tmp_path / "two").rglob("*.onnx_data"))) == (1 if "share" in asked else 0)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_matrices_that_are_one_are_taken_from_where_each_lies(tmp_path):
    checkpoint = llama(tmp_path / "llama")
    flags = ("--opset", "23", "--fuse", "onnxruntime")
    assert not exported(checkpoint, tmp_path / "one", tmp_path / "templates", *flags)
    assert exported(checkpoint, tmp_path / "two", tmp_path / "templates", *flags)
    assert b"q_proj.weight+model" in content(tmp_path / "two")["model.onnx"]
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_checkpoint_in_shards_and_a_bare_model_of_a_headed_one(tmp_path):
    checkpoint = saved(tmp_path / "bert", tiny.model("bert", "AutoModelForMaskedLM"), max_shard_size="20KB")
    assert len(list(checkpoint.glob("*.safetensors"))) > 1
    flags = ("--task", "feature-extraction")
    assert not exported(checkpoint, tmp_path / "one", tmp_path / "templates", *flags)
    assert exported(checkpoint, tmp_path / "two", tmp_path / "templates", *flags)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_checkpoint_whose_weights_are_renamed_as_they_are_loaded(tmp_path):
    model = tiny.model("vit", "AutoModelForImageClassification")
    checkpoint = saved(tmp_path / "vit", model)
    assert set(load_file(checkpoint / "model.safetensors")) - set(model.state_dict())
    assert not exported(checkpoint, tmp_path / "one", tmp_path / "templates")
    assert exported(checkpoint, tmp_path / "two", tmp_path / "templates")
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_template_that_is_gone_is_made_again(kept, tmp_path):
    templates = shutil.copytree(kept[1], tmp_path / "templates")
    for file in templates.glob("*.onnx"):
        file.unlink()
    assert not exported(kept[0], tmp_path / "one", templates)
    assert exported(kept[0], tmp_path / "two", templates)
    assert content(tmp_path / "two") == content(kept[2])


def test_a_check_is_by_the_model(kept, tmp_path):
    words = ["export", str(kept[0]), str(tmp_path / "out"), "--template-cache", str(kept[1])]
    assert "check passed" in CliRunner().invoke(app, words).stdout


# Of one kind


def rewritten(file, edit):
    told = json.loads(file.read_text())
    edit(told)
    file.write_text(json.dumps(told))


def config(**said):
    return lambda folder: rewritten(folder / "config.json", lambda told: told.update(said))


def weights(edit):
    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        edit(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


OTHERS = {
    "configuration": config(rms_norm_eps=0.5),
    "deep in it": config(rope_parameters={"rope_type": "default", "rope_theta": 7.0}),
    "number of labels": config(id2label={"0": "a"}, label2id={"a": 0}),
    "one tensor more": weights(lambda tensors: tensors.update(more=torch.ones(2))),
    "another type": weights(lambda tensors: tensors.update({name: one.half() for name, one in tensors.items()})),
    "generation": lambda folder: rewritten(folder / "generation_config.json", lambda told: told.update(top_k=1)),
    "no generation": lambda folder: (folder / "generation_config.json").unlink(),
}
DOUBTS = {
    "code": config(auto_map={"AutoModel": "mine.Model"}),
    "quantized": config(text_config={"quantization_config": {"bits": 4}}),
    "adapter": lambda folder: (folder / "adapter_config.json").write_text("{}"),
    "python": lambda folder: (folder / "mine.py").write_text(""),
    "cut": cut,
    "no configuration": lambda folder: (folder / "config.json").unlink(),
    "no JSON": lambda folder: (folder / "config.json").write_text("{"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "another file": lambda folder: shutil.copy(folder / "model.safetensors", folder / "more.safetensors"),
    "an index beside": lambda folder: (folder / recipes.INDEX_FILE).write_text('{"weight_map": {}}'),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_what_may_matter_is_of_another_recipe_key(checkpoint, change):
    before = recipe_key(checkpoint, PLAIN)
    change(checkpoint)
    assert None is not recipe_key(checkpoint, PLAIN) != before is not None


@pytest.mark.parametrize("change", DOUBTS.values(), ids=DOUBTS)
def test_in_doubt_there_is_no_recipe_key(checkpoint, change):
    change(checkpoint)
    assert recipe_key(checkpoint, PLAIN) is None


def test_values_and_names_do_not_matter(checkpoint):
    config(id2label={"0": "a", "1": "b"}, label2id={"a": 0, "b": 1})(checkpoint)
    before = recipe_key(checkpoint, PLAIN)
    config(id2label={"0": "c", "1": "d"}, label2id={"c": 0, "d": 1}, _name_or_path="elsewhere")(checkpoint)
    weights(lambda tensors: tensors.update({name: one + 1 for name, one in tensors.items()}))(checkpoint)
    assert recipe_key(checkpoint, PLAIN) == before is not None


@pytest.mark.parametrize(
    "flags", [("--opset", "20"), ("--size", "sequence_length=9"), ("--trace-all-layers",), ("--atol", "1")]
)
def test_what_is_asked_matters(kept, tmp_path, flags):
    templates = shutil.copytree(kept[1], tmp_path / "templates")
    assert not exported(kept[0], tmp_path / "out", templates, *flags)


@pytest.mark.parametrize("told", ["package_versions", "_installed_packages"])
def test_what_is_installed_matters(kept, monkeypatch, told):
    before = recipe_key(kept[0], PLAIN)
    monkeypatch.setattr(recipes, told, lambda: ["torch 99"])
    assert recipe_key(kept[0], PLAIN) != before


def test_an_index_that_tells_another_file_is_a_doubt(tmp_path):
    checkpoint = saved(tmp_path / "bert", tiny.model("bert", "AutoModelForMaskedLM"), max_shard_size="20KB")
    assert recipe_key(checkpoint, PLAIN) is not None
    rewritten(checkpoint / recipes.INDEX_FILE, lambda told: told["weight_map"].popitem())
    assert recipe_key(checkpoint, PLAIN) is None


# What is not proven is not kept


def tied_twice(folder):
    config(tie_word_embeddings=True)(folder)
    weights(lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}))(folder)


def test_weights_that_are_converted_leave_no_recipe(tmp_path):
    checkpoint = saved(tmp_path / "half", tiny.model("llama", "AutoModelForCausalLM").half())
    assert not exported(checkpoint, tmp_path / "out", tmp_path / "templates")
    assert list((tmp_path / "templates").glob("*.onnx"))
    assert list((tmp_path / "templates").glob("*.json")) == []


@pytest.mark.parametrize("tied", [False, True])
def test_a_head_that_is_stored_beside_what_it_is_tied_to_leaves_no_recipe(checkpoint, tmp_path, tied):
    config(tie_word_embeddings=tied)(checkpoint)
    if tied:
        tied_twice(checkpoint)
    exported(checkpoint, tmp_path / "out", tmp_path / "templates")
    assert bool(list((tmp_path / "templates").glob("*.json"))) is not tied


def test_a_recipe_that_cannot_be_read_is_none(kept, tmp_path):
    assert load_recipe(None, "x") is load_recipe(tmp_path, "x") is load_recipe(tmp_path, None) is None
    file = min(kept[1].glob("*.json"), key=lambda one: one.stat().st_mtime)
    assert load_recipe(kept[1], file.stem).plan.task == "text-generation-with-past"
    (tmp_path / "x.json").write_text(file.read_text()[:-9])
    assert load_recipe(tmp_path, "x") is None
