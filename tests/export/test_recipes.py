"""A second export of a checkpoint loads no model, and only if its recipe is certain to be right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
import tiny
import torch
from command_line import invoke, succeed
from safetensors.torch import load_file, save_file

from onnxfn.export.jobs import identity
from onnxfn.export.jobs.identity import recipe_key
from onnxfn.export.jobs.recipes import load_recipe
from onnxfn.graphs.templates.template_cache import cache_entries, read_file, write_file

OPTIONS = {"task": None}
PROGRAM = """
import sys
from onnxfn.export.cli.commands import app
app(sys.argv[1:], standalone_mode=False)
print(sorted({"torch", "transformers", "onnxruntime", "onnxscript"} & set(sys.modules)))
"""


def saved(folder, model, times=1.0, **options):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(times)
    model.save_pretrained(folder, **options)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return folder


def llama(folder, times=1.0):
    return saved(folder, tiny.model("llama", "AutoModelForCausalLM"), times)


def exported_from_recipe(checkpoint, out, templates, *flags):
    """Exports a checkpoint; returns whether that was done from a recipe."""
    words = ("--no-check", "--verbose", "--template-cache", templates, *flags)
    printed = succeed("export", checkpoint, out, *words).stdout
    assert "unchecked" in printed
    return "    plan " not in printed


def second_export(checkpoint, folder, *flags, templates=None, name=""):
    """The files that an export writes by the model, and another by its recipe: they are the same."""
    templates = templates or folder / "templates"
    assert not exported_from_recipe(checkpoint, folder / "one" / name, templates, *flags)
    assert exported_from_recipe(checkpoint, folder / "two" / name, templates, *flags)
    assert content(folder / "one") == content(folder / "two")
    return content(folder / "two")


def content(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A checkpoint, the template cache after its export, and the folder of the export."""
    folder = tmp_path_factory.mktemp("first")
    checkpoint = llama(folder / "llama")
    assert not exported_from_recipe(checkpoint, folder / "out", folder / "templates")
    shutil.copytree(folder / "templates", folder / "unchanged")
    return checkpoint, folder / "templates", folder / "out"


@pytest.fixture
def checkpoint(first, tmp_path):
    return shutil.copytree(first[0], tmp_path / "llama")


def test_a_second_export_needs_neither_torch_nor_transformers(first, tmp_path):
    words = ["export", first[0], tmp_path / "out", "--no-check", "--template-cache", first[1]]
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)], capture_output=True, check=True, text=True
    )
    assert finished.stdout.splitlines()[-1] == "[]"
    assert "task: text-generation-with-past (found)" in finished.stdout
    assert content(tmp_path / "out") == content(first[2])


def test_a_second_export_writes_the_same_files_as_an_export_of_the_model(first, tmp_path):
    templates = tmp_path / "templates"
    templates.mkdir()
    for file in first[1].glob("*.template"):
        shutil.copy(file, templates)
    assert second_export(first[0], tmp_path) == content(first[2])


def test_a_fine_tuned_checkpoint_gets_its_own_weights(first, tmp_path):
    other = llama(tmp_path / "other", times=1.5)
    assert exported_from_recipe(other, tmp_path / "again", first[1])
    assert not exported_from_recipe(other, tmp_path / "whole", tmp_path / "none")
    assert content(tmp_path / "again") == content(tmp_path / "whole")
    assert content(tmp_path / "again")["onnx/model.onnx"] != content(first[2])["onnx/model.onnx"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_checkpoint_in_bfloat16_has_a_recipe(dtype, tmp_path):
    checkpoint = saved(tmp_path / "llama", tiny.model("llama", "AutoModelForCausalLM").bfloat16())
    options = ("--dtype", dtype, "--layout", "optimum")  # float16 has no file of its own there, and so a recipe
    files = second_export(checkpoint, tmp_path, *options)
    assert not exported_from_recipe(checkpoint, tmp_path / "again", tmp_path / "none", *options)
    assert content(tmp_path / "again") == files


def test_configuration_files_that_the_checkpoint_lacks_are_written(first, tmp_path):
    checkpoint = llama(tmp_path / "llama")
    (checkpoint / "generation_config.json").unlink()
    assert "generation_config.json" in second_export(checkpoint, tmp_path, templates=first[1])


def test_an_export_to_a_file_has_a_recipe_too(first, tmp_path):
    assert "named.onnx" in second_export(first[0], tmp_path, name="named.onnx")


@pytest.mark.parametrize("options", [("--weights", "share"), ("--weights", "none"), ("--layout", "transformers.js")])
def test_options_of_files_and_weights_hold_in_a_second_export(tmp_path, options):
    checkpoint = saved(tmp_path / "t5", tiny.model("t5", "AutoModelForSeq2SeqLM", vocab_size=20000))
    names = [name.rpartition(".")[2] for name in second_export(checkpoint, tmp_path, *options, "--decoders", "both")]
    assert names.count("onnx") == 4
    assert names.count("onnx_data") == ("share" in options)


def test_a_checkpoint_in_shards_whose_head_is_not_used(tmp_path):
    checkpoint = saved(tmp_path / "bert", tiny.model("bert", "AutoModelForMaskedLM"), max_shard_size="20KB")
    assert len(list(checkpoint.glob("*.safetensors"))) > 1
    second_export(checkpoint, tmp_path, "--task", "feature-extraction")


def test_a_checkpoint_whose_weights_transformers_renames(tmp_path):
    model = tiny.model("vit", "AutoModelForImageClassification")
    checkpoint = saved(tmp_path / "vit", model)
    assert set(load_file(checkpoint / "model.safetensors")) - set(model.state_dict())
    second_export(checkpoint, tmp_path)


def test_a_missing_template_is_built_again(first, tmp_path):
    templates = shutil.copytree(first[1], tmp_path / "templates")
    for file in templates.glob("*.template"):
        file.unlink()
    assert second_export(first[0], tmp_path) == content(first[2])


def test_an_export_with_a_check_loads_the_model(first, tmp_path):
    assert "check passed" in invoke("export", first[0], tmp_path / "out", "--template-cache", first[1]).stdout


# The key of a recipe


def rewrite(file, edit):
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))


