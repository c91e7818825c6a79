"""PyTorch's outputs keep the order of equal values that a model sorts, as ONNX does."""

import pytest
import torch

from onnxfn.models.torch_modes import stable_sorts

EQUAL = torch.zeros(2, 40, dtype=torch.int32)


@pytest.mark.parametrize(
    "sort",
    [
        lambda values: torch.argsort(values, descending=True),
        lambda values: values.argsort(1, True),
        lambda values: torch.sort(values, dim=1, stable=False).indices,
        lambda values: values.sort(-1, descending=True)[1],
    ],
)
def test_equal_values_keep_their_order(sort):
    in_order = torch.arange(40).expand(2, 40)
    with stable_sorts():
        assert torch.equal(sort(EQUAL), in_order)
    assert torch.equal(torch.argsort(EQUAL, stable=True), in_order)


def test_values_are_sorted():
    values = torch.randn(3, 50)
    with stable_sorts():
        ordered, indices = values.sort(0, descending=True)
    assert torch.equal(values.gather(0, indices), ordered)
    assert bool((ordered.diff(dim=0) <= 0).all())
