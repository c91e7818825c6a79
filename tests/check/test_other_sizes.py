"""Modules with branches on sizes: no file is wrong at sizes that it states to be valid for, and limits are exact."""

import random
from contextlib import nullcontext

import numpy as np
import onnx
import pytest
import torch
from branching_modules import IMAGES, TEXTS

import onnxfn
from onnxfn.specs.conditions import is_true, symbols_of
from onnxfn.specs.plan.size_cases import nearest

MODULES = {
    **{name: (function, (2, 10), "batch length") for name, function in TEXTS.items()},
    **{name: (function, (2, 32, 32), "batch height width") for name, function in IMAGES.items()},
    **{f"{name}, larger": (IMAGES[name], (2, 96, 40), "batch height width") for name in ("rolled", "height == width")},
    "28 * 7": (lambda x: x + 1 if x.shape[1] * x.shape[2] == 196 else 2 * x, (2, 28, 7), "batch height width"),
}
EVERY_RUN = (
    *("length % 7", "length in", "length == 1", "batch * length", "batch % 2", "a window", "nested", "chunked"),
    *("tried", "height == width", "rolled", "rolled, larger", "even product", "28 * 7", "between"),
    *("multiples above 16", "several above 16", "single ones below 5", "squeezed"),
)
TWO_SIDES = (
    *("length % 7", "length % 16", "length % 2", "length > 64", "length <= 3", "length // 2", "ceil", "floor"),
    *("square", "sqrt", "batch * length", "length > 20 * batch", "batch > 4", "batch % 2"),
    *("max of batch and length", "min of batch and length", "padded if odd", "grown", "height * width"),
    *("height > width", "height == width", "max of sides", "min of sides", "sum of sides", "even product"),
    *("height == width, larger", "28 * 7", "numel", "tried", "length == 1", "length == 100", "batch == 1", "chunked"),
)
"""The modules that one condition divides: their files have a graph for each side, and no limit."""

INSIDE_A_SIDE = ("halved", "between", "multiples above 16", "height % 4 and width % 4")
"""The modules of which another condition limits one side."""

RANDOM_SIZES = 40


def names():
    return [name if name in EVERY_RUN else pytest.param(name, marks=pytest.mark.sweep) for name in MODULES]


def in_pytorch(function, x):
    try:
        return function(x)
    except RuntimeError:
        return None


def agrees(result, function, x):
    """Whether a file and PyTorch agree on a tensor; None if PyTorch or the limits of the file do not take it."""
    expected = in_pytorch(function, x)
    if expected is None:
        return None
    try:
        actual = result(x=x)["output"]
    except onnxfn.InvalidSpec as refused:
        return None if " is limited to " in str(refused) else False
    return actual.shape == tuple(expected.shape) and np.allclose(actual, expected, rtol=1e-3, atol=1e-3)


def is_same(session, function, x):
    expected = in_pytorch(function, x)
    try:
        actual = session.run(None, {"x": x.numpy()})[0]
    except Exception:  # noqa: BLE001 - the file cannot run at this size
        return False
    return expected is None or (actual.shape == tuple(expected.shape) and np.allclose(actual, expected, atol=1e-3))


@pytest.mark.parametrize("name", names())
def test_a_module_with_branches_on_sizes_is_right_within_its_limits(name, tmp_path):
    function, shape, axes = MODULES[name]
    spec = onnxfn.derived(function, sample=torch.randn(*shape), axes={"x": axes})
    result = onnxfn.export(spec, function, tmp_path / "m.onnx")
    assert (name in TWO_SIDES + INSIDE_A_SIDE) == (
        "If" in {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}
    )
    assert name not in TWO_SIDES or result.limits == ()
    draw, symbols = random.Random(0), axes.split()
    for number in range(RANDOM_SIZES):
        batch, *sides = (draw.randint(1, most) for most in (7, 140, 140)[: len(shape)])
        sides = [sides[0]] * len(sides) if number % 5 == 0 else sides
        assert agrees(result, function, torch.randn(batch, *sides)) in (True, None), (batch, *sides)
    session = result.session()
    base = dict(zip(symbols, shape, strict=True))
    for limit in result.limits:
        outside = [
            sizes
            for axis in symbols_of(limit.text)
            if is_true(limit.text, base)
            for sizes in nearest(base, axis, lambda sizes: not is_true(limit.text, sizes))  # noqa: B023
        ]
        differ = [not is_same(session, function, torch.randn(*sizes.values())) for sizes in outside]
        assert any(differ) or not outside, limit


def strided(convolution, *sizes):
    """Convolutions of 4 channels, and the means over all places of a channel."""
    layers = [convolution(3 if number == 0 else 4, 4, *size) for number, size in enumerate(sizes)]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(2), torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten())


