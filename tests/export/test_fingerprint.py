"""The fingerprint of a model and of a checkpoint."""

import json

import pytest
import torch
from transformers import BertConfig, BertModel

import onnxfn
from onnxfn.export.jobs.identity import kind_of, recipe_key
from onnxfn.graphs.templates.fingerprints import fingerprint as fingerprint_of_templates


def bert(layers=1):
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    return BertModel(BertConfig(num_hidden_layers=layers, **sizes))


def changed(model):
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[3, 1] += 1
    return model


def test_a_model_has_the_fingerprint_of_its_templates():
    assert onnxfn.fingerprint(bert()) == fingerprint_of_templates(bert())
    assert onnxfn.fingerprint(bert()) != onnxfn.fingerprint(bert(layers=2))


def test_the_values_of_weights_count_only_if_that_is_wanted():
    assert onnxfn.fingerprint(bert()) == onnxfn.fingerprint(changed(bert()))
    assert onnxfn.fingerprint(bert(), weights=True) == onnxfn.fingerprint(bert(), weights=True)
    assert onnxfn.fingerprint(bert(), weights=True) != onnxfn.fingerprint(changed(bert()), weights=True)


def test_a_checkpoint_has_the_fingerprint_that_a_second_export_of_its_kind_is_found_by(tmp_path):
    bert().save_pretrained(tmp_path / "a")
    changed(bert()).save_pretrained(tmp_path / "b")
    a, b = tmp_path / "a", tmp_path / "b"
    assert onnxfn.fingerprint(a) == onnxfn.fingerprint(str(a)) == recipe_key(a, {}) == onnxfn.fingerprint(b)
    assert onnxfn.fingerprint(a, weights=True) != onnxfn.fingerprint(b, weights=True)
    config = json.loads((b / "config.json").read_text())
    (b / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    assert onnxfn.fingerprint(a) != onnxfn.fingerprint(b)


def test_jobs_whose_graphs_are_built_in_another_way_are_of_another_kind(tmp_path):
    bert().save_pretrained(tmp_path / "a")
    builds = (
        onnxfn.BuildOptions(template_cache=tmp_path, **options)
        for options in ({}, {"pretranspose": False}, {"find_repeats": onnxfn.trace_all_layers})
    )
    jobs = [onnxfn.ExportJob(tmp_path / "a", tmp_path / "out", build=build) for build in builds]
    assert len({kind_of(job, tmp_path / "a") for job in jobs} - {None}) == 3


def test_what_cannot_be_known_has_no_fingerprint(tmp_path):
    bert().save_pretrained(tmp_path / "a")
    (tmp_path / "a" / "modeling_own.py").write_text("")
    assert onnxfn.fingerprint(tmp_path / "a") is None
    assert onnxfn.fingerprint(tmp_path / "a", weights=True) is None


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(onnxfn.ModelNotFound, match="no folder"):
        onnxfn.fingerprint(tmp_path / "nothing")
