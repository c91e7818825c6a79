"""A lowered program computes the same: small models are exported, and checked at sizes that were not traced."""

import onnx
import pytest
import torch

import onnxfn
from onnxfn.graphs.capture.capture import exported_program
from onnxfn.graphs.translations.lowering import lower_in_place, onnx_registry
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
    model = torch.nn.Module()
    model.forward = lambda x, n: {"y": forward(x, n)}
    return model


def in_place(x, _):
    y = x * 2
    y.add_(1)
    return y * y


def in_place_through_a_view(x, _):
    y = x * 2
    y.view(-1).add_(1)
    return y


def read_through_a_view(x, _):
    y = x * 2
    z = y[:, :]
    y.mul_(3)
    return z + y


def read_before_the_write(x, _):
    y = x * 2
    z = y + 1
    y.mul_(3)
    return z + y


def in_place_twice(x, _):
    y = x * 2
    y.add_(1)
    y.mul_(y)
    return y - x


def in_place_on_a_view_of_a_view(x, _):
    y = (x * 2).t().t()
    y.sub_(1)
    return y


def write_to_columns(x, _):
    y = x * 2
    y[:, 0] /= 3
    y[..., 1:3] = y[..., 2:4] + 1
    y[:, -1] = 7
    return y


def write_to_rows_of_a_row(x, _):
    y = torch.stack([x, x + 1, x * x])
    y[1][:, ::2] += x[:, ::2]
    z = y[1] * 2
    y[0].relu_()
    return y[0] + z


def fill_all(x, _):
    y = x * 2
    y[:] = x + 1
    return y - x


def floats_written_to_integers(x, n):
    y = n + 1
    y[:, 0] = x[:, 0] * 9
    return y * x


def masked_fill(x, n):
    mask = (n > 2) & (n < 7) | (x > 0.5)
    return x.masked_fill(mask ^ (n == 3), -1.0)


def repeat_interleave_dynamic(x, _):
    rows, columns = x.shape
    return x.repeat_interleave(rows, dim=0)[::rows] + x.repeat_interleave(columns, dim=1)[:, :columns]


def conv_transpose(x, _):
    weight = torch.tensor([[[[1.0, 2.0], [3.0, 5.0]]]])
    return torch.nn.functional.conv_transpose2d(x[None, None], weight, stride=2)[0, 0, ::2, ::2]


def adaptive_average(x, _):
    means = torch.nn.functional.adaptive_avg_pool2d(x[None, None], (2, 3))[0, 0]
    return x * (means * torch.tensor([[1.0, 2.0, 3.0], [5.0, 8.0, 13.0]])).sum()


def batch_norm(x, _):
    mean, variance = torch.tensor([0.5, -1.0]), torch.tensor([2.0, 3.0])
    images = torch.stack([x, x * x], dim=1)
    normed = torch.nn.functional.batch_norm(images, mean, variance, torch.tensor([1.5, 0.5]), eps=1e-3)
    of_batch = torch.nn.functional.batch_norm(images, None, None, training=True)
    return normed.sum(1) + of_batch[:, 0] * torch.nn.functional.batch_norm(images, mean, variance)[:, 1]


def meshgrid(x, _):
    rows, columns = torch.meshgrid(torch.arange(x.shape[0]), torch.arange(x.shape[1]), indexing="ij")
    return rows * 10.0 + columns


def operators_of_operators(x, n):
    ranks = torch.argsort(x + torch.arange(x.shape[1]) * 3, dim=1)
    return torch.outer(x[:, 0].clip(-1, 1), n[0].square().to(x.dtype)) + ranks


def flatten_and_unflatten(x, _):
    stacked = torch.stack([x, x + 1, x * 2, x * 3], dim=1)
    rows = stacked.flatten(0, 1).unflatten(0, (-1, 2, 2)).sum((1, 2))
    return rows + stacked.flatten(1).unflatten(1, (4, -1))[:, 2] + stacked.unflatten(1, (2, 2)).flatten(1, 2)[:, 3]


