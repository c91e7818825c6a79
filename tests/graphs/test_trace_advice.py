"""The advice for a model that cannot be traced is for its error, not for a word in the name of the model."""

import pytest
import torch
from refusals import refusal

import onnxfn
from onnxfn.specs.errors import CaptureFailed

ADVICE = "use torch.where(condition, a, b) with both results"


class ConditionalModel(torch.nn.Module):
    """A model that does not trace, and whose name has the word of another error."""

    def forward(self, x):
        if torch.compiler.is_exporting():
            raise RuntimeError("ConditionalModel does not trace")
        return x + 1


class Branches(torch.nn.Module):
    """A model with a branch that returns its input, which torch.cond refuses."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = branches

    def forward(self, x):
        return torch.cond(x.sum() > 0, *self.branches, (x,))


def message(model):
    spec = onnxfn.derived(model, sample={"x": torch.randn(3, 4)})
    return refusal(CaptureFailed, onnxfn.export, spec, model)


def test_a_name_with_the_word_cond_is_no_torch_cond():
    assert ADVICE not in message(ConditionalModel())


@pytest.mark.parametrize("reverse", [False, True])
def test_a_branch_that_torch_cond_refuses_gets_advice(reverse):
    branches = (torch.Tensor.contiguous, torch.Tensor.cos)
    assert ADVICE in message(Branches(*branches[:: -1 if reverse else 1]))
