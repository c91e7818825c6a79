"""The replacement of torch.linspace gives its numbers, at sizes that a trace does not fix."""

import pytest
import torch

from onnxfn.architectures.patches.image_sizes import unit_steps

DYNAMIC = ({0: torch.export.Dim.DYNAMIC},)
CALLS = {
    "centers of pixels": (lambda size: (0.5, size - 0.5, size), 0),
    "corners of pixels": (lambda size: (0, size - 1, size), 0),
    "coordinates": (lambda size: (-1.0, 1.0, size), 1),
    "a length by another number of steps": (lambda size: (0.5, size - 0.5, 2 * size), 1),
}
"""Calls of linspace for a size, and the number of products in their graph."""


@pytest.mark.parametrize(("start", "end", "steps"), [(0.0, 10.0, 3), (0, 4, 5), (3.0, -1.0, 4), (2.0, 7.0, 1)])
def test_numbers_are_those_of_linspace(start, end, steps):
    torch.testing.assert_close(unit_steps(start, end, steps), torch.linspace(start, end, steps))
    half = {"dtype": torch.float64, "device": "cpu"}
    torch.testing.assert_close(unit_steps(start, end, steps, **half), torch.linspace(start, end, steps, **half))


@pytest.mark.parametrize(("arguments", "products"), CALLS.values(), ids=[*CALLS])
def test_a_trace_gives_those_of_other_sizes(arguments, products):
    class Steps(torch.nn.Module):
        def forward(self, x):
            return unit_steps(*arguments(x.shape[0])) + x[0]

    program = torch.export.export(Steps(), (torch.zeros(5),), dynamic_shapes=DYNAMIC, strict=False)
    assert sum(node.target is torch.ops.aten.mul.Tensor for node in program.graph.nodes) == products
    for size in (2, 5, 9):
        torch.testing.assert_close(program.module()(torch.zeros(size)), torch.linspace(*arguments(size)))