def adaptive_average_of_a_sequence(x, _):
    thirds = torch.nn.functional.adaptive_avg_pool1d(x[:, None], 3)[:, 0]
    return x * torch.nn.functional.adaptive_avg_pool1d(x[:, None], 1)[:, 0] + (thirds * thirds).sum()


def write_where_true(x, n):
    y = x * 2
    y[torch.where(n > 4)] = -1.0
    z = y + x
    z[torch.where((n > 6).any(1))] = 0.5
    return z


def resized(x, **options):
    """A number that depends on each element of a resized image, in which two neighbors differ much."""
    image = torch.nn.functional.interpolate((x * 3)[None, None], mode="bilinear", **options)[0, 0]
    rows, columns = (torch.arange(size, dtype=x.dtype) + 1 for size in image.shape)
    return x + (image * columns / columns.sum()).sum(1) @ (rows / rows.sum())


def resize_to_sizes(x, _):
    rows, columns = x.shape
    return resized(x, size=(rows * 2 + 1, columns)) + resized(x, size=(3, columns - 1), align_corners=True)


def resize_by_a_factor(x, _):
    return resized(x, scale_factor=1.5) + resized(x, scale_factor=(2, 0.7))


def resize_corners_by_a_factor(x, _):
    return resized(x, scale_factor=2.5, align_corners=True) + resized(x, scale_factor=1.7, recompute_scale_factor=True)


RESIZED = [resize_to_sizes, resize_by_a_factor, resize_corners_by_a_factor]
TRACED_AGAIN = [in_place_through_a_view, read_through_a_view, floats_written_to_integers]
EXPRESSIONS = {
    "casts": lambda x, n: (n.to(torch.float32) + x.to(torch.int64).to(x.dtype)).type_as(x).detach(),
    "casts_to_the_same_dtype": lambda x, _: x.to(torch.float32).detach(),
    "integers_by_an_integer": lambda _, n: n / 4,
    "integers_by_a_float": lambda _, n: n * 0.5 + 1.5,
    "float_plus_integers": lambda x, n: x + n,
    "square_root_of_integers": lambda _, n: torch.sqrt(n),
    "where of bool": lambda x, n: torch.where(n > 4, x > 0, n < 2).float(),
    "where": lambda x, n: torch.where(n > 4, x, 0.0) + torch.where(n > 4, n, 1),
    "powers": lambda x, n: x.abs() ** 2 + 2**n,
    "minimum_and_maximum": lambda x, n: torch.min(x, x * n) + torch.max(x, -x),
    "number_minus_tensor": lambda x, n: (1 - x) * (5 - n),
    "reshape_as": lambda x, n: x.t().reshape_as(n) + x,
    "repeat_interleave_constant": lambda x, _: x.repeat_interleave(3, dim=-1)[:, ::3] * 2,
    "decomposed_output": lambda x, _: x.clip(-0.5, 0.5),
}
FORWARDS = EXPRESSIONS | {
    name: function
    for name, function in list(vars().items())
    if callable(function) and getattr(function, "__module__", None) == __name__ and name not in ("module", "resized")
}
"""All functions above that a model computes."""


@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_a_lowered_program_computes_the_same(forward, tmp_path):
    (difference,) = onnxfn.export(SPEC, module(forward), tmp_path / "model.onnx").report.differences
    assert difference.max_abs < 1e-5


@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_a_program_that_reads_memory_through_two_names_is_traced_again(forward):
    program = exported_program(module(forward), plan(SPEC, {}).parts[0])
    assert lower_in_place(program, onnx_registry(18)) is (forward not in TRACED_AGAIN)


@pytest.mark.parametrize("forward", RESIZED, ids=lambda forward: forward.__name__)
def test_each_interpolation_of_floats_is_a_resize(forward, tmp_path):
    file = tmp_path / "model.onnx"
    onnxfn.export(SPEC, module(forward), file, check=False)
    assert [node.op_type for node in onnx.load(str(file)).graph.node].count("Resize") == 2
