"""Odd own modules are exported and agree at other sizes, or are refused in one sentence that says what to do."""

from __future__ import annotations

import re
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import torch
from own_modules import real
from small_modules import derived_export, module
from torch import nn
from transformers import AutoModelForCausalLM
from vector_specs import vector_spec

import onnxfn
from onnxfn import CaptureFailed, CheckFailed, InvalidSpec, OnnxfnError

# Containers


@dataclass
class States:
    hidden: torch.Tensor
    cell: torch.Tensor
    gain: float = 2.0


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - as users write it


def fed_by_containers(x, batch):
    batch["list"].append(x)
    left, right = batch["pair"]
    hidden = x * batch["states"].hidden + batch["states"].cell * batch["states"].gain
    return {"states": States(hidden, sum(batch["list"])), "pair": Pair(left + right.left, x), "one": [Pair(x * 2, x)]}


def test_dataclasses_named_tuples_and_lists_are_taken_apart_and_built_again(tmp_path):
    pair = Pair(real(3, 4), Pair(real(3, 4), None))
    batch = {"states": States(real(3, 4), real(3, 4), gain=3.0), "pair": pair, "list": [real(3, 4)]}
    spec = onnxfn.derived(fed_by_containers, sample={"x": real(3, 4), "batch": batch})
    assert onnxfn.from_json(onnxfn.to_json(spec), trust=(__name__.partition(".")[0],)) == spec
    with pytest.raises(InvalidSpec, match="field 'by' of ArgumentBuilder names code outside onnxfn's tables"):
        onnxfn.from_json(onnxfn.to_json(spec))
    result = onnxfn.export(spec, fed_by_containers, tmp_path / "m.onnx")
    fields = ("states.hidden", "states.cell", "pair.left", "pair.right.left", "list.0")
    assert list(result.inputs) == ["x", *(f"batch.{field}" for field in fields)]
    named = ["states.hidden", "states.cell", "pair.left", "pair.right", "one.0.left", "one.0.right"]
    assert list(result.outputs) == named
    fed = {name: real(7, 4) + number for number, name in enumerate(result.inputs)}
    actual = result(**fed)
    x, hidden, cell, *_ = fed.values()
    np.testing.assert_allclose(actual["states.hidden"], x * hidden + cell * 3, rtol=1e-5, atol=1e-5)


def test_a_lone_dataclass_is_the_only_argument(tmp_path):
    product = lambda states: states.hidden * states.cell  # noqa: E731
    result = derived_export(product, States(real(3, 4), real(3, 4)), tmp_path / "m.onnx")
    assert list(result.inputs) == ["states.hidden", "states.cell"]


def test_a_class_that_has_no_name_is_refused():
    Inner = namedtuple("Inner", "left right")  # noqa: PYI024
    message = "'pair' in the sample is Inner, which "
    with pytest.raises(InvalidSpec, match=f"^{re.escape(message)}.*define the class at the top of a module, or pass"):
        onnxfn.derived(lambda pair: pair.left, sample={"pair": Inner(real(3, 4), real(3, 4))})


# The batch


def test_a_batch_of_one_is_tried_whatever_its_axis_is_called(tmp_path):
    sample, axes = {"ids": real(3, 5), "mask": real(3, 5)}, {"ids": "n time", "mask": "n time"}
    result = derived_export(lambda ids, mask: ids * mask, sample, tmp_path / "m.onnx", axes)
    assert result.report.cases[:2] == ("one (n=1, time=8)", "several (n=3, time=10)")


def test_a_module_that_refuses_a_batch_of_one_is_checked_at_larger_ones(tmp_path):
    def from_two(x):
        torch._check(x.shape[0] >= 2)
        return x * 2

    cases = derived_export(from_two, real(3, 4), tmp_path / "m.onnx").report.cases
    assert cases[:2] == ("one (batch_size=2)", "several (batch_size=3)")


# Windows


def windowed(window, *, with_keys):
    """A module around a decoder with a sliding window, which makes its own cache, and may return keys of it."""
    config = tiny.model("mistral", "AutoModelForCausalLM").config
    config.sliding_window = window
    torch.manual_seed(0)

    def forward(self, input_ids):
        result = self.inner(input_ids=input_ids)
        keys = {"keys": result.past_key_values.layers[0].keys} if with_keys else {}
        return {"probabilities": result.logits.softmax(-1), **keys}

    return module(forward, inner=AutoModelForCausalLM.from_config(config).eval())


