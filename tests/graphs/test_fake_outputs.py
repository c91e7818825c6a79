"""Shapes that onnxfn computes for a trace are those that torch computes, also in memory that is not contiguous."""

from contextlib import nullcontext
from functools import cache
from itertools import product

import pytest
import sympy
import torch

from onnxfn.graphs.sizes.fake_outputs import _entry, fast_fake_outputs


def views(image, counts, strided):
    """The same elements in other shapes: axes are merged, split and added, of tensors that are contiguous or not."""
    batch, channels, height, width = image.shape
    return (
        image.reshape(batch, channels, -1),
        image.reshape(-1),
        image.flatten(2).unflatten(2, (height, width)),
        image.reshape(batch * channels, 1, height * width),
        image.transpose(1, 3).reshape(batch, -1, channels),
        image.reshape(batch, 1, channels, height, width, 1),
        strided.reshape(batch, channels, -1),
        counts.view(-1),
        counts.sum().view(1, 1),
        counts.sum().view(()),
        counts[1:].view(-1, 1),
    )


def layers(model, image, strided):
    """Layers of neural networks on images, on tokens, and on tensors in other orders of memory."""
    tokens = image.flatten(2).transpose(1, 2)
    batch, count, channels = tokens.shape
    again = tokens.transpose(1, 2).reshape(image.shape)
    heads = model.linear(tokens).view(batch, count, 2, -1).transpose(1, 2)
    merged = heads.transpose(1, 2).reshape(batch, count, 2 * channels)
    convolved = model.convolution(again)
    last = convolved.flatten(2).transpose(1, 2)
    return (
        *(model.layer_norm(each) for each in (tokens, tokens.contiguous(), last, strided.transpose(1, 3))),
        *(model.linear(each) for each in (tokens, last, image.transpose(1, 3), tokens[:, :, None], tokens[0])),
        *(model.convolution(each) for each in (image, strided, image[:, :, 1:], image.transpose(2, 3))),
        model.convolution1d(tokens.transpose(1, 2)),
        model.convolution1d(tokens.transpose(1, 2).contiguous()),
        *(heads @ each for each in (heads.mT, heads.contiguous().mT)),
        heads @ heads[:1].mT,
        *(torch.nn.functional.scaled_dot_product_attention(each, each, each) for each in (heads, heads.contiguous())),
        *torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(heads, heads, heads),
        merged,
        tokens.view(batch, image.shape[2], image.shape[3], -1),
        tokens.view(batch, -1, image.shape[3], channels),
        *(torch.nn.functional.gelu(each) + 1 for each in (tokens, merged, convolved, strided, image[:, :1])),
        *(each * 2 - each.sigmoid() for each in (tokens, merged, convolved, strided, image[:, :1])),
        torch.nn.functional.dropout(last, 0.5, training=False).relu(),
        convolved.flatten(1, 2),
        convolved.flatten(0, 1),
        convolved.permute(0, 2, 3, 1).reshape(batch, -1, channels),
        *(image * each for each in (again, image[:, :1], image[:1], image[0, 0], image.mean())),
        *(each * image for each in (image[:, :1].contiguous(), image[:, :1], image[0, 0], image.mean())),
        tokens + last[:, :1],
        *(torch.cat([image, each], 1) for each in (image[:, 1:], image.contiguous(), again)),
        torch.cat([tokens.contiguous(), last.contiguous()], 1),
        *(model.norm(each) for each in (strided, convolved, again)),
        *(torch.nn.functional.grid_sample(each, image[:, :2].permute(0, 2, 3, 1)) for each in (image, strided, again)),
        *resized(image, strided, again, image[:, :1], image.transpose(2, 3)),
        *(each.clone() for each in (image, strided, again, image[:, :1].expand(-1, 4, -1, -1), image.mT)),
        image.clone(memory_format=torch.channels_last),
        *(model.valid(each) for each in (image, strided, again)),
    )


