"""Shapes that onnxfn computes for a trace are those that torch computes, also in memory that is not contiguous."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, nullcontext
from functools import cache

import pytest
import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from onnxfn.graphs.sizes.equal_calls import with_equal_calls
from onnxfn.graphs.sizes.fake_outputs import fast_fake_outputs
from onnxfn.graphs.sizes.size_factors import fast_comparisons, fast_size_formulas


def repeated(image, counts, grid):
    """The results of operators that run three times on inputs of the same sizes, and once on other sizes."""
    for _ in range(3):
        total = torch.cat([image, image * 0.5 + image.flip(1)]).softmax(-1).transpose(1, 3) ** 2
        rows = torch.arange(image.shape[2]) * image.shape[2] + torch.nn.functional.pad(counts, (1, 1)).sum(1)[:1]
        scaled = (counts / 3, torch.where(counts > 1, counts, 0.5), counts.to(torch.float64) @ counts.double().mT)
        sizes = (image.new_zeros(image.shape[2:]), torch.full((image.shape[3],), 7))
        resized = torch.nn.functional.interpolate(image, scale_factor=2, mode="bilinear")
        normed = torch.nn.functional.group_norm(grid.permute(0, 3, 1, 2), 1).clone(memory_format=torch.channels_last)
        # Each call depends on the one before.
        image = image + total.sum() + rows.sum() + resized.mean() + normed.relu().mean() + scaled[0].mean()
    return total, rows, *scaled, *sizes, resized, normed, image[:, :, 1:] + 1, counts[:, 1:] / 3


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


def resized(image):
    interpolate = torch.nn.functional.interpolate
    rows = image[:, :, 1:]
    return (
        interpolate(image, scale_factor=1.5, mode="bilinear"),
        interpolate(rows, size=(7, image.shape[3] * 2), mode="bilinear", align_corners=True),
        interpolate(image.transpose(2, 3), scale_factor=(2, 0.5), mode="bicubic"),
        interpolate(rows, size=image.shape[2:], mode="nearest").flatten(1),
        interpolate(image, scale_factor=2, mode="nearest"),
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
    )


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)
        self.layer_norm = torch.nn.LayerNorm(3)
        self.linear = torch.nn.Linear(3, 6)
        self.convolution = torch.nn.Conv2d(3, 3, 3, stride=2, padding=1)
        self.convolution1d = torch.nn.Conv1d(3, 4, 3)

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
            *repeated(image, counts, grid),
            *resized(image),
            *views(image, counts, strided),
            *layers(self, image, strided),
        )


DYNAMIC = torch.export.Dim.DYNAMIC
DYNAMIC_SHAPES = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}, {1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC})
SIZES = ((2, 12, 16, 5, 6), (3, 7, 9, 4, 2), (2, 30, 5, 11, 8), (5, 8, 8, 8, 8))
"""Sizes of the dynamic axes of the inputs, in their order; the first ones are traced."""


def layouts(inputs, context):
    """The dtype, the sizes and the strides of each tensor of a trace, at each of `SIZES`.

    The stride of an axis of size 1 means nothing.
    """
    with torch.no_grad(), context:
        program = torch.export.export(Model().eval(), inputs, dynamic_shapes=DYNAMIC_SHAPES, strict=False)
    nodes = [node for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
    tensors = [node.meta["val"] for node in nodes if hasattr(node.meta["val"], "stride")]
    images, counts, grids = tensors[len(Model().state_dict()) :][:3]
    axes = (images.shape[0], *images.shape[2:], counts.shape[1], grids.shape[1])
    symbols = [size.node.expr for size in axes]
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
    image = torch.randn(2, 3, 12, 16).to(memory_format=memory_format)
    inputs = (image, torch.arange(10).reshape(2, 5), torch.rand(2, 6, 7, 2))
    assert [*layouts(inputs, fast_fake_outputs())] == [*layouts(inputs, nullcontext())]


class Encoder(torch.nn.Module):
    """Two layers of an encoder of images, as SegFormer's: convolutions on images, attention on tokens."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 7, stride=4, padding=3)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(8) for _ in range(2))
        self.linears = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
        self.depthwise = torch.nn.ModuleList(torch.nn.Conv2d(8, 8, 3, padding=1, groups=8) for _ in range(2))

    def forward(self, image):
        image = self.stem(image)
        batch, channels, height, width = image.shape
        tokens = image.flatten(2).transpose(1, 2)
        for norm, linear, depthwise in zip(self.norms, self.linears, self.depthwise, strict=True):
            heads = linear(norm(tokens)).view(batch, -1, 2, channels // 2).transpose(1, 2)
            mixed = (heads @ heads.transpose(2, 3)).softmax(-1) @ heads
            tokens = tokens + mixed.transpose(1, 2).reshape(batch, -1, channels)
            local = depthwise(tokens.transpose(1, 2).view(batch, channels, height, width))
            tokens = tokens + torch.nn.functional.gelu(local.flatten(2).transpose(1, 2))
        return tokens


def compared_formulas(monkeypatch, *contexts):
    """The formulas that torch decides while it traces an encoder."""
    compared, evaluate = [], ShapeEnv._evaluate_expr

    def noted(self, formula, *arguments, **options):
        compared.append(formula)
        return evaluate(self, formula, *arguments, **options)

    shapes = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC},)
    with ExitStack() as stack, monkeypatch.context() as patched:
        patched.setattr(ShapeEnv, "_evaluate_expr", noted)
        for context in (torch.no_grad(), *contexts):
            stack.enter_context(context)
        torch.export.export(Encoder().eval(), (torch.rand(2, 3, 32, 48),), dynamic_shapes=shapes, strict=False)
    return compared