@pytest.mark.parametrize("with_keys", [False, True])
def test_a_module_around_a_sliding_window_is_checked_beyond_it(with_keys, tmp_path):
    """The graph was limited to texts shorter than the window, so that two cases had the same size."""
    model, sample = windowed(24, with_keys=with_keys), {"input_ids": torch.arange(8).reshape(2, 4)}
    result = derived_export(model, sample, tmp_path / "m.onnx", {"input_ids": "batch_size time"})
    assert result.limits == ()
    cases = ("one (batch_size=1, time=7)", "several (batch_size=3, time=9)", "long text (batch_size=1, time=94)")
    assert result.report.cases[:3] == cases


# Modules that are exported


def in_place(x):
    x.add_(1)
    x[:, 0] = 3.0
    return x, x * 2


def filtered(x):
    return torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[1])


def with_short_indices(x, rows, columns):
    rows, columns = rows.int(), columns.int()
    changed = x.clone()
    changed[rows, columns] = 2.0
    return x[rows], x[rows, columns], x[:, columns], changed, x.index_put((rows,), x[rows], accumulate=True)


def short_time_signal(x):
    window = torch.hann_window(16)
    return torch.istft(torch.stft(x, 16, 4, window=window, return_complex=True) * 2, 16, 4, window=window)


def with_rotations(x, positions):
    """Complex numbers of a table, as rotary positions have them in diffusers."""
    table = torch.polar(torch.ones(50, 4), torch.arange(200).reshape(50, 4) * 0.1)
    turned = torch.view_as_complex(x.unflatten(-1, (4, 2))) * table[positions]
    turned = turned + table.index_select(0, positions[0]) * table[3].unsqueeze(-2).expand(x.shape[1], 4)
    parts = table.split([20, 30])[0][:3].repeat(2, 1)[:1]
    return torch.view_as_real(turned * turned.select(1, 0).unsqueeze(1) + parts).flatten(-2)


def moved_complex_numbers(x):
    """Operators that move complex numbers along axes, of a table by sizes."""
    numbers = torch.polar(x, x * 0.5)
    first, *_, last = numbers.unbind(-1)
    moved = [numbers.flatten(0, 1), numbers.flatten(1), numbers.reshape(x.shape[0], -1), first * last]
    moved += [numbers.unflatten(-1, (2, 2)).squeeze(-1), numbers.split(2, -1)[1], numbers.repeat_interleave(2, dim=-1)]
    moved.append(numbers.gather(1, torch.arange(4).expand(x.shape[0], 2, 4) % 2))
    written = numbers.to(torch.complex128)
    written[0, :2], written[:, -1] = numbers[0, 2:4].to(torch.complex128), numbers[:, 0].to(torch.complex128)
    moved.append(written.to(torch.complex64))
    numbers_alone = torch.where(x > 0, 0, -float("inf")), torch.where(x > 0, 2, 3)
    return [torch.view_as_real(each.contiguous()) for each in moved] + [x.repeat_interleave(3), *numbers_alone]


def written_into_data(x):
    """A table that is written into the data of a tensor, once for all rows."""
    longer = x.new_zeros(x.shape[0], 3 + x.shape[1])
    longer.data[:, 3:].copy_(x[0] * 2)
    return longer + 1


