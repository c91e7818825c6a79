"""Modules that keep tables between calls, and modules that fix an axis at the size of the sample."""

import numpy as np
import pytest
import torch
from torch import nn

import onnxfn

AXES = {"x": "batch length"}


class Kept(nn.Module):
    """Keeps a table for the last length, one for each length, and the mean of its input."""

    def __init__(self):
        super().__init__()
        self.length, self.table, self.tables = 0, None, {}
        self.register_buffer("mean", torch.ones(1))

    def forward(self, x):
        if x.shape[1] != self.length:
            self.length, self.table = x.shape[1], torch.arange(x.shape[1]).float()
        if x.shape not in self.tables:
            self.tables[x.shape] = torch.arange(x.shape[1]).float() * 2
        self.mean.copy_(x.mean())
        return x * self.table + self.tables[x.shape] - self.mean


@pytest.mark.parametrize("used", [(), (10,), (7, 10), (30, 10)])
def test_tables_that_a_module_keeps_are_no_state(used, tmp_path):
    model = Kept()
    for length in used:
        model(torch.rand(2, length))
    spec = onnxfn.derived(model, sample=torch.rand(2, 10), axes=AXES)
    result = onnxfn.export(spec, model, tmp_path / "m.onnx")
    assert (result.limits, [*model.tables]) == ((), [(2, length) for length in used])
    for length in (5, 10, 41):
        x = torch.rand(3, length)
        np.testing.assert_allclose(result(x=x.numpy())["output"], Kept()(x), rtol=1e-5, atol=1e-5)


def test_sides_that_are_equal_in_the_sample_are_two_axes():
    square = lambda x: x.mT if x.shape[1] == x.shape[2] else x.transpose(1, 2)  # noqa: E731
    spec = onnxfn.derived(square, sample=torch.rand(4, 4, 4), axes={"x": "batch n m"})
    assert onnxfn.export(spec, square).outputs == {"output": {0: "batch", 1: "m", 2: "n"}}


@pytest.mark.parametrize(("branch", "limit"), [(lambda n, m: n == m, "n != m"), (lambda n, _: n == 8, "n != 8")])
def test_another_branch_at_the_sizes_of_the_sample_is_a_limit(branch, limit):
    function = lambda x: x * 2 if branch(*x.shape[1:]) else x * 3  # noqa: E731
    spec = onnxfn.derived(function, sample=torch.rand(2, 8, 8), axes={"x": "batch n m"})
    assert [each.text for each in onnxfn.export(spec, function).limits] == [limit]
