"""Shapes that onnxfn computes for a trace are those that torch computes, also in memory that is not contiguous."""

from __future__ import annotations

import re
from contextlib import nullcontext

import pytest
import torch

from onnxfn.graphs.capture.fake_outputs import fast_fake_outputs


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)

    def forward(self, image, counts, grid):
        strided = image[:, :, ::2, 1:]
        return (
            torch.nn.functional.relu6(self.norm(image)),
            torch.nn.functional.hardtanh(strided),
            strided.clamp(min=0.5).transpose(1, 2).clamp(0, 1),
            counts.clamp(0, 3),
            counts.clamp(min=0.5),
            image.clamp(max=counts.to(image.dtype)[0, 0]),
            torch.nn.functional.grid_sample(image, grid, align_corners=False),
        )


def shapes(inputs, context):
    dynamic = torch.export.Dim.DYNAMIC
    sizes = ({0: dynamic, 2: dynamic, 3: dynamic}, {1: dynamic}, {0: dynamic, 1: dynamic})
    with torch.no_grad(), context:
        program = torch.export.export(Model().eval(), inputs, dynamic_shapes=sizes, strict=False)
    values = [node.meta["val"] for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
    text = "\n".join(f"{value.dtype} {value.shape} {value.stride()}" for value in values if hasattr(value, "stride"))
    symbols = dict.fromkeys(re.findall(r"\bs\d+", text))  # torch numbers them anew in each trace
    return re.sub(r"\bs\d+", lambda symbol: f"size {list(symbols).index(symbol[0])}", text)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_shapes_of_a_trace_are_those_of_torch(memory_format):
    image = torch.randn(2, 3, 12, 16).to(memory_format=memory_format)
    inputs = (image, torch.arange(10).reshape(2, 5), torch.rand(2, 6, 7, 2))
    assert shapes(inputs, fast_fake_outputs()) == shapes(inputs, nullcontext())


def test_the_table_of_torch_is_restored():
    from torch._subclasses.fake_impls import get_fast_op_impls

    before = dict(get_fast_op_impls())
    with fast_fake_outputs():
        assert len(get_fast_op_impls()) > len(before)
    assert get_fast_op_impls() == before