class Gaussian:
    """An object that is made of a tensor, as the encoders of diffusers return it."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.mean = parameters.mean()


def marked(ids, pictures):
    """Rows of pictures in the place of tokens 7, as models of pictures and texts have them."""
    if (ids == 7).sum() != len(pictures):
        raise ValueError("tokens and pictures do not match")
    return (ids == 7).cumsum(1) * pictures.sum()


def three_times(x):
    """Three copies of pictures of even sides; torch does not see that there are three whatever the sides are."""
    high, wide = x.shape[1] // 2, x.shape[2] // 2
    even = x[:, : 2 * high, : 2 * wide].reshape(x.shape[0], 4 * high * wide)
    return even.repeat(1, 3).reshape(x.shape[0], -1, *x.shape[1:])


EXPORTED = {
    "an object made of a tensor": (lambda x: {"latents": Gaussian(x * 2)}, {"x": real(3, 4)}),
    "written into data": (written_into_data, {"x": real(3, 4)}),
    "moved complex numbers": (moved_complex_numbers, {"x": real(2, 5, 4)}),
    "rotations": (with_rotations, {"x": real(2, 5, 8), "positions": torch.randint(0, 50, (2, 5))}),
    "indices in int32": (
        with_short_indices,
        {"x": real(3, 4), "rows": torch.tensor([0, 2, 1]), "columns": torch.tensor([3, 1, 0])},
    ),
    "a short-time spectrum and back": (short_time_signal, {"x": real(3, 64)}),
    "a spectrum and back": (filtered, {"x": real(3, 8)}),
    "an odd spectrum and back": (filtered, {"x": real(3, 9)}),
    "inputs changed in place": (in_place, {"x": real(3, 4)}),
    "an output with the name of an input": (lambda x: {"x": x * 2, "text": "abc", "none": None}, {"x": real(3, 4)}),
    "an axis whose size is a value": (lambda x, n: x[:, :n], {"x": real(3, 4), "n": torch.tensor(2)}),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_an_odd_module_agrees(name, tmp_path):
    model, sample = EXPORTED[name]
    derived_export(model, sample, tmp_path / "m.onnx")


def test_tokens_whose_number_decides_are_those_of_the_sample(tmp_path):
    sample = {"ids": torch.tensor([[1, *[7] * 9, 2]]), "pictures": real(9, 4)}
    spec = onnxfn.derived(marked, sample=sample, axes={"ids": "1 11", "pictures": "9 width"})
    assert [each.function for each in spec.dummies.generators] == ["repeated", "scaled"]
    assert onnxfn.export(spec, marked, tmp_path / "m.onnx").report.passed


def test_an_axis_whose_formula_holds_for_sizes_like_the_sample_alone_has_a_name_of_its_own(tmp_path):
    """In the trace, the elements of an even number of cells are `2 * (rows * columns // 2)`."""

    def cells(x):
        high, wide = x.shape[1] // 2, x.shape[2] // 2
        return x.reshape(x.shape[0], high, 2, wide, 2).transpose(2, 3).reshape(x.shape[0], -1, high * wide)

    result = derived_export(cells, real(2, 4, 6), tmp_path / "m.onnx", "batch_size 2*rows 2*columns")
    assert result.outputs == {"output": {0: "batch_size", 2: "output_axis_2"}}


def test_an_axis_that_is_a_number_whatever_the_sides_are_stays_one(tmp_path):
    result = derived_export(three_times, real(2, 4, 6), tmp_path / "m.onnx", "batch_size rows columns")
    assert result.outputs == {"output": {0: "batch_size", 2: "rows", 3: "columns"}}
    assert [limit.text for limit in result.limits] == ["rows % 2 == 0", "columns % 2 == 0"]


def test_an_axis_of_one_that_is_dynamic_is_not_squeezed(tmp_path):
    squeezed = lambda x: (x.squeeze(1), x[..., None].squeeze(-1), x[..., None].squeeze((1, -1)))  # noqa: E731
    result = derived_export(squeezed, real(3, 1, 4), tmp_path / "m.onnx", "batch_size n _")
    assert [*result.outputs.values()] == [{0: "batch_size", 1: "n"}] * 3


# Modules that are refused


RANDOM = {
    "dropout": lambda x: nn.functional.dropout(x, 0.5),
    "small noise": lambda x: 0.01 * x + 1e-4 * torch.rand_like(x),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_named_when_the_check_fails(name, tmp_path):
    message = "PyTorch itself returns other values of 'output' at the next call: the model draws random numbers; take "
    with pytest.raises(CheckFailed, match=message):
        derived_export(RANDOM[name], real(3, 4), tmp_path / "m.onnx")


def test_a_size_that_only_the_graph_calls_dynamic_is_refused_with_the_edit(tmp_path):
    message = (
        "axis 0 of 'output' is dynamic in the graph .*; use gives\\('output', ...\\) with a word such as 'n' for axis 0"
    )
    counted = lambda x: torch.bincount(x, minlength=9)  # noqa: E731
    spec = onnxfn.derived(counted, sample=torch.tensor([1, 2, 3]))
    with pytest.raises(CaptureFailed, match=message):
        onnxfn.export(onnxfn.compose(spec, onnxfn.gives("output", "_")), counted)
    assert onnxfn.export(spec, counted, tmp_path / "m.onnx").outputs == {"output": {0: "output_axis_0"}}


class Counter(nn.Module):
    """Changes one buffer in place, and puts another tensor in place of the other."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(0.0))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.count += 1
        self.mean = self.mean * 0.9 + x.mean(0)
        return x * self.count + self.mean


BY = {
    "derived": lambda model: derived_export(model, real(3, 4)),
    "written by hand": lambda model: onnxfn.export(vector_spec(4), model),
}
"""How a module gets its spec."""


@pytest.mark.parametrize("way", BY)
def test_buffers_that_forward_changes_are_refused_and_left_as_they_were(way):
    model = Counter()
    message = "^Counter changes its buffers count, mean in forward, and a graph has no state; take them as arguments, "
    with pytest.raises(InvalidSpec, match=message):
        BY[way](model)
    assert not model.count
    assert not model.mean.any()


def noting(self, x):
    self.last.copy_(x.mean(0))
    return x * 2


def test_a_buffer_that_no_output_reads_may_change():
    assert onnxfn.export(vector_spec(4), module(noting, last=nn.Buffer(torch.zeros(4)))).report.passed


def quantized():
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3)), {nn.Linear})


class Called:
    def __call__(self, x):
        return x * 2


