"""Means over very many elements: ONNX Runtime's rounding is allowed there, and a fault at smaller sizes is found."""

import numpy as np
import pytest
import torch
from small_modules import module
from torch import nn

import onnxfn
from onnxfn.check.verdict.roundings import error_of_sums
from onnxfn.check.verdict.verdict import NO_ERROR


def normed(epsilon=1e-6):
    return module(lambda self, x: self.norm(x).tanh(), norm=nn.GroupNorm(2, 8, eps=epsilon))


def planned(model, side):
    spec = onnxfn.derived(model, sample=torch.randn(1, 8, side, side) * 2 + 0.7, axes="batch _ height width")
    return spec, onnxfn.plan(spec, {}).parts[0]


@pytest.mark.parametrize(("side", "elements"), [(16, 0), (64, 0), (256, 2**18)])
def test_only_long_sums_have_an_error_and_it_grows_as_the_root_of_their_elements(side, elements):
    _, part = planned(normed(), 16)
    inputs = {"x": np.zeros((1, 8, side, side), np.float32)}
    noting = module(lambda self, x: setattr(self, "side", side) or self.norm(x), norm=nn.GroupNorm(2, 8))
    error = error_of_sums(noting, part, inputs)
    assert not hasattr(noting, "side"), "the run leaves the model as it was"
    assert error == NO_ERROR if not elements else error.rms == pytest.approx(elements**0.5 * 2.0**-24)


def test_a_group_norm_of_a_large_picture_agrees_and_one_with_another_epsilon_does_not(tmp_path):
    model = normed()
    spec, _ = planned(model, 256)
    assert onnxfn.export(spec, model, tmp_path / "right.onnx").limits == ()
    onnxfn.export(spec, normed(1e-3), tmp_path / "wrong.onnx", check=False)
    assert not onnxfn.validate(spec, model, tmp_path / "wrong.onnx").passed
