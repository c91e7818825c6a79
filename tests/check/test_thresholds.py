"""Where a value equals a threshold but for rounding, PyTorch gives ONNX Runtime's answer; elsewhere its own."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from graph_edits import change_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from other_threads import in_another_thread
from vector_specs import image_spec

import onnxfn
from onnxfn import gives
from onnxfn.check.verdict.choices import ANSWERED, choosing_again, choosing_as_file
from onnxfn.check.verdict.verdict import precision_of

SPEC = image_spec(gives("masked", "batch_size 4 rows columns", path=("masked",)))
COMPARISONS = [
    lambda values, number: values > number,
    lambda values, number: values.ge(number),
    lambda values, number: torch.lt(values, number),  # noqa: PLW0108 - `torch.lt` is looked up at each call
    lambda values, number: values.less_equal(number),
]


class Masker(torch.nn.Module):
    """Features where a mask is above 1. The mask is 1 everywhere but for rounding, plus `weight` times random values.

    The answer at a threshold is then a matter of rounding at each position if `weight` is 0.
    """

    def __init__(self, weight, compare=COMPARISONS[0]):
        super().__init__()
        self.compare = compare
        torch.manual_seed(0)
        self.features = torch.nn.Conv2d(3, 4, 8, 8)
        self.mask = torch.nn.Conv2d(3, 4, 8, 8)
        self.mask.weight.data *= weight
        self.mask.bias.data.zero_()

    def forward(self, pixel_values):
        features, mask = self.features(pixel_values), self.mask(pixel_values)
        # exp(x) * exp(-x) is 1 in exact arithmetic
        ones = torch.exp(features) * torch.exp(-features) + mask
        return {"masked": torch.where(self.compare(ones, 1.0), features, -features)}


def is_answered(report):
    return any(ANSWERED in text for each in report.differences for text in each.references)


@pytest.mark.parametrize("compare", COMPARISONS)
def test_answers_that_differ_by_rounding_alone_are_those_of_the_file(compare, tmp_path):
    exported = onnxfn.export(SPEC, Masker(0.0, compare), tmp_path / "model.onnx")
    assert exported.report.passed
    assert is_answered(exported.report)


def test_values_away_from_the_threshold_are_compared_with_pytorchs_own_answers(tmp_path):
    exported = onnxfn.export(SPEC, Masker(1.0), tmp_path / "model.onnx")
    assert exported.report.passed
    assert not is_answered(exported.report)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("name", ["features.weight", "mask.bias"])
def test_a_fault_is_found_whatever_the_values_are(weight, name, tmp_path):
    model = Masker(weight)
    onnxfn.export(SPEC, model, tmp_path / "model.onnx")
    change_weights(tmp_path / "model.onnx", {name: lambda array: array + np.float32(1e-2)})
    assert not onnxfn.validate(SPEC, model, tmp_path / "model.onnx").passed


def test_another_threshold_is_a_fault(tmp_path):
    model, other = Masker(1.0), Masker(1.0, lambda values, number: values > number + 0.01)
    onnxfn.export(SPEC, other, tmp_path / "model.onnx")
    assert not onnxfn.validate(SPEC, model, tmp_path / "model.onnx").passed


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=20),
    st.floats(-1, 1, width=32),
    st.data(),
    st.sampled_from(COMPARISONS),
)
def test_answers_are_taken_only_where_all_that_differ_are_at_the_threshold(numbers, threshold, data, compare):
    values = torch.tensor(numbers, dtype=torch.float32)
    own = compare(values, threshold)
    flipped = np.array(data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers))))
    answers = own.numpy() ^ flipped
    near = np.abs(values.double().numpy() - threshold) <= 1e-3 * np.median(np.abs(numbers))
    with choosing_as_file([], [answers], precision_of("float32")) as used:
        given_answers = compare(values, threshold).numpy()
    if (flipped & ~near).any():
        assert np.array_equal(given_answers, own.numpy())
        assert not used
    else:
        assert np.array_equal(given_answers, answers) or np.array_equal(given_answers, own.numpy())
    assert np.array_equal(compare(values, threshold).numpy(), own.numpy())


def test_a_later_run_has_the_same_answers_in_another_dtype():
    values, answers = torch.tensor([1.0, 2.0, 0.5]), np.array([True, True, False])
    with choosing_as_file([], [answers], precision_of("float32")) as used:
        assert (values > 3).tolist() == [False] * 3
        assert (values > 1).tolist() == answers.tolist()
    assert [*used] == [1]
    with choosing_again(used):
        assert (values.double() > 3).tolist() == [False] * 3
        assert (values.double() > 1).tolist() == answers.tolist()
        assert (values.double() > 1).tolist() == [False, True, False]


def test_integers_tensors_and_other_threads_compare_as_before():
    with choosing_as_file([], [np.array([True, True])] * 3, precision_of("float32")) as used:
        assert in_another_thread(torch.gt, torch.tensor([1.0, 2.0]), 1).tolist() == [False, True]
        assert (torch.tensor([1, 2]) > 1).tolist() == [False, True]
        assert (torch.tensor([1.0, 2.0]) > torch.tensor([1.0, 1.0])).tolist() == [False, True]
        assert not used
        assert (torch.tensor([1.0, 2.0]) > 1).tolist() == [True, True]


def test_torch_itself_is_not_changed_so_that_contexts_of_threads_may_end_in_any_order():
    greater = torch.Tensor.gt
    first, second = (choosing_as_file([], [np.array([True])], precision_of("float32")) for _ in range(2))
    first.__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(second.__enter__).result()
        assert torch.Tensor.gt is greater
        first.__exit__(None, None, None)
        pool.submit(second.__exit__, None, None, None).result()
    assert (torch.tensor([1.0]) > 1).tolist() == [False]
