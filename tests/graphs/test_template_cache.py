"""A saved graph is loaded for the next model that differs in weight values alone, and for no other."""

import random
import shutil
from pathlib import Path

import onnx
import pytest
import tiny
import torch
import transformers

import onnxfn
from onnxfn.export.run.attempts import RETRACED
from onnxfn.graphs.templates.template_cache import NOTE, read_file, write_file

SPEC = onnxfn.spec_for("llama", "text-generation-with-past")


def llama(**values):
    torch.manual_seed(len(values))
    return tiny.model("llama", "AutoModelForCausalLM", **values)


def fine_tuned(model, factor=1.5):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)
    return model


def exported(model, folder, templates, spec=SPEC, **options):
    return onnxfn.export(spec, model, folder, build=onnxfn.BuildOptions(template_cache=templates), **options)


def stages(result):
    return {stage for stage, _ in result.seconds}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    result = exported(llama(), folder / "out", folder / "templates")
    shutil.copytree(folder / "templates", folder / "unchanged")
    return folder / "templates", result


def test_a_fine_tuned_model_is_exported_without_a_trace(saved, tmp_path):
    templates, first = saved
    second = exported(fine_tuned(llama()), tmp_path / "out", templates)
    assert "capture" in stages(first)
    assert "capture" not in stages(second)
    assert second.report.passed
    assert (second.limits, second.plan) == (first.limits, first.plan)


# Models that once had no fingerprint: for hooks of torch or of transformers, or for a buffer in bfloat16.
@pytest.mark.parametrize(
    ("model_type", "task"),
    [("hubert", "audio-classification"), ("vitpose", "keypoint-detection"), ("recurrent_gemma", "text-generation")],
)
def test_models_with_hooks_and_with_buffers_of_any_dtype_have_templates(model_type, task, tmp_path):
    spec = onnxfn.spec_for(model_type, task)
    first, second = (tiny.model(model_type, spec.call.loader) for _ in range(2))
    exported(first, tmp_path / "one", tmp_path / "templates", spec, check=False)
    result = exported(fine_tuned(second, 1.1), tmp_path / "two", tmp_path / "templates", spec)
    assert "capture" not in stages(result)
    assert result.report.passed


def test_the_loaded_graph_is_the_one_of_a_trace_also_under_another_name(saved, tmp_path):
    templates, _ = saved
    traced = exported(fine_tuned(llama()), tmp_path / "traced", None)
    loaded = exported(fine_tuned(llama()), tmp_path / "another name.onnx", templates)
    models = (onnx.load(result.files[0]) for result in (loaded, traced))
    assert len({model.SerializeToString(deterministic=True) for model in models}) == 1


def test_a_template_has_no_weights(saved):
    templates, first = saved
    file = next(templates.glob("*.template"))
    weights = sum(parameter.numel() * 4 for parameter in llama().parameters())
    assert file.stat().st_size < (templates.parent / "out" / "model.onnx").stat().st_size - 0.9 * weights
    assert first.report.passed


@pytest.mark.parametrize(("spec", "values"), [(SPEC, {"rms_norm_eps": 0.01}), (onnxfn.with_opset(SPEC, 20), {})])
def test_another_configuration_and_another_plan_are_traced(spec, values, saved, tmp_path):
    assert "capture" in stages(exported(llama(**values), tmp_path / "out", saved[0], spec))


@pytest.mark.parametrize("model_type", ["llama", "bert"])
def test_a_checkpoint_in_another_folder_is_exported_without_a_trace(model_type, tmp_path):
    """transformers stores the folder of a checkpoint in the model and in each model inside it."""
    spec = onnxfn.spec_for(model_type, "text-generation-with-past" if model_type == "llama" else "text-classification")
    results = []
    for seed, folder in enumerate((tmp_path / "first", tmp_path / "second")):
        torch.manual_seed(seed)
        tiny.model(model_type, spec.call.loader).save_pretrained(folder / "checkpoint")
        model = getattr(transformers, spec.call.loader).from_pretrained(folder / "checkpoint")
        assert model.name_or_path == model.base_model.name_or_path == str(folder / "checkpoint")
        results.append(exported(model, folder / "out", tmp_path / "templates", spec))
    assert ["capture" in stages(result) for result in results] == [True, False]
    assert all(result.report.passed for result in results)
    assert len({result.path for result in results}) == 2


