import json
import shutil

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

import onnxfn
from onnxfn.export.jobs import identity
from onnxfn.graphs.templates.fingerprints import fingerprint as fingerprint_of_templates


def bert(layers=1):
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    return BertModel(BertConfig(num_hidden_layers=layers, **sizes))


def changed(model):
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[3, 1] += 1
    return model


def test_a_model_has_the_fingerprint_of_its_templates_and_its_values_count_if_that_is_wanted():
    assert onnxfn.fingerprint(bert()) == fingerprint_of_templates(bert()) == onnxfn.fingerprint(changed(bert()))
    assert onnxfn.fingerprint(bert()) != onnxfn.fingerprint(bert(layers=2))
    assert onnxfn.fingerprint(bert(), weights=True) == onnxfn.fingerprint(bert(), weights=True)
    assert onnxfn.fingerprint(bert(), weights=True) != onnxfn.fingerprint(changed(bert()), weights=True)


def test_checkpoints_that_differ_in_the_values_of_weights_alone_have_one_fingerprint(tmp_path):
    bert().save_pretrained(tmp_path / "a")
    changed(bert()).save_pretrained(tmp_path / "b")
    a, b = tmp_path / "a", tmp_path / "b"
    assert onnxfn.fingerprint(a) == onnxfn.fingerprint(str(a)) == onnxfn.fingerprint(b) is not None
    assert onnxfn.fingerprint(a, weights=True) != onnxfn.fingerprint(b, weights=True)


# What the fingerprint of a checkpoint depends on


@pytest.fixture
def checkpoint(tmp_path):
    tiny.model("llama", "AutoModelForCausalLM").save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


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
def test_what_may_change_the_files_changes_the_fingerprint(checkpoint, change):
    before = onnxfn.fingerprint(checkpoint)
    change(checkpoint)
    assert None is not onnxfn.fingerprint(checkpoint) != before is not None


@pytest.mark.parametrize("change", UNSAFE_CHANGES.values(), ids=UNSAFE_CHANGES)
def test_an_unsafe_checkpoint_has_no_fingerprint(checkpoint, change):
    change(checkpoint)
    assert onnxfn.fingerprint(checkpoint) is onnxfn.fingerprint(checkpoint, weights=True) is None


def test_installed_packages_change_the_fingerprint(checkpoint, monkeypatch, tmp_path):
    before = onnxfn.fingerprint(checkpoint)
    (tmp_path / "more-1.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with_more = onnxfn.fingerprint(checkpoint)
    monkeypatch.setattr(identity, "package_versions", lambda: ["torch 99"])
    assert len({before, with_more, onnxfn.fingerprint(checkpoint)}) == 3


def test_a_checkpoint_whose_index_lacks_a_tensor_has_no_fingerprint(tmp_path):
    checkpoint = tmp_path / "bert"
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(checkpoint, max_shard_size="20KB")
    assert onnxfn.fingerprint(checkpoint) is not None
    rewrite(checkpoint / identity.INDEX_FILE, lambda content: content["weight_map"].popitem())
    assert onnxfn.fingerprint(checkpoint) is None
