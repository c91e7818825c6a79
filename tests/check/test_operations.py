"""The operations that the matrices of a model need in a run."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from onnxfn.check.operations import counted_operations

nn = torch.nn


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Linear(6, 10), (2, 5, 6)),
        (nn.Conv1d(6, 4, 3, stride=2), (2, 6, 11)),
        (nn.Conv2d(6, 4, 3, padding=1, groups=2), (1, 6, 9, 7)),
        (nn.ConvTranspose2d(6, 4, 2, stride=2), (3, 6, 5, 4)),
        (nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.ReLU(), nn.ConvTranspose2d(8, 3, 3)), (2, 3, 16, 16)),
    ],
)
def test_the_operations_are_those_that_torch_counts(module, shape):
    with torch.no_grad(), FlopCounterMode(display=False) as peer, counted_operations(module) as operations:
        module(torch.ones(shape))
    assert operations() == peer.get_total_flops() > 0


def test_a_module_that_runs_twice_counts_twice_and_none_outside():
    layer = nn.Linear(4, 4)
    with counted_operations(layer) as operations:
        layer(layer(torch.ones(1, 4)))
    layer(torch.ones(1, 4))
    assert operations() == 2 * 2 * 4 * 4


def test_a_module_that_returns_several_tensors_counts_as_its_first():
    router = nn.Linear(4, 8)
    router.forward = lambda hidden: (nn.functional.linear(hidden, router.weight), "loss")
    with counted_operations(router) as operations:
        router(torch.ones(3, 4))
    assert operations() == 2 * 4 * 8 * 3