def test_a_trace_compares_half_as_many_formulas_of_sizes(monkeypatch):
    """sympy takes milliseconds to decide the first comparison of two formulas."""
    fast = compared_formulas(monkeypatch, fast_fake_outputs(), fast_size_formulas(), fast_comparisons())
    assert 2 * len(fast) < len(compared_formulas(monkeypatch))


def test_an_output_is_computed_once_for_equal_arguments():
    mode, calls = FakeTensorMode(), []

    def counted(mode, *arguments, **options):
        calls.append(arguments)
        with mode:
            return torch.add(*arguments, **options)

    add = with_equal_calls({torch.ops.aten.add.Tensor: counted})[torch.ops.aten.add.Tensor]
    ones = (torch.ones(2, 3), torch.ones(3), torch.ones(3, 2).T, torch.ones(2, 3, dtype=torch.int64), 1, 1.0, True)
    for _ in range(3):
        for first, second in itertools.product(ones[:4], ones):
            tensors = [mode.from_tensor(one) if hasattr(one, "shape") else one for one in (first, second)]
            result, expected = add(mode, *tensors), first + second
            assert result.shape == expected.shape, (first, second)
            assert (result.stride(), result.dtype) == (expected.stride(), expected.dtype), (first, second)
    assert len(calls) == 4 * 7


def test_the_table_of_torch_is_restored():
    from torch._subclasses.fake_impls import get_fast_op_impls

    interpolation = torch.ops.aten.upsample_bilinear2d.vec
    before, formulas = dict(get_fast_op_impls()), dict(interpolation.py_kernels)
    with fast_fake_outputs():
        assert len(get_fast_op_impls()) > len(before)
        assert formulas.items().isdisjoint(interpolation.py_kernels.items())
    assert get_fast_op_impls() == before
    assert interpolation.py_kernels == formulas


def test_formulas_of_sizes_follow_torchs_replacements():
    """A size has the formula that torch gives it, before and after a symbol is replaced by another one."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.DYNAMIC])
    rows, columns = mode.from_tensor(torch.ones(6, 8), symbolic_context=context, source=ConstantSource("x")).shape
    sizes = (rows, columns, rows + 1, columns * 2, rows * columns // 3, rows - rows + 4)

    def formulas():
        return [size.node.expr if hasattr(size, "node") else size for size in sizes]

    def texts():
        return [str(size) for size in sizes]

    before, written = formulas(), texts()
    with fast_size_formulas():
        assert formulas() == formulas() == before
        assert texts() == texts() == written
        torch._check(columns == rows + 2)
        changed, rewritten = formulas(), texts()
    assert changed == formulas() != before
    assert rewritten == texts() != written
    with fast_size_formulas():
        assert formulas() == changed
