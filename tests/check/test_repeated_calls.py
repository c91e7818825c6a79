"""A module that is called several times is computed once for equal arguments."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.check.repeated_calls import are_equal, computed_once, repeated_modules


class Head(torch.nn.Module):
    """A module that multiplies by 2, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.inner, self.calls = torch.nn.Identity(), 0

    def forward(self, hidden, scale=2.0):
        self.calls += 1
        return self.inner(hidden) * scale


class Caller(torch.nn.Module):
    """A model that calls its head on each of some tensors, and another module once."""

    def __init__(self):
        super().__init__()
        self.head, self.other = Head(), torch.nn.Identity()

    def forward(self, *tensors):
        return self.other([self.head(tensor) for tensor in tensors])


def test_modules_that_are_called_several_times_are_found_the_outermost_alone():
    model, one = Caller(), torch.ones(2)
    with repeated_modules(model) as repeated:
        model(one, one)
    assert repeated() == ("head",)
    with repeated_modules(model) as repeated:
        model(one)
    assert repeated() == ()


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0]), max_size=8))
def test_results_are_those_without_the_context_and_runs_of_equal_arguments_are_computed_once(numbers):
    model, tensors = Caller(), [torch.full((2,), number) for number in numbers]
    expected = [tensor * 2 for tensor in tensors]
    with computed_once(model, ["head"]):
        assert are_equal(model(*tensors), expected)
    changes = sum(index == 0 or number != numbers[index - 1] for index, number in enumerate(numbers))
    assert model.head.calls == changes
    assert are_equal(model(*tensors), expected)
    assert model.head.calls == changes + len(numbers)


@pytest.mark.parametrize("changed", ["argument", "result"])
def test_tensors_that_were_written_to_are_not_used_again(changed):
    model, argument = Caller(), torch.ones(2)
    with computed_once(model, ["head"]):
        result = model.head(argument)
        (argument if changed == "argument" else result).add_(1)
        expected = argument * 2
        assert torch.equal(model.head(argument), expected)
    assert model.head.calls == 2


def test_a_module_that_writes_to_its_arguments_is_always_computed():
    model = Caller()
    model.head.inner.forward = lambda hidden: hidden.add_(1)
    with computed_once(model, ["head"]):
        assert model.head(torch.ones(2)).tolist() == [4.0, 4.0]
        assert model.head(torch.full((2,), 2.0)).tolist() == [6.0, 6.0]


def test_other_arguments_than_tensors_count():
    model, one = Caller(), torch.ones(2)
    with computed_once(model, ["head"]):
        assert model.head(one, scale=3.0).tolist() == [3.0, 3.0]
        assert model.head(one).tolist() == [2.0, 2.0]
        assert model.head(one, scale=2.0).tolist() == [2.0, 2.0]
    assert model.head.calls == 3


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(1, 2)),
        (torch.ones(2), [1.0, 1.0]),
        ([torch.ones(2)], (torch.ones(2),)),
        ([torch.ones(2)], [torch.ones(2), None]),
        ({"a": 1}, {"b": 1}),
        (object(), object()),
    ],
)
def test_values_that_differ(arguments, others):
    assert not are_equal(arguments, others)
