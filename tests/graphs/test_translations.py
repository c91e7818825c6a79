"""Operators that torch's own table of ONNX functions lacks or translates wrongly agree with PyTorch."""

import onnx
import onnxruntime
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from small_modules import module
from torch.nn.functional import interpolate

import onnxfn


def agrees(folder, forward, axes):
    """Whether the graph of a function agrees with it in all cases of the check."""
    spec = onnxfn.compose(
        onnxfn.takes("x", axes, "numbers", kind="float"),
        onnxfn.generates("numbers", "uniform"),
        onnxfn.sized(batch_size=2, length=8),
        onnxfn.case("short", onnxfn.sized(batch_size=3, length=5)),
        onnxfn.case("long", onnxfn.sized(batch_size=1, length=19)),
        onnxfn.gives("y", " ".join(["batch_size", *["_"] * (len(axes.split()) - 3), "length", "_"])),
    )
    return onnxfn.export(spec, module(lambda _, x: {"y": forward(x)}), folder / "model.onnx").report.passed


@pytest.mark.parametrize("axes", ["batch_size length 4", "batch_size 2 length 4", "batch_size 2 3 length 4"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_takes_tensors_of_any_rank(axes, is_causal, tmp_path):
    attention = torch.nn.functional.scaled_dot_product_attention
    assert agrees(tmp_path, lambda x: attention(x + 1, 2 * x, 3 - x, is_causal=is_causal), axes)


@pytest.mark.parametrize("opset", [18, 23])
def test_a_query_that_sees_no_key_gives_zero_where_a_mask_is_minus_infinity(opset):
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    model = module(lambda self, x, mask: self.encoder(x, src_key_padding_mask=mask == 0), encoder=encoder)
    mask = torch.tensor([[1.0, 1, 1], [1, 0, 0], [0, 0, 0]])
    result = onnxfn.export(onnxfn.with_opset(onnxfn.derived(model, sample=(torch.randn(3, 3, 8), mask)), opset), model)
    assert result.report.passed
    operators = [node.op_type for node in result.model_proto().graph.node]
    zeroed = ("Softmax", "ReduceMax", "Attention")  # no node sets to zero what the operator does
    assert [operators.count(name) for name in zeroed] == ([2, 1, 0] if opset == 18 else [0, 0, 2])


def test_quotients_and_angles_are_those_of_torch_for_all_numbers():
    def function(x, y):
        whole = (x.nan_to_num().clamp(-9, 9) * 2**24).long() + 1  # it has more digits than float32
        divided = [torch.div(each, 3, rounding_mode=mode) for each in (x, whole) for mode in ("floor", "trunc")]
        quotients = (
            x // y,
            x // 0.1,
            x // -0.3,
            x.nan_to_num() // 0.5,
            1 // y,
            torch.div(x, y, rounding_mode="trunc"),
            whole // -7,
        )
        others = (torch.atan2(x, y), torch.complex(x, y).angle(), torch.copysign(x, y), torch.logaddexp(x, y))
        return (*divided, *quotients, x % y, x % 0.1, x % -0.3, x % 0.5, 1 % y, *others)

    numbers = torch.tensor([0.0, -0.0, 0.1, 0.3, -0.1, 0.9, 1.0, -1.5, 100.0, 3e30, torch.inf, -torch.inf, torch.nan])
    x, y = torch.cartesian_prod(numbers, numbers).T
    result = onnxfn.export(onnxfn.derived(function, sample=(x, y)), function, check=False)
    for ours, theirs in zip(result(x=x, y=y).values(), function(x, y), strict=True):
        torch.testing.assert_close(torch.as_tensor(ours), theirs, equal_nan=True)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize(
    ("axes", "dtype"), [(1, torch.float64), (2, torch.float32), (2, torch.uint8), (3, torch.float16)]
)
def test_the_nearest_pixels_are_those_of_torch_at_every_size(axes, mode, dtype):
    def function(x, y):
        image = x[:, :, :, *[None] * (axes - 1)].expand(1, 2, -1, *[2] * (axes - 1))
        sizes = [(len(y), 2, 2), (len(x[0, 0]) * 7 // 5, 2, 1), (8, 3, 2)]
        resized = [interpolate(image, size=size[:axes], mode=mode) for size in sizes]
        return *resized, *(interpolate(image, scale_factor=(by, 1, 1)[:axes], mode=mode) for by in (0.6, 3, 2.5, 41))

    x = (torch.rand(1, 2, 224) * 250).to(dtype)
    spec = onnxfn.derived(function, sample=(x[:, :, :12], torch.zeros(7)), axes={"x": "1 2 width", "y": "new"})
    result = onnxfn.export(spec, function, check=False)
    assert "Resize" in {node.op_type for node in result.model_proto().graph.node} or dtype == torch.float64

    @given(st.integers(3, 224), st.integers(1, 60))
    @example(224, 8)
    def are_equal(width, new):
        fed = {"x": x[:, :, :width], "y": torch.zeros(new)}
        for ours, theirs in zip(result(**fed).values(), function(**fed), strict=True):
            assert torch.equal(torch.as_tensor(ours), theirs)

    are_equal()


@pytest.mark.parametrize(
    "ends", [lambda n: (0, 1, 1 / n), lambda n: (0, n * 0.1, 0.1), lambda n: (n / 3, -1.5, -7 / n / n)]
)
def test_a_range_of_real_numbers_has_as_many_as_in_torch_at_every_size(ends):
    function = lambda x: torch.arange(*ends(x.shape[0])) + 0 * x[:1]  # noqa: E731
    result = onnxfn.export(onnxfn.derived(function, sample=torch.zeros(24), axes="length"), function, check=False)
    for length in range(2, 300):
        (numbers,) = result(x=torch.zeros(length)).values()
        torch.testing.assert_close(torch.as_tensor(numbers), torch.arange(*ends(length)), rtol=2e-7, atol=1e-6)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("opset", [18, 20])
def test_a_gelu_is_one_operator_from_opset_20_on_and_in_onnx_runtime(opset, approximate, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(approximate), torch.nn.Linear(4, 4))
    spec = onnxfn.with_opset(onnxfn.derived(model, sample=torch.randn(3, 5, 4)), opset)
    assert onnxfn.export(spec, model, tmp_path / "model.onnx").report.passed
    assert [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node].count("Gelu") == (opset == 20)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options)
    names = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert {"BiasGelu", "FastGelu", "Gelu"} & {*names}


@pytest.mark.parametrize("unit", [3, 8])
def test_a_quotient_of_a_negated_size_is_rounded_down(unit, tmp_path):
    assert agrees(tmp_path, lambda x: x * -(-x.shape[1] // unit) + x.shape[1] // unit, "batch_size length 4")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("include_self", [False, True])
def test_a_mean_over_indices_is_the_mean(include_self, dtype, tmp_path):
    def means(x):
        numbers = (9 * x - 4).to(dtype)
        index = (3 * x.abs()).long().clamp(max=4)
        return numbers.scatter_reduce(1, index, numbers, "mean", include_self=include_self).float()

    assert agrees(tmp_path, means, "batch_size length 4")


def test_a_complex_tensor_is_padded_filled_and_named_again(tmp_path):
    def padded(x):
        rotated = torch.ops.aten.alias(torch.complex(x, 2 * x))
        sums = torch.ops.aten.constant_pad_nd(rotated, [1, 2]) + rotated.new_full((7,), 2 - 1j)
        return torch.view_as_real(sums).flatten(-2)

    assert agrees(tmp_path, padded, "batch_size length 4")