class WithoutForward(Called, nn.Module):
    """A module that is called, and has no forward."""


def nested(x):
    return x


REFUSED = {
    "script": (lambda: torch.jit.script(nn.Linear(4, 2)), real(3, 4), "the model is TorchScript, .*; pass the module"),
    "trace": (lambda: torch.jit.trace(nn.Linear(4, 2), real(3, 4)), real(3, 4), "the model is TorchScript, .*; pass "),
    "script of a function": (lambda: torch.jit.script(nested), real(3, 4), "the model is TorchScript, .*; pass the mo"),
    "script inside": (
        lambda: nn.Sequential(torch.jit.script(nn.Linear(4, 2))),
        real(3, 4),
        "Sequential holds TorchScript at 0; put the module or function that",
    ),
    "lazy": (lambda: nn.LazyLinear(2), real(3, 4), "LazyLinear has weights without a shape; run it once on the sample"),
    "quantized": (quantized, real(3, 4), "Sequential has layers that torch quantized: .*; export the model before"),
    "sparse": (nn.ReLU, real(3, 4).to_sparse(), "'input' is a sparse tensor, .*; pass a dense one"),
    "complex": (lambda: torch.fft.rfft, real(3, 8), "is complex, .*; return torch.view_as_real"),
    "no tensor": (lambda: len, real(3, 8), "returns no tensor; return one or more, also in tuples"),
    "an object that is called": (Called, real(3, 4), "Called is not a function and has no forward; pass model.__"),
    "no forward": (WithoutForward, real(3, 4), "WithoutForward is not a function and has no forward; pass mo"),
    "no model": (lambda: 3, real(3, 4), "int is not a function and has no forward; pass a module or a function"),
    "two outputs of a name": (
        lambda: lambda x: {"a.b": x * 2, "a": {"b": x * 3}},
        real(3, 4),
        "two outputs of .* have the name 'a.b'; return them ",
    ),
    "two inputs of a name": (lambda: nested, {"x": {"a.b": real(2), "a": {"b": real(2)}}}, "have the name 'x.a.b'; re"),
    "numbers as keys": (lambda: nested, {"x": {3: real(2), 5: real(2)}}, "the keys of 'x' in the sample are 3, 5; a "),
    "an empty list": (lambda: nested, {"x": [real(2), []]}, "'x.1' in the sample for Module is an empty list; a sa"),
    "more outputs": (lambda: lambda x: x.split(2), real(4, 8), "returns 2 tensors at .* and 1 at .*: return one stack"),
    "fewer axes": (lambda: lambda x: x.squeeze(0), real(4, 8), "has the shape .* and .*: return as many at all sizes"),
    "branch": (lambda: lambda x: x * 2 if x.sum() > 0 else x, real(3, 4), "depends on values of a tensor: use torch.w"),
    "size": (lambda: lambda x: x * float(x.max()), real(3, 4), "depends on values of a tensor: use torch.where"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_an_odd_module_is_refused_in_one_line_that_tells_what_to_do(name, tmp_path):
    build, sample, message = REFUSED[name]
    model = build()
    with pytest.raises((InvalidSpec, CaptureFailed), match=f"^[^\n]*{message}[^\n]*$") as refusal:
        onnxfn.export(onnxfn.derived(model, sample=sample), model, tmp_path / "m.onnx")
    assert isinstance(refusal.value, OnnxfnError)


def without_ones(x, mask):
    is_left_out = not torch.compiler.is_exporting() and mask.all()
    return x.cumsum(1) if is_left_out else x * mask


def test_a_mask_that_is_left_out_where_it_is_of_ones_is_checked_so():
    sample = {"x": torch.arange(8.0).reshape(2, 4), "mask": torch.ones(2, 4, dtype=torch.bool)}
    with pytest.raises(onnxfn.CheckFailed, match="away from PyTorch at masks of one value"):
        derived_export(without_ones, sample)


class Configured(nn.Linear):
    def __init__(self, config):
        super().__init__(4, 2)
        self.config = config


@pytest.mark.parametrize("config", [SimpleNamespace(width=4), States(4, 4), "tiny"])
def test_a_configuration_of_any_kind_is_no_obstacle(config):
    derived_export(Configured(config), real(2, 4))


def test_a_spec_reads_the_fields_of_a_plain_configuration():
    model = Configured(SimpleNamespace(width=4))
    spec = onnxfn.compose(
        onnxfn.takes("input", "batch_size width=", "normal", kind="float"),
        onnxfn.gives("output", "batch_size 2"),
        onnxfn.reads(width="width"),
        onnxfn.sized(batch_size=3),
    )
    assert onnxfn.plan(spec, model) == onnxfn.plan(spec, model.config)
    assert onnxfn.export(spec, model, config=model.config).inputs == {"input": {0: "batch_size"}}
