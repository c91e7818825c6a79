"""Models with values that float16 cannot hold: plain files are wrong; files that keep these in float32 are right."""

import numpy as np
import onnx_ir
import pytest
import tiny
import torch
from onnx.reference import ReferenceEvaluator
from refusals import refusal

import onnxfn
from onnxfn.check.variants.proof import feeds_of
from onnxfn.export.run import retries
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.specs.stored.reports import CheckFailed

TEXT, SPEECH = "text-generation-with-past", "automatic-speech-recognition-with-past"
PLANTED = {
    "gemma3_text": (TEXT, {"layers.0.post_feedforward_layernorm.weight": 3e5}),
    "gpt_oss": (TEXT, {"layers.0.mlp.experts.down_proj": 6e4}),
    "nanochat": (TEXT, {"layers.0.mlp.fc1.weight": 4, "layers.0.mlp.fc2.weight": 4e4}),
    "whisper": (SPEECH, {"layers.0.fc1.weight": 10, "layers.0.fc2.weight": 3e4}),
}
"""From a model type to its task, and from the ends of the names of weights to their factors."""


def planted(model_type, factors=None):
    """A spec in float16, and a model whose residual exceeds the numbers of float16."""
    task, own = PLANTED[model_type]
    spec = onnxfn.with_dtypes(onnxfn.spec_for(model_type, task), float="float16")
    model = tiny.model(model_type, spec.call.loader)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(next((factor for end, factor in (factors or own).items() if name.endswith(end)), 1.0))
    return spec, model


def stored_bytes(file):
    return sum(each.const_value.nbytes for each in onnx_ir.load(file).graph.initializers.values())


def computed_in_float16(part, folder):
    """The inputs of a case, and the outputs that numpy computes for them: each operator in the dtypes of the file."""
    inputs = feeds_of(part, dummies(part.spec, {}, seed=1))
    with np.errstate(all="ignore"):
        return inputs, ReferenceEvaluator(str(folder / f"{part.name}.onnx")).run(None, inputs)


@pytest.mark.parametrize("model_type", PLANTED)
def test_values_beyond_float16_are_kept_in_float32(model_type, tmp_path):
    spec, model = planted(model_type)
    plain = onnxfn.export(spec, model, tmp_path / "plain", check=False)
    assert not onnxfn.validate(spec, model, plain).passed
    unsearched = "values that overflow in float16 were not looked for: without a check the file is not run"
    assert [*plain.plan.remarks] == [f"{part.name}: {unsearched}" for part in plain.plan.parts]
    mended = onnxfn.export(spec, model, tmp_path / "mended")
    assert mended.report.passed
    unsearched = [remark for remark in mended.plan.remarks if "not looked for" in remark]
    inside = "decoder_model_merged: values that overflow in float16 were not looked for inside If 'If'"
    assert unsearched == ([inside] if model_type == "whisper" else [])
    kept = [remark for remark in mended.plan.remarks if remark.endswith("float16 ends at 65504; kept in float32")]
    assert len(kept) == len(mended.plan.parts)
    assert all("layers.0" in remark for remark in kept)
    for part in mended.plan.parts:
        before, after = (stored_bytes(tmp_path / folder / f"{part.name}.onnx") for folder in ("plain", "mended"))
        assert after <= 1.01 * before
        _, overflowing = computed_in_float16(part, tmp_path / "plain")
        assert not all(np.isfinite(array).all() for array in overflowing)
        inputs, outputs = computed_in_float16(part, tmp_path / "mended")
        for actual, expected in zip(outputs, torch_outputs(model, part, inputs, torch.float32), strict=True):
            assert np.abs(actual - expected).max() < 0.005 * np.abs(expected).max()


def test_why_overflow_was_not_looked_for_is_said(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise CheckFailed("model.onnx cannot be loaded: no kernel")

    monkeypatch.setattr(retries, "overflowing", refused)
    model = torch.nn.Linear(8, 8)
    spec = onnxfn.with_dtypes(onnxfn.derived(model, sample=torch.randn(3, 8)), float="float16")
    [remark] = onnxfn.export(spec, model, tmp_path / "out").plan.remarks
    said = "values that overflow in float16 were not looked for: model.onnx cannot be loaded: no kernel"
    assert remark == f"model: {said}"
    assert said in (tmp_path / "out" / "report.json").read_text()


def test_such_a_file_may_be_refused_and_the_layer_is_named(tmp_path):
    spec, model = planted("nanochat")
    refuse = onnxfn.BuildOptions(float16_overflow="refuse")
    message = refusal(CheckFailed, onnxfn.export, spec, model, tmp_path / "out", build=refuse)
    assert "model.layers.0.mlp.fc2 reaches" in message
    assert not list(tmp_path.iterdir())


def test_values_within_two_of_the_end_are_kept_in_float32_though_the_plain_file_passes(tmp_path):
    spec, model = planted("nanochat", {"layers.0.mlp.fc2.weight": 8e3})
    assert onnxfn.validate(spec, model, onnxfn.export(spec, model, tmp_path / "plain", check=False)).passed
    mended = onnxfn.export(spec, model, tmp_path / "mended")
    assert "kept in float32" in mended.plan.remarks[-1]
    assert onnxfn.validate(spec, model, mended).passed


def test_a_mean_whose_sum_overflows_is_computed_in_float32(tmp_path):
    """PyTorch and ONNX Runtime's CPU add up in float32. Other kernels do not."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.AdaptiveAvgPool2d(1))
    torch.nn.init.constant_(model[0].bias, 100.0)
    spec = onnxfn.with_dtypes(onnxfn.derived(model, sample=torch.randn(1, 3, 32, 32)), float="float16")
    exported = onnxfn.export(spec, model, tmp_path / "out")
    [mean] = [node for node in onnx_ir.load(exported.files[0]).graph if node.op_type == "ReduceMean"]
    assert mean.inputs[0].dtype == mean.outputs[0].dtype == onnx_ir.DataType.FLOAT
    assert "reaches 1e+05" in exported.plan.remarks[-1]


def test_a_graph_that_returns_such_values_is_refused_unless_it_returns_float32(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
    torch.nn.init.constant_(model[0].bias, 9.0)
    torch.nn.init.constant_(model[2].weight, 5e4)
    spec = onnxfn.with_dtypes(onnxfn.derived(model, sample=torch.randn(3, 8)), float="float16")
    message = refusal(CheckFailed, onnxfn.export, spec, model, tmp_path / "out")
    assert "2 reaches 4e+05: float16 ends at 65504; export in float32, or with" in message
    returns_float32 = onnxfn.with_dtypes(spec, io="float32")
    assert "kept in float32" in onnxfn.export(returns_float32, model, tmp_path / "out").plan.remarks[-1]
