"""A trace leaves out assertions about values of tensors; branches on values are refused, some with advice."""

import onnx
import pytest
import torch
from refusals import refusal

import onnxfn


def with_if(x, lengths):
    if not (x.abs() >= 0).all() or lengths.max().item() > x.shape[1]:
        message = "too long"
        raise ValueError(message)
    return x * 2


def with_assert(x, lengths):
    assert (x.abs() >= 0).all() and not (  # noqa: PT018 - as users write it
        lengths > x.shape[1]
    ).any(), "too long"
    torch._assert(lengths.min() > 0, "empty")
    return x * 2


def with_handler(x, lengths):
    try:
        if (x > lengths[:, None]).any():
            raise ValueError  # noqa: TRY301 - as users write it
    except ValueError:
        return x
    return x * 2


def with_result(x, lengths):
    if (x > lengths[:, None]).any():
        if x.shape[1] > 1:
            return x
        raise ValueError
    return x * 2


def derived(function):
    sample, axes = {"x": torch.rand(2, 7), "lengths": torch.tensor([3, 5])}, {"x": "batch time", "lengths": "batch"}
    return onnxfn.derived(function, sample=sample, axes=axes, ranges={"lengths": (1, 6)})


@pytest.mark.parametrize("function", [with_if, with_assert])
def test_assertions_about_values_are_left_out(function, tmp_path):
    onnxfn.export(derived(function), function, tmp_path / "m.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node] == ["Mul"]


@pytest.mark.parametrize("function", [with_handler, with_result, lambda x, lengths: x if x.equal(-x) else lengths])
def test_a_branch_on_values_that_may_go_on_is_refused(function):
    with pytest.raises(onnxfn.CaptureFailed, match="a branch there depends on values of a tensor"):
        onnxfn.export(derived(function), function)


# The advice for a model that cannot be traced is for its error, not for a word in the name of the model

ADVICE = "use torch.where(condition, a, b) with both results"


class ConditionalModel(torch.nn.Module):
    """A model that does not trace, and whose name has the word of another error."""

    def forward(self, x):
        if torch.compiler.is_exporting():
            raise RuntimeError("ConditionalModel does not trace")
        return x + 1


def message(model):
    spec = onnxfn.derived(model, sample={"x": torch.randn(3, 4)})
    return refusal(onnxfn.CaptureFailed, onnxfn.export, spec, model)


def test_a_name_with_the_word_cond_is_no_torch_cond():
    assert ADVICE not in message(ConditionalModel())


@pytest.mark.parametrize("step", [1, -1])
def test_a_branch_that_returns_its_input_which_torch_cond_refuses_gets_advice(step):
    branches = (torch.Tensor.contiguous, torch.Tensor.cos)[::step]
    assert ADVICE in message(lambda x: torch.cond(x.sum() > 0, *branches, (x,)))
