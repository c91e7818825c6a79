"""A module that casts inside, to float32 in float64 or to float16 in float32, has that rounding in its own error."""

import numpy as np
import pytest
import torch
from small_modules import module
from torch import nn

import onnxfn
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.specs.algebra.dummies import dummies


def rounding(dtype, shift=1.0):
    """A model whose inner module computes in a dtype."""

    def forward(_, x):
        return ((x.to(dtype) * 1.1).softmax(-1) + torch.full((6,), shift, dtype=dtype)).to(x.dtype)

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), module(forward), nn.Linear(6, 3))


def spec_of(model):
    return onnxfn.derived(model, sample=torch.randn(4, 6))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_what_is_exact_has_no_such_rounding(dtype):
    part = onnxfn.plan(spec_of(rounding(dtype)), {}).parts[0]
    inputs = dummies(part.spec, {})
    _, [found] = exact_outputs(rounding(dtype), "float32")(part, inputs)
    _, [wide] = exact_outputs(rounding(torch.float64), "float32")(part, inputs)
    assert np.array_equal(found, wide)


def test_rounding_to_float32_in_a_model_of_float64_agrees():
    assert onnxfn.export(spec_of(rounding(torch.float32)), rounding(torch.float32)).report.passed


def test_a_model_that_casts_to_float16_is_refused_with_the_reason_and_agrees_with_a_tolerance():
    model = rounding(torch.float16)
    with pytest.raises(onnxfn.CheckFailed, match="or the model casts to fewer bits"):
        onnxfn.export(spec_of(model), model)
    assert onnxfn.export(onnxfn.with_tolerance(spec_of(model), atol=1e-2), model).report.passed


def test_a_fault_in_such_a_model_fails(tmp_path):
    model = rounding(torch.float16)
    onnxfn.export(spec_of(model), model, tmp_path / "m.onnx", check=False)
    assert not onnxfn.validate(spec_of(model), rounding(torch.float16, shift=1.01), tmp_path / "m.onnx").passed