# Templates that are damaged or wrong


def content(folder):
    return (folder / "model.onnx").read_bytes()


@pytest.mark.parametrize(("flips", "seed"), [(3, 0), pytest.param(60, 1, marks=pytest.mark.sweep)])
def test_templates_with_flipped_bits_are_replaced(flips, seed, tmp_path, capfd):
    """Each export after a flipped bit is right, and leaves a template that is right again."""
    templates, out = tmp_path / "templates", tmp_path / "out"
    expected = content(Path(exported(llama(), out, templates, check=False).path))
    (file,) = templates.iterdir()
    intact, choice = file.read_bytes(), random.Random(seed)
    for _ in range(flips):
        damaged = bytearray(intact)
        damaged[choice.randrange(len(damaged))] ^= 1 << choice.randrange(8)
        file.write_bytes(damaged)
        exported(llama(), out, templates, check=False, overwrite=True)
        assert content(out) == expected
        assert file.read_bytes() == intact
    assert capfd.readouterr().err == ""


def unknown_parameter(proto):
    (note,) = (entry for entry in proto.metadata_props if entry.key == NOTE)
    note.value = note.value.replace('"parameter": "model.norm.weight"', '"parameter": "model.norm.wait"')


def unknown_initializer(proto):
    constant = next(value for value in proto.graph.initializer if value.name.startswith("constant_"))
    proto.graph.initializer.remove(constant)


@pytest.fixture
def edited(saved, tmp_path):
    """A function that edits a template in a copy of the cache, its digest too; returns the copy of the cache."""

    def edit(change):
        templates = shutil.copytree(saved[0].parent / "unchanged", tmp_path / "templates")
        (file,) = templates.iterdir()
        proto = onnx.ModelProto.FromString(read_file(file))
        change(proto)
        write_file(file, proto.SerializeToString())
        return templates

    return edit


@pytest.mark.parametrize("change", [lambda proto: proto.ClearField("metadata_props"), unknown_parameter])
def test_a_template_that_does_not_fit_the_model_is_deleted_and_the_model_is_traced(change, edited, tmp_path, capfd):
    templates = edited(change)
    result = exported(llama(), tmp_path / "out", templates)
    assert result.report.passed
    assert "capture" in stages(result)
    assert capfd.readouterr().err == ""
    assert "capture" not in stages(exported(llama(), tmp_path / "again", templates))


def softmax_becomes(operator):
    def change(proto):
        next(node for node in proto.graph.node if node.op_type == "Softmax").op_type = operator

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda proto: proto.graph.ClearField("node"),
        unknown_initializer,
        softmax_becomes("Softmin"),
        softmax_becomes("LogSoftmax"),
    ],
    ids=["no node", "unknown initializer", "unknown operator", "wrong operator"],
)
def test_a_template_that_fails_the_check_is_deleted_and_all_layers_are_traced(change, edited, tmp_path, capfd):
    """The graph is not valid, or ONNX Runtime cannot load the file, or computes something else."""
    templates = edited(change)
    result = exported(llama(), tmp_path / "out", templates)
    assert result.report.passed
    assert result.repeats == (RETRACED,)
    assert list(templates.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_a_model_that_fails_the_check_without_a_template_is_traced_once(tmp_path):
    events = []
    spec = onnxfn.with_tolerance(SPEC, atol=0.0, rtol=0.0)
    with pytest.raises(onnxfn.CheckFailed, match="away from PyTorch"):
        exported(llama(), tmp_path / "out", tmp_path / "templates", spec, on_event=events.append)
    assert [(event.stage, event.status) for event in events].count(("capture", "start")) == 1
    assert list((tmp_path / "templates").iterdir()) == []


def test_each_part_has_a_template(tmp_path):
    for name in ("one", "two"):
        spec, model = tiny.spec_and_model("t5", "text2text-generation-with-past")
        result = exported(model, tmp_path / name, tmp_path / "templates", spec)
        assert result.report.passed
    assert "capture" not in stages(result)
    assert len(list((tmp_path / "templates").iterdir())) == 2