def resized(*images):
    """Images in other sizes, by each kind of interpolation, to a size and by factors."""
    modes = [{"mode": word} for word in ("bilinear", "bicubic", "nearest")]
    modes.append({"mode": "bilinear", "align_corners": True})
    sizes = ({"size": (9, 14)}, {"scale_factor": 2}, {"scale_factor": (1.5, 0.5)})
    for image in images:
        height, width = image.shape[2:]
        for mode, size in product(modes, (*sizes, {"size": (height + 1, 2 * width)})):
            yield torch.nn.functional.interpolate(image, **mode, **size)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)
        self.layer_norm = torch.nn.LayerNorm(3)
        self.linear = torch.nn.Linear(3, 6)
        self.convolution = torch.nn.Conv2d(3, 3, 3, stride=2, padding=1)
        self.valid = torch.nn.Conv2d(3, 6, 3, padding="valid", groups=3, dilation=(1, 2))
        self.convolution1d = torch.nn.Conv1d(3, 4, 3)

    def forward(self, image, counts):
        strided = image[:, :, ::2, 1:]
        return (torch.nn.functional.hardtanh(strided), *views(image, counts, strided), *layers(self, image, strided))


DYNAMIC = torch.export.Dim.DYNAMIC
DYNAMIC_SHAPES = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}, {1: DYNAMIC})
SIZES = ((2, 12, 16, 5), (3, 7, 9, 4), (2, 30, 5, 11), (5, 8, 8, 8))
"""Sizes of the dynamic axes of the inputs, in their order; the first ones are traced."""


def layouts(inputs, context):
    """The dtype, the sizes and the strides of each tensor of a trace, at each of `SIZES`."""
    with torch.no_grad(), context:
        program = torch.export.export(Model().eval(), inputs, dynamic_shapes=DYNAMIC_SHAPES, strict=False)
    nodes = [node for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
    tensors = [node.meta["val"] for node in nodes if hasattr(node.meta["val"], "stride")]
    images, counts = tensors[len(Model().state_dict()) :][:2]
    symbols = [size.node.expr for size in (images.shape[0], *images.shape[2:], counts.shape[1])]
    for sizes in SIZES:
        values = tuple(zip(symbols, map(sympy.Integer, sizes), strict=True))
        for tensor in tensors:
            shape, strides = (tuple(at(size, values) for size in each) for each in (tensor.shape, tensor.stride()))
            yield tensor.dtype, shape, tuple(stride for size, stride in zip(shape, strides, strict=True) if size > 1)


def at(size, values):
    return formula_at(size.node.expr, values) if hasattr(size, "node") else size


@cache
def formula_at(formula, values):
    return int(formula.xreplace(dict(values)))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_shapes_of_a_trace_are_those_of_torch(memory_format):
    inputs = (torch.randn(2, 3, 12, 16).to(memory_format=memory_format), torch.arange(10).reshape(2, 5))
    assert [*layouts(inputs, fast_fake_outputs())] == [*layouts(inputs, nullcontext())]


def test_the_table_of_torch_is_restored():
    from torch._subclasses.fake_impls import get_fast_op_impls

    reshape = torch.ops.aten.reshape.default
    before, formulas = dict(get_fast_op_impls()), dict(reshape.py_kernels)
    with fast_fake_outputs():
        assert len(get_fast_op_impls()) > len(before)
        assert reshape.py_kernels != formulas
    assert get_fast_op_impls() == before
    assert reshape.py_kernels == formulas


class Watched(dict):
    """A table in which another thread looks for the entry `a` whenever it loses one."""

    def pop(self, key, *default):
        super().pop(key, *default)
        assert "a" in self


def test_an_entry_of_torch_is_there_for_other_threads_at_all_times():
    table = Watched(a=1)
    with _entry(table, "a", 2), _entry(table, "b", 3):
        assert table == {"a": 2, "b": 3}
    assert table == {"a": 1}
