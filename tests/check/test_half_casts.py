"""A module in float32 that computes in float16 inside is judged by what PyTorch loses there, and no other is."""

import onnx
import pytest
import torch
from torch import nn

import onnxfn
from onnxfn.check.verdict.half_casts import half_module


class Rounded(nn.Module):
    """Computes in another dtype, or in its own."""

    def __init__(self, dtype=torch.float16, shift=1.0):
        super().__init__()
        self.dtype, self.shift = dtype, shift

    def forward(self, x):
        narrow = x if self.dtype is None else x.to(self.dtype)
        return ((narrow * 1.1).softmax(-1) + self.shift).to(x.dtype)


def model_with(inner):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), inner, nn.Linear(6, 3))


def spec_of(model):
    return onnxfn.derived(model, sample=torch.randn(4, 6))


def test_rounding_to_float16_inside_a_module_agrees(tmp_path):
    for model in (model_with(Rounded()), lambda x: (x.half() * 1.1).float()):
        report = onnxfn.export(spec_of(model), model).report
        assert report.passed
        assert max(difference.max_abs for difference in report.differences) < 1e-2


def test_a_fault_in_such_a_module_fails_and_the_module_is_named(tmp_path):
    model = model_with(Rounded())
    spec = spec_of(model)
    onnxfn.export(spec, model, tmp_path / "m.onnx")
    faulty = onnxfn.validate(spec, model_with(Rounded(shift=1.01)), tmp_path / "m.onnx")
    assert not faulty.passed
    message = (
        "Sequential computes in float16 or bfloat16 in '1', and differs by more than PyTorch's own rounding there; "
        "leave out that cast or autocast, or say with_tolerance(spec, atol=...)"
    )
    assert faulty.findings == (message,)


def test_a_module_without_such_a_cast_is_judged_as_before(tmp_path):
    """The same file for the same weights in float32: as far away as float16 rounds, which is a fault there."""
    model = model_with(Rounded())
    spec = spec_of(model)
    onnxfn.export(spec, model, tmp_path / "m.onnx")
    report = onnxfn.validate(spec, model_with(Rounded(None)), tmp_path / "m.onnx")
    assert not report.passed
    assert report.findings == ()
    assert {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node} >= {"Cast", "Softmax"}


@pytest.mark.parametrize(("inner", "path"), [(Rounded(), "1"), (Rounded(torch.bfloat16), "1"), (nn.ReLU(), None)])
def test_the_module_is_found(inner, path):
    model = model_with(inner)
    part = onnxfn.plan(spec_of(model), {}).parts[0]
    inputs = onnxfn.specs.algebra.dummies.dummies(part.spec, {})
    assert half_module(model, part, inputs) == path
