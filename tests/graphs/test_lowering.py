"""Lowering computes the same: small models are exported, and checked against PyTorch at sizes that were not traced."""

from __future__ import annotations

import pytest
import torch

import onnxfn
from onnxfn.graphs.capture.capture import exported_program, onnx_registry
from onnxfn.graphs.capture.lowering import lower_in_place
from onnxfn.specs.plan.planning import plan

SPEC = onnxfn.compose(
    onnxfn.takes("x", "batch_size width", "numbers", kind="float"),
    onnxfn.takes("n", "batch_size width", "counts"),
    onnxfn.generates("numbers", "uniform"),
    onnxfn.generates("counts", "integers", low=1, high=9),
    onnxfn.sized(batch_size=2, width=6),
    onnxfn.gives("y", "batch_size width"),
)


def module(forward):
    made = torch.nn.Module()
    made.forward = lambda x, n: {"y": forward(x, n)}
    return made


def written(x, _):
    y = x * 2
    y.add_(1)
    return y * y


def written_through_a_view(x, _):
    y = x * 2
    y.view(-1).add_(1)
    return y


def seen_through_a_view(x, _):
    y = x * 2
    z = y[:, :]
    y.mul_(3)
    return z + y


def seen_before(x, _):
    y = x * 2
    z = y + 1
    y.mul_(3)
    return z + y


def written_twice(x, _):
    y = x * 2
    y.add_(1)
    y.mul_(y)
    return y - x


def view_of_what_is_only_seen_so(x, _):
    y = (x * 2).t().t()
    y.sub_(1)
    return y


def masked(x, n):
    keep = (n > 2) & (n < 7) | (x > 0.5)
    return x.masked_fill(keep ^ (n == 3), -1.0)


def cast(x, n):
    return (n.to(torch.float32) + x.to(torch.int64).to(x.dtype)).type_as(x).detach()


def unchanged(x, _):
    return x.to(torch.float32).detach()


def whole_by_whole(_, n):
    return n / 4


def whole_by_real(_, n):
    return n * 0.5 + 1.5


def mixed(x, n):
    return x + n


def rooted(_, n):
    return torch.sqrt(n)


def chosen(x, n):
    return torch.where(n > 4, x, 0.0) + torch.where(n > 4, n, 1)


def powers(x, n):
    return x.abs() ** 2 + 2**n


def least(x, n):
    return torch.min(x, x * n) + torch.max(x, -x)


def reversed_difference(x, n):
    return (1 - x) * (5 - n)


def shaped_as(x, n):
    return x.t().reshape_as(n) + x


def each_repeated(x, _):
    return (
        x.repeat_interleave(x.shape[0], dim=0)[:: x.shape[0]] + x.repeat_interleave(x.shape[1], dim=1)[:, : x.shape[1]]
    )


def each_repeated_thrice(x, _):
    return x.repeat_interleave(3, dim=-1)[:, ::3] * 2


def enlarged(x, _):
    weight = torch.tensor([[[[1.0, 2.0], [3.0, 5.0]]]])
    return torch.nn.functional.conv_transpose2d(x[None, None], weight, stride=2)[0, 0, ::2, ::2]


def averaged(x, _):
    means = torch.nn.functional.adaptive_avg_pool2d(x[None, None], (2, 3))[0, 0]
    return x * (means * torch.tensor([[1.0, 2.0, 3.0], [5.0, 8.0, 13.0]])).sum()


FAST = [
    written,
    seen_before,
    written_twice,
    view_of_what_is_only_seen_so,
    masked,
    cast,
    unchanged,
    whole_by_whole,
    whole_by_real,
    mixed,
    rooted,
    chosen,
    powers,
    least,
    reversed_difference,
    shaped_as,
    each_repeated,
    each_repeated_thrice,
    enlarged,
    averaged,
]
SLOW = [written_through_a_view, seen_through_a_view]


@pytest.mark.parametrize("forward", [*FAST, *SLOW], ids=lambda one: one.__name__)
def test_what_is_lowered_computes_the_same(forward, tmp_path):
    (one,) = onnxfn.export(SPEC, module(forward), tmp_path / "model.onnx").report.differences
    assert one.max_abs < 1e-5


@pytest.mark.parametrize(("forward", "whole"), [*((one, True) for one in FAST), *((one, False) for one in SLOW)])
def test_what_looks_at_memory_through_two_names_goes_torchs_way(forward, whole):
    program = exported_program(module(forward), plan(SPEC, {}).parts[0])
    assert lower_in_place(program, onnx_registry()) is whole
