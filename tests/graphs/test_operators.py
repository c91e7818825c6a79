"""Every operator of torch is exported and agrees at sizes that were not traced, or is refused in one line."""

import pytest
import torch
from small_modules import module
from torch import nn
from torch_operators import EXPORTED, REFUSED, functions_of_one_tensor

import onnxfn
from onnxfn import CaptureFailed, CheckFailed, InvalidSpec, OnnxfnError

DEFAULT = (
    *("amax", "cdist of many rows", "cond", "cummax", "median of NaN", "modulo a size", "pow_", "roll by a size"),
    *("searchsorted", "sort, stable", "vmap"),
)
"""The operators of the default run; the others are in the sweep."""

REFUSED_BY_DEFAULT = ("mode", "numpy", "inverse", "split")


def names(table, default):
    return [pytest.param(name, marks=() if name in default else pytest.mark.sweep) for name in table]


def exported(function, sample):
    return onnxfn.export(onnxfn.derived(function, sample=sample), function)


def agrees(result, function, sample):
    """Whether a file agrees with a function at a batch that the check did not have, for other numbers."""
    tensors = sample if isinstance(sample, tuple) else (sample,)
    torch.manual_seed(1)
    larger = [torch.cat([tensor, tensor, tensor])[:7] + torch.rand(7, *tensor.shape[1:]) / 8 for tensor in tensors]
    expected = function(*larger)
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    fed = {name: tensor.numpy() for name, tensor in zip(result.inputs, larger, strict=True)}
    actual = [torch.as_tensor(output) for output in result(**fed).values()]
    return all(
        torch.allclose(ours.double(), theirs.double(), rtol=2e-3, atol=2e-4, equal_nan=True)
        and ours.dtype == theirs.dtype
        for ours, theirs in zip(actual, expected, strict=True)
    )


@pytest.mark.parametrize("name", names(EXPORTED, DEFAULT))
def test_an_operator_agrees(name):
    operator = EXPORTED[name]
    result = exported(operator.function, operator.sample)
    assert result.report.passed
    assert result.limits == ()
    assert agrees(result, operator.function, operator.sample)


@pytest.mark.parametrize("name", names(REFUSED, REFUSED_BY_DEFAULT))
def test_an_operator_is_refused_in_one_line_that_tells_what_to_do(name):
    operator, message = REFUSED[name]
    with pytest.raises(CaptureFailed, match=rf"^[^\n]*{message}[^\n]*$"):
        exported(operator.function, operator.sample)


def fault(function):
    """What is wrong with how a function of one tensor is exported or refused; None if nothing is."""
    try:
        result = exported(function, torch.linspace(-2, 2, 18).reshape(3, 6))
    except OnnxfnError as error:
        is_refusal = isinstance(error, (CaptureFailed, CheckFailed, InvalidSpec)) and "\n" not in str(error)
        return None if is_refusal else repr(error)
    except Exception as error:  # noqa: BLE001 - nothing else may come out
        return repr(error)
    return None if result.report.passed else "it did not pass"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step", [25, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_function_of_one_tensor_agrees_or_is_refused_in_one_line(step):
    functions = dict(list(functions_of_one_tensor())[::step])
    faults = {name: fault(function) for name, function in functions.items()}
    assert {name: message for name, message in faults.items() if message} == {}
    assert len(functions) > 200 // step


class Inner(nn.Module):
    def forward(self, x):
        return self.smallest(x * 2)

    def smallest(self, x):
        return x.mode(1).values


def test_a_refusal_names_the_module_and_the_line():
    model = nn.Sequential(nn.Linear(6, 6), nn.Sequential(nn.ReLU(), Inner()))
    message = (
        r"^no translation to ONNX of aten.mode, which Sequential calls in '1.1' at test_operators.py:\d+ "
        r"\(return x.mode\(1\).values\); compute it from other operators of torch, outside"
    )
    with pytest.raises(CaptureFailed, match=message):
        exported(model, torch.randn(3, 6))


def test_a_branch_of_layers_is_an_if_of_onnx_that_takes_both_ways():
    forward = lambda self, x: torch.cond(x.mean() > 0, self.high, self.low, (x,))  # noqa: E731
    model = module(forward, low=nn.Linear(6, 6), high=nn.Linear(6, 6))
    result = exported(model, torch.randn(3, 6))
    assert "If" in {node.op_type for node in result.model_proto().graph.node}
    for shift in (-3, 3):
        x = torch.randn(8, 6) + shift
        assert torch.allclose(torch.as_tensor(result(x=x.numpy())["output"]), model(x), atol=1e-5)