@pytest.mark.parametrize(
    ("module", "sample", "axes", "beyond", "assumed"),
    [
        (strided(torch.nn.Conv2d, (4, 4), (2, 2)), (2, 3, 16, 24), "batch _ height width", (1, 3, 8, 15), ""),
        (strided(torch.nn.Conv1d, (3, 2, 1), (3, 2, 1)), (2, 3, 4), "b _ n", (1, 3, 9), "other side of n <= 4 (torch)"),
    ],
)
def test_what_torch_assumes_of_a_size_is_no_limit_where_the_module_does_not_ask_for_it(
    module, sample, axes, beyond, assumed, tmp_path
):
    """Torch takes a length of 4, which two strides make 1, for one of at most 4. Without a check that is a limit."""
    spec = onnxfn.derived(module, sample={"input": torch.randn(sample)}, axes={"input": axes})
    result, unchecked = (onnxfn.export(spec, module, tmp_path / check, check=check) for check in ("whole", "none"))
    x = torch.randn(beyond)
    assert result.limits == ()
    assert assumed in [case.split(" (b")[0] for case in ("", *result.report.cases)]
    np.testing.assert_allclose(result(input=x)["output"], module(x).detach(), rtol=1e-3, atol=1e-5)
    if assumed:
        with pytest.raises(onnxfn.InvalidSpec, match="limited to n <= 4"):
            unchecked(input=x)


@pytest.mark.parametrize(("high", "name"), [(64, ""), (65, "largest sizes"), (10**5, "")])
def test_the_ends_of_a_range_are_tried_unless_they_are_too_large(high, name, tmp_path):
    table = torch.nn.Embedding(64, 8)
    inputs = onnxfn.compose(onnxfn.takes("x", "batch time 8", "normal", kind="float"), onnxfn.sized(batch=2, time=12))
    spec = onnxfn.with_shapes(onnxfn.compose(inputs, onnxfn.gives("y", "batch time 8")), time=(1, high))
    with pytest.raises(onnxfn.errors.CaptureFailed, match=f"in case {name}") if name else nullcontext():
        result = onnxfn.export(spec, lambda x: x + table(torch.arange(x.shape[1])), tmp_path / "m.onnx")
        assert ("m.onnx: largest sizes (batch=1, time=100000)" in result.report.unchecked) == (high > 64)


RANGED = [(lambda x: x.flip(1) if x.shape[1] > 8 else x, ""), (lambda x: x * {64: 3}.get(x.shape[1], 1), "largest")]


@pytest.mark.parametrize(("function", "wrong"), RANGED)
def test_a_range_of_a_derived_spec_has_both_sides_of_a_branch_and_its_ends_are_tried(function, wrong, tmp_path):
    spec = onnxfn.derived(function, sample={"x": torch.randn(2, 5)}, axes={"x": "batch time"})
    with pytest.raises(onnxfn.errors.CheckFailed, match=wrong) if wrong else nullcontext():
        result = onnxfn.export(onnxfn.with_shapes(spec, time=(2, 64)), function, tmp_path / "m.onnx")
        assert [each.text for each in result.limits] == ["time >= 2", "time <= 64"]
        for x in torch.randn(2, 2), torch.randn(2, 9), torch.randn(2, 64):
            np.testing.assert_array_equal(result(x=x)["output"], function(x))


def test_a_lookup_of_a_size_is_named_as_what_no_case_decides(tmp_path):
    function = lambda x: x * {128: 3}.get(x.shape[1], 1)  # noqa: E731
    spec = onnxfn.derived(function, sample={"x": torch.randn(2, 5)}, axes={"x": "batch time"})
    (line,) = onnxfn.export(spec, function, tmp_path / "m.onnx").report.unchecked
    assert line.startswith("m.onnx: other side of time, as a key or a text (test_other_sizes.py:")


class PaddedLevels(torch.nn.Module):
    """Halves a picture four times, and pads where it is doubled again and the side was odd, as MONAI's BasicUNet."""

    def forward(self, x):
        skips = []
        for _ in range(4):
            skips.append(x)
            x = torch.nn.functional.max_pool2d(x, 2).tanh()
        for skip in reversed(skips):
            x = torch.nn.functional.interpolate(x, scale_factor=2)
            odd = [int(x.shape[axis] != skip.shape[axis]) for axis in (-1, -2)]
            x = torch.nn.functional.pad(x, (0, odd[0], 0, odd[1]), "replicate") + skip
        return x


def test_padding_of_each_side_after_each_halving_is_a_formula(tmp_path):
    module = PaddedLevels()
    spec = onnxfn.derived(module, sample=torch.randn(2, 1, 64, 96), axes={"x": "batch_size 1 height width"})
    result = onnxfn.export(spec, module, tmp_path / "m.onnx")
    assert {limit.text for limit in result.limits} <= {"height >= 16", "width >= 16"}
    assert all(agrees(result, module, torch.randn(3, 1, *each)) for each in ((128, 160), (67, 96), (33, 47), (16, 256)))
