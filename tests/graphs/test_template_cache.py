"""A saved graph is loaded for the next model that differs in weight values alone, and for no other."""

from __future__ import annotations

import json

import onnx
import pytest
import tiny
import torch

import onnxfn
from onnxfn.export.pipeline import RETRACED

SPEC = onnxfn.spec_for("llama", "text-generation-with-past")


def llama(**values):
    torch.manual_seed(len(values))
    return tiny.model("llama", "AutoModelForCausalLM", **values)


def fine_tuned():
    model = llama()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def exported(model, folder, templates, **options):
    return onnxfn.export(SPEC, model, folder, build=onnxfn.BuildOptions(template_cache=templates), **options)


def stages(result):
    return {stage for stage, _ in result.seconds}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A cache folder with one template, and the export that saved it."""
    folder = tmp_path_factory.mktemp("saved")
    return folder / "templates", exported(llama(), folder / "out", folder / "templates")


def test_a_fine_tuned_model_is_exported_without_a_trace(saved, tmp_path):
    templates, first = saved
    second = exported(fine_tuned(), tmp_path / "out", templates)
    assert "capture" in stages(first)
    assert "capture" not in stages(second)
    assert second.report.passed
    assert (second.limits, second.plan) == (first.limits, first.plan)


# Models that once had no fingerprint: for hooks of torch or of transformers, or for a buffer in bfloat16.
@pytest.mark.parametrize(
    ("model_type", "task"),
    [
        ("hubert", "audio-classification"),
        ("vitpose", "keypoint-detection"),
        ("recurrent_gemma", "text-generation"),
    ],
)
def test_models_with_hooks_and_with_buffers_of_any_dtype_have_templates(model_type, task, tmp_path):
    spec = onnxfn.spec_for(model_type, task)
    first, second = tiny.model(model_type, spec.call.loader), tiny.model(model_type, spec.call.loader)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.mul_(1.1)
    onnxfn.export(
        spec, first, tmp_path / "one", build=onnxfn.BuildOptions(template_cache=tmp_path / "templates"), check=False
    )
    result = onnxfn.export(
        spec, second, tmp_path / "two", build=onnxfn.BuildOptions(template_cache=tmp_path / "templates")
    )
    assert "capture" not in stages(result)
    assert result.report.passed


def test_the_loaded_graph_is_the_one_of_a_trace(saved, tmp_path):
    templates, _ = saved
    traced = exported(fine_tuned(), tmp_path / "traced", None)
    loaded = exported(fine_tuned(), tmp_path / "loaded", templates)
    models = (onnx.load(result.files[0]) for result in (loaded, traced))
    assert len({model.SerializeToString(deterministic=True) for model in models}) == 1


def test_a_template_has_no_weights(saved):
    templates, first = saved
    file = next(templates.glob("*.onnx"))
    weights = sum(parameter.numel() * 4 for parameter in llama().parameters())
    assert file.stat().st_size < (templates.parent / "out" / "model.onnx").stat().st_size - 0.9 * weights
    assert first.report.passed


def test_another_configuration_is_traced(saved, tmp_path):
    result = exported(llama(rms_norm_eps=0.01), tmp_path / "out", saved[0])
    assert "capture" in stages(result)


def test_another_plan_is_traced(saved, tmp_path):
    spec = onnxfn.with_opset(SPEC, 20)
    result = onnxfn.export(spec, llama(), tmp_path / "out", build=onnxfn.BuildOptions(template_cache=saved[0]))
    assert "capture" in stages(result)


def test_a_template_that_cannot_be_read_is_replaced(tmp_path):
    exported(llama(), tmp_path / "one", tmp_path / "templates", check=False)
    (file,) = (tmp_path / "templates").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    result = exported(llama(), tmp_path / "two", tmp_path / "templates")
    assert "capture" in stages(result)
    assert file.stat().st_size > 100


def test_a_template_that_fails_the_check_is_deleted_and_all_layers_are_traced(tmp_path):
    exported(llama(), tmp_path / "one", tmp_path / "templates", check=False)
    (file,) = (tmp_path / "templates").iterdir()
    wrong = onnx.load(file, load_external_data=False)
    next(node for node in wrong.graph.node if node.op_type == "Softmax").op_type = "LogSoftmax"
    onnx.save(wrong, file)
    result = exported(llama(), tmp_path / "two", tmp_path / "templates")
    assert result.report.passed
    assert result.repeats == (RETRACED,)
    assert not file.exists()


def test_each_part_has_a_template(tmp_path):
    spec = onnxfn.spec_for("t5", "text2text-generation-with-past")
    for name in ("one", "two"):
        result = onnxfn.export(
            spec,
            tiny.model("t5", spec.call.loader),
            tmp_path / name,
            build=onnxfn.BuildOptions(template_cache=tmp_path / "templates"),
        )
        assert result.report.passed
    assert "capture" not in stages(result)
    assert len(list((tmp_path / "templates").iterdir())) == 2


def test_a_cache_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "templates").write_text("a file")
    assert exported(llama(), tmp_path / "out", tmp_path / "templates", check=False).files


def test_a_template_lists_the_parameters_that_it_reads(saved):
    file = next(saved[0].glob("*.onnx"))
    metadata = {entry.key: entry.value for entry in onnx.load(file, load_external_data=False).metadata_props}
    slots = json.loads(metadata["onnxfn.template"])["slots"]
    assert slots["model.norm.weight"] == {"parameter": "model.norm.weight", "perm": [], "packed_with": []}
    assert slots["model.layers.0.mlp.up_proj.weight"]["perm"] == [1, 0]
