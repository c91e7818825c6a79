"""Python in the code of modules that would fix a size in a trace, or end it."""

import math
from operator import index

import numpy as np
import pytest
import torch
from small_modules import derived_export, module
from torch import nn

import onnxfn


def halves(x):
    rows, columns = (int(float(size) / 2) for size in x.shape[-2:])
    assert isinstance(x.dim(), int)
    assert isinstance(0.5, bool | int | float | None)
    return nn.functional.interpolate(x, size=[rows, columns])


def by_index(x):
    """Sizes that are numbers in a trace: a product, a sum, a quotient, and the root of one."""
    batch, time, _ = map(index, x.shape)
    steps = torch.arange(time + 2)[2:] + torch.arange(time // 2).sum()
    return x.reshape(batch * time, 6).reshape(x.shape) / time**0.5 + steps[:, None]


def padded(x):
    doubled = nn.functional.max_pool1d(x, 2).repeat_interleave(2, dim=-1)
    return x + nn.functional.pad(doubled, [0, 1 if doubled.shape[-1] != x.shape[-1] else 0])


def from_the_middle(x):
    """Rows of a table of 200 from both ends, as many as numbers say, and those after the larger of two halves."""
    rows, columns = map(index, x.shape[1:])
    table = torch.arange(200.0)
    ends = torch.cat([table[-(rows - rows // 2) :], table[: rows // 2]])[:, None] + table[: columns // 2].sum()
    half = max(rows // 2, columns // 2)
    return x + ends + table[half : half + columns]


def scaled_when_large(x):
    """A constant that is another for large images."""
    return x * (2 if index(x.shape[2]) * index(x.shape[1]) > 20_000 else 3)


def first_digit(x):
    """A number that no formula gives."""
    return x * int(str(index(x.shape[2]))[0])


def by_quotients(x):
    """Quotients that are another whole number in float32."""
    return x * (int(x.shape[1] / 1.2) + 9 * int(x.shape[1] / 0.3) + int(int(x.shape[1] * 0.7) / 1.2))


def padded_to_windows(x):
    """Images on a canvas whose sides are multiples of 32, as detectors of torchvision have them."""
    rows, columns = (int(math.ceil(float(size) / 32.0) * 32.0) for size in x.shape[-2:])
    canvas = x.new_zeros(len(x), rows, columns)
    canvas[:, : x.shape[-2], : x.shape[-1]].copy_(x)
    return canvas + 1


def resized_to_windows(x):
    """Such images, of which the smaller side is 64, unless the larger one would be above 128."""
    rows, columns = x.shape[-2:]
    scale = min(64 / min(rows, columns), 128 / max(rows, columns))
    return padded_to_windows(
        nn.functional.interpolate(x[None], scale_factor=scale, mode="bilinear", recompute_scale_factor=True)[0]
    )


def with_places(x):
    """An image, plus the numbers of the places of a coarse level of it on such a canvas."""
    level = nn.functional.conv2d(resized_to_windows(x), torch.ones(1, 3, 1, 1), stride=64)
    places = torch.meshgrid(*(torch.arange(size) * (64 // size) for size in level.shape[1:]), indexing="ij")
    return x + level.sum() + torch.stack([each.reshape(-1) for each in places], dim=1).sum()


def with_tables(x):
    """A table for each length, as positions have in some models."""
    return x * {len(x): torch.arange(len(x))}[x.shape[0]][:, None]


def in_try(self, x):
    """Calls a module with an argument that it does not take, and then without."""
    try:
        return self.layers(x, lengths=None)
    except TypeError:
        return self.layers(x)


LAYERS = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
MODULES = {
    "int and float": (lambda: halves, (2, 3, 8, 10), "batch 3 rows columns", (1, 3, 23, 14)),
    "numbers": (lambda: by_index, (2, 7, 6), "batch time 6", (3, 40, 6)),
    "a branch on numbers": (lambda: padded, (2, 3, 8), "batch 3 time", (1, 3, 91)),
    "quotients": (lambda: by_quotients, (2, 20), "batch time", (3, 186)),
    "a multiple of 32 by math": (lambda: padded_to_windows, (3, 40, 50), "3 rows columns", (3, 96, 129)),
    "the smaller of two real numbers": (lambda: resized_to_windows, (3, 40, 50), "3 rows columns", (3, 32, 256)),
    "tables by length, and the length of a tensor": (lambda: with_tables, (4, 6), "batch 6", (7, 6)),
    "a module in try": (lambda: module(in_try, layers=LAYERS), (4, 6), "batch 6", (7, 6)),
    "less than nothing": (lambda: lambda x: x[:, :-2] * 2, (3, 12), "batch time", (5, 1)),
    "one part": (lambda: lambda x: torch.cat([part + 1 for part in x.chunk(1)]), (4, 6), "batch 6", (7, 6)),
}


@pytest.mark.parametrize("name", MODULES)
def test_python_in_a_module_fixes_no_size(name, tmp_path):
    build, sample, axes, far = MODULES[name]
    model = build()
    result = derived_export(model, torch.randn(sample), tmp_path / "out", axes)
    x = torch.randn(far)
    with torch.no_grad():
        expected = model(x)
    assert result.limits == ()
    np.testing.assert_allclose(result(**dict.fromkeys(result.inputs, x))["output"], expected, rtol=1e-4, atol=1e-5)
    assert int("3") == 3, "the builtin is as it was"


def test_the_step_of_a_module_that_rounds_halves_up_is_found(tmp_path):
    """Three convolutions take 57 to 64, 73 to 80 and so on: steps of 13 and 26 fit by chance."""
    halved = [nn.Conv1d(1, 1, 3, stride=2, padding=1) for _ in range(3)]
    model = nn.Sequential(*halved, nn.Unflatten(2, (-1, 2)))
    result = derived_export(model, torch.randn(2, 1, 64), tmp_path / "out", "batch 1 time")
    assert "time % 16 == 0" in [limit.text for limit in result.limits]


def test_formulas_of_several_traces_need_a_check(tmp_path):
    spec = onnxfn.derived(by_index, sample=torch.randn(2, 7, 6), axes="batch time 6")
    with pytest.raises(onnxfn.errors.CaptureFailed, match="have to be checked: export with check='whole'"):
        onnxfn.export(spec, by_index, tmp_path / "out", check=False)


SCALE = "min(64 / min(columns, rows), 128 / max(columns, rows))"
BRANCHES = {
    "a size that a trace takes for 1": (
        with_places,
        (3, 40, 50),
        "3 rows columns",
        [f"1 + (-1 + math.trunc(32.0 * float(math.ceil(float(math.trunc({SCALE} * float(rows))) / 32.0)))) // 64 < 2"],
    ),
    "a size": (lambda x: x * 2 if index(x.shape[1]) > 5000 else x, (2, 6, 3), "batch time 3", ["time <= 5000"]),
    "the end of a table": (from_the_middle, (2, 6, 4), "batch rows columns", ["rows <= 399", "columns <= 133"]),
    "a size as text": (first_digit, (2, 6, 8), "batch height width", ["height == 6", "width == 8"]),
    "all elements": (lambda x: 2 * x if x.numel() > 60_000 else x, (2, 6, 3), "b n 3", ["3 * b * n <= 60000"]),
    "a shape": (lambda x: 2 * x if x.shape[1] > 4 else x.sum(-1, keepdim=True), (2, 6, 3), "b n 3", ["n >= 5"]),
    "a product": (scaled_when_large, (2, 16, 16), "batch_size rows columns", ["rows <= 140", "columns <= 141"]),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_on_numbers_beyond_all_traces_is_a_limit(name, tmp_path):
    model, sample, axes, limits = BRANCHES[name]
    result = derived_export(model, torch.randn(sample), tmp_path / "out", axes)
    assert [limit.text for limit in result.limits] == limits
    assert result(x=torch.randn(sample))["output"].size


ROUNDED_DOWN = {
    "a quotient times a size": (resized_to_windows, range(41, 65)),
    "a decimal": (lambda x: nn.functional.interpolate(x[None], scale_factor=0.7, mode="nearest"), range(10, 60)),
    "a fraction": (lambda x: nn.functional.interpolate(x[None], scale_factor=1 / 3, mode="nearest"), range(9, 60)),
}


@pytest.mark.parametrize("name", ROUNDED_DOWN)
def test_sizes_are_rounded_down_as_python_rounds_them(name, tmp_path):
    """In float64, 64 / 49 * 49 is less than 64; in float32, 64 / 41 * 41 is."""
    model, every_size = ROUNDED_DOWN[name]
    result = derived_export(model, torch.randn(3, 40, 50), tmp_path / "out", "3 rows columns")
    for rows in every_size:
        x = torch.randn(3, rows, 50)
        np.testing.assert_allclose(result(x=x)["output"], model(x), rtol=1e-4, atol=1e-4)