def config(**values):
    return lambda folder: rewrite(folder / "config.json", lambda content: content.update(values))


def weights(edit):
    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        edit(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


CHANGES = {
    "configuration": config(rms_norm_eps=0.5),
    "nested configuration": config(rope_parameters={"rope_type": "default", "rope_theta": 7.0}),
    "number of labels": config(id2label={"0": "a"}, label2id={"a": 0}),
    "an additional tensor": weights(lambda tensors: tensors.update(more=torch.ones(2))),
    "another dtype": weights(lambda tensors: tensors.update({name: tensor.half() for name, tensor in tensors.items()})),
    "generation": lambda folder: rewrite(folder / "generation_config.json", lambda content: content.update(top_k=1)),
    "no generation": lambda folder: (folder / "generation_config.json").unlink(),
}
UNSAFE_CHANGES = {
    "code": config(auto_map={"AutoModel": "mine.Model"}),
    "quantized": config(text_config={"quantization_config": {"bits": 4}}),
    "adapter": lambda folder: (folder / "adapter_config.json").write_text("{}"),
    "python": lambda folder: (folder / "mine.py").write_text(""),
    "cut": cut,
    "no configuration": lambda folder: (folder / "config.json").unlink(),
    "no JSON": lambda folder: (folder / "config.json").write_text("{"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "another file": lambda folder: shutil.copy(folder / "model.safetensors", folder / "more.safetensors"),
    "an index that is not needed": lambda folder: (folder / identity.INDEX_FILE).write_text('{"weight_map": {}}'),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_may_change_the_files_changes_the_key(checkpoint, change):
    before = recipe_key(checkpoint, OPTIONS)
    change(checkpoint)
    assert None is not recipe_key(checkpoint, OPTIONS) != before is not None


@pytest.mark.parametrize("change", UNSAFE_CHANGES.values(), ids=UNSAFE_CHANGES)
def test_an_unsafe_checkpoint_has_no_key(checkpoint, change):
    change(checkpoint)
    assert recipe_key(checkpoint, OPTIONS) is None


def test_values_of_weights_and_names_of_labels_do_not_change_the_key(checkpoint):
    config(id2label={"0": "a", "1": "b"}, label2id={"a": 0, "b": 1})(checkpoint)
    before = recipe_key(checkpoint, OPTIONS)
    config(id2label={"0": "c", "1": "d"}, label2id={"c": 0, "d": 1}, _name_or_path="elsewhere")(checkpoint)
    weights(lambda tensors: tensors.update({name: tensor + 1 for name, tensor in tensors.items()}))(checkpoint)
    assert recipe_key(checkpoint, OPTIONS) == before is not None


@pytest.mark.parametrize(
    "flags", [("--opset", "20"), ("--size", "sequence_length=9"), ("--trace-all-layers",), ("--atol", "1")]
)
def test_flags_change_the_key(first, tmp_path, flags):
    templates = shutil.copytree(first[1], tmp_path / "templates")
    assert not exported_from_recipe(first[0], tmp_path / "out", templates, *flags)


@pytest.mark.parametrize("function", ["package_versions", "_installed_packages"])
def test_installed_packages_change_the_key(first, monkeypatch, function):
    before = recipe_key(first[0], OPTIONS)
    monkeypatch.setattr(identity, function, lambda: ["torch 99"])
    assert recipe_key(first[0], OPTIONS) != before


def test_a_checkpoint_whose_index_lacks_a_tensor_has_no_key(tmp_path):
    checkpoint = saved(tmp_path / "bert", tiny.model("bert", "AutoModelForMaskedLM"), max_shard_size="20KB")
    assert recipe_key(checkpoint, OPTIONS) is not None
    rewrite(checkpoint / identity.INDEX_FILE, lambda content: content["weight_map"].popitem())
    assert recipe_key(checkpoint, OPTIONS) is None


# Recipes that are not certain are not saved


def store_tied_head(folder):
    config(tie_word_embeddings=True)(folder)
    weights(lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}))(folder)


@pytest.mark.parametrize("tied", [False, True])
def test_a_stored_head_that_is_tied_to_the_embedding_saves_no_recipe(checkpoint, tmp_path, tied):
    config(tie_word_embeddings=tied)(checkpoint)
    if tied:
        store_tied_head(checkpoint)
    exported_from_recipe(checkpoint, tmp_path / "out", tmp_path / "templates")
    assert bool(list((tmp_path / "templates").glob("*.recipe"))) is not tied


def test_a_missing_recipe_is_none(tmp_path):
    assert load_recipe(None, "x") is load_recipe(tmp_path, "x") is load_recipe(tmp_path, None) is None


# Recipes that are damaged, or were edited by somebody who can write the cache


@pytest.fixture
def recipe_file(first, tmp_path):
    """The file of the recipe of the first checkpoint, in a copy of the cache."""
    templates = shutil.copytree(first[1].parent / "unchanged", tmp_path / "templates")
    (file,) = templates.glob("*.recipe")
    return file


def test_a_recipe_whose_file_is_damaged_is_deleted(recipe_file):
    assert load_recipe(recipe_file.parent, recipe_file.stem).plan.task == "text-generation-with-past"
    recipe_file.write_bytes(recipe_file.read_bytes().replace(b'"batch_size"', b'"batch_sise"'))
    assert load_recipe(recipe_file.parent, recipe_file.stem) is None
    assert not recipe_file.exists()


def edit(file, change):
    """Edits a recipe, and writes it with the digest of the edited recipe."""
    content = json.loads(read_file(file))
    change(content)
    write_file(file, json.dumps(content).encode())


def config_file(name):
    return lambda recipe: recipe["config_files"].update({name: "text"})


def part_name(name):
    return lambda recipe: recipe["plan"]["parts"][0].update(name=name)


def template(name):
    return lambda recipe: recipe.update(templates=[name])


NAMES_THAT_LEAD_OUT = ("../evil", "../../../evil", "{folder}/evil", "..", "", "a/b", "a\\b", "c:evil", "evil\0")


@pytest.mark.parametrize("name", ["../../../evil", "{folder}/evil", "evil.json"])
def test_no_configuration_file_of_a_recipe_is_written_outside_the_folder(name, recipe_file, first, tmp_path):
    edit(recipe_file, config_file(name.format(folder=tmp_path)))
    before = set(tmp_path.rglob("*"))
    assert not exported_from_recipe(first[0], tmp_path / "out", recipe_file.parent)
    assert content(tmp_path / "out") == content(first[2])
    assert all(path.is_relative_to(tmp_path / "out") for path in set(tmp_path.rglob("*")) - before)


@pytest.mark.parametrize("name", NAMES_THAT_LEAD_OUT)
@pytest.mark.parametrize("change", [part_name, template, config_file])
def test_a_recipe_with_a_name_that_leads_out_of_the_folder_is_deleted(change, name, recipe_file, tmp_path):
    edit(recipe_file, change(name.format(folder=tmp_path)))
    assert load_recipe(recipe_file.parent, recipe_file.stem) is None
    assert not recipe_file.exists()


@pytest.mark.parametrize("name", ["evil.json", "config.json.py", "CONFIG.JSON"])
def test_a_recipe_with_an_unknown_configuration_file_is_deleted(name, recipe_file):
    edit(recipe_file, config_file(name))
    assert load_recipe(recipe_file.parent, recipe_file.stem) is None


@pytest.mark.parametrize("name", ["model", "decoder_model_merged", "my model", "né", "v1.5", ".hidden"])
def test_a_part_may_have_any_plain_name(name, recipe_file):
    edit(recipe_file, part_name(name))
    assert load_recipe(recipe_file.parent, recipe_file.stem).plan.parts[0].name == name


def source(name):
    """Has a weight read from the tensor of this name."""
    return lambda recipe: recipe["parameter_sources"].update({"model.norm.weight": name})


MISFITS = {
    "no sources": lambda recipe: recipe.update(parameter_sources={}),
    "swapped sources": source("model.embed_tokens.weight"),
    "another source": source("no such tensor"),
    "no plan": lambda recipe: recipe.pop("plan"),
    "more templates": lambda recipe: recipe.update(templates=2 * recipe["templates"]),
}


@pytest.mark.parametrize("change", MISFITS.values(), ids=MISFITS)
def test_a_recipe_that_does_not_fit_the_checkpoint_is_not_used(change, recipe_file, first, tmp_path):
    edit(recipe_file, change)
    assert second_export(first[0], tmp_path, templates=recipe_file.parent) == content(first[2])


def test_a_recipe_counts_to_the_size_of_the_cache_and_is_deleted_when_it_was_not_used_for_longest(recipe_file):
    os.utime(recipe_file, (0, 0))
    size = sum(entry.size for entry in cache_entries(recipe_file.parent))
    write_file(recipe_file.parent / f"{'0' * 64}.template", b"", max_bytes=size)
    assert not recipe_file.exists()
