"""Where scores are equal but for rounding, PyTorch picks the positions that ONNX Runtime picks, if they are as good."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from graph_edits import change_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from other_threads import in_another_thread
from small_graphs import noise
from vector_specs import image_spec

import onnxfn
from onnxfn import gives
from onnxfn.check.cuts.graph_values import computed_values
from onnxfn.check.cuts.runs import written_graph
from onnxfn.check.verdict import case_comparisons
from onnxfn.check.verdict.choices import ANSWERED, WorseChoice, choosing_again, choosing_as_file
from onnxfn.check.verdict.verdict import precision_of

SPEC = image_spec(gives("best", "batch_size _ _", path=("best",)), gives("scores", "batch_size _", path=("scores",)))


class Picker(torch.nn.Module):
    """The features of the 20 best positions by `weight` times random scores; it `sorts` them by equal values."""

    def __init__(self, weight, *, sorts=False):
        super().__init__()
        self.sorts = sorts
        torch.manual_seed(0)
        self.features = torch.nn.Conv2d(3, 4, 8, 8)
        self.score = torch.nn.Conv2d(3, 1, 8, 8)
        self.score.weight.data *= weight

    def forward(self, pixel_values):
        features = self.features(pixel_values).flatten(2)
        scores, positions = self.score(pixel_values).flatten(1).topk(20, dim=1)
        best = features.gather(2, positions.unsqueeze(1).expand(-1, 4, -1))
        if self.sorts:
            order = (scores > 1e9).int().argsort(1, descending=True)
            best, scores = best.gather(2, order.unsqueeze(1).expand(-1, 4, -1)), scores.gather(1, order)
        return {"best": best, "scores": scores}


@pytest.mark.parametrize("sorts", [False, True])
@pytest.mark.parametrize("weight", [0.0, 1e-9, 1.0])
def test_positions_with_equal_scores_may_be_picked_in_any_order(weight, sorts, tmp_path):
    exported = onnxfn.export(SPEC, Picker(weight, sorts=sorts), tmp_path / "model.onnx")
    assert exported.report.passed
    picked = any("ONNX Runtime picks" in text for each in exported.report.differences for text in each.references)
    assert picked == (weight < 1)


@pytest.mark.parametrize(("weight", "sorts"), [(0.0, False), (1e-9, False), (1.0, False), (0.0, True), (1.0, True)])
@pytest.mark.parametrize("name", ["features.weight", "score.bias"])
def test_a_fault_is_found_whatever_the_scores_are(weight, sorts, name, tmp_path):
    model = Picker(weight, sorts=sorts)
    onnxfn.export(SPEC, model, tmp_path / "model.onnx")
    change_weights(tmp_path / "model.onnx", {name: lambda array: array + np.float32(1e-2)})
    report = onnxfn.validate(SPEC, model, tmp_path / "model.onnx")
    assert not all(difference.passed for difference in report.differences)


def test_the_outputs_of_the_run_that_picks_are_compared(tmp_path, monkeypatch):
    """ONNX Runtime may optimize a file with more outputs in another way, and pick other positions then."""
    model, file = Picker(0.0), tmp_path / "model.onnx"
    onnxfn.export(SPEC, model, file)
    scores = {"score.weight": lambda array: array + np.float32(1e-9) * noise(*array.shape)}

    def rounded_otherwise(written, names, inputs):
        shutil.copy(file, tmp_path / "otherwise.onnx")
        change_weights(tmp_path / "otherwise.onnx", scores)
        return computed_values(written_graph(tmp_path / "otherwise.onnx"), names, inputs)

    monkeypatch.setattr(case_comparisons, "computed_values", rounded_otherwise)
    report = onnxfn.validate(SPEC, model, file)
    assert report.passed
    assert any("ONNX Runtime picks" in text for each in report.differences for text in each.references)
    change_weights(file, {"features.bias": lambda array: array + np.float32(1e-2)})
    assert not onnxfn.validate(SPEC, model, file).passed


def test_worse_positions_are_a_fault(tmp_path):
    model = Picker(1.0)
    onnxfn.export(SPEC, model, tmp_path / "model.onnx")
    change_weights(tmp_path / "model.onnx", {"score.weight": lambda array: -array})
    report = onnxfn.validate(SPEC, model, tmp_path / "model.onnx")
    assert not any(difference.passed for difference in report.differences)
    assert not any("ONNX Runtime picks" in text for each in report.differences for text in each.references)


HIDDEN = float("-inf")
"""The score of a token that a mask hides."""


def choosing(*picks):
    """A context in which PyTorch picks these positions, if they are as good as its own."""
    return choosing_as_file([np.array(each) for each in picks], (), precision_of("float32"))


def test_a_worse_pick_is_found_where_other_scores_are_infinite():
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0], [1.0, HIDDEN, HIDDEN, HIDDEN]])
    with choosing([[3, 2], [0, 3]]):
        assert scores.topk(2).indices.tolist() == [[3, 2], [0, 3]]
    with pytest.raises(WorseChoice, match="other scores"), choosing([[0, 1], [0, 1]]):
        scores.topk(2)
    with pytest.raises(WorseChoice, match="other scores"), choosing([[3, 2], [1, 2]]):
        scores.topk(2)


def test_unsorted_picks_may_stand_in_another_order():
    scores = torch.tensor([[1.0, 5.0, 3.0]])
    for picks in ([[1, 2]], [[2, 1]]):
        with choosing(picks):
            assert scores.topk(2, sorted=False).indices.tolist() == picks


def test_pytorch_may_sort_integers_that_the_file_does_not_sort():
    """Tokens by the experts that they chose."""
    scores = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    with choosing([[2], [0]]):
        experts = scores.topk(1).indices
        assert experts.flatten().argsort().tolist() == [1, 0]
    assert experts.tolist() == [[2], [0]]


# Answers of comparisons: where a value equals a threshold but for rounding, PyTorch gives ONNX Runtime's

MASKED = image_spec(gives("masked", "batch_size 4 rows columns", path=("masked",)))
COMPARISONS = [
    lambda values, number: values > number,
    lambda values, number: values.ge(number),
    lambda values, number: torch.lt(values, number),  # noqa: PLW0108 - `torch.lt` is looked up at each call
    lambda values, number: values.less_equal(number),
]


class Masker(torch.nn.Module):
    """Features where a mask, 1 but for rounding plus `weight` times random values, is above 1."""

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


@pytest.mark.parametrize(("weight", "compare"), [*((0.0, compare) for compare in COMPARISONS), (1.0, COMPARISONS[0])])
def test_answers_that_differ_by_rounding_alone_are_those_of_the_file_and_others_pytorchs(weight, compare, tmp_path):
    report = onnxfn.export(MASKED, Masker(weight, compare), tmp_path / "model.onnx").report
    assert report.passed
    assert any(ANSWERED in text for each in report.differences for text in each.references) == (weight == 0.0)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("name", ["features.weight", "mask.bias"])
def test_a_fault_is_found_whatever_the_values_are(weight, name, tmp_path):
    model = Masker(weight)
    onnxfn.export(MASKED, model, tmp_path / "model.onnx")
    change_weights(tmp_path / "model.onnx", {name: lambda array: array + np.float32(1e-2)})
    assert not onnxfn.validate(MASKED, model, tmp_path / "model.onnx").passed


def test_another_threshold_is_a_fault(tmp_path):
    model, other = Masker(1.0), Masker(1.0, lambda values, number: values > number + 0.01)
    onnxfn.export(MASKED, other, tmp_path / "model.onnx")
    assert not onnxfn.validate(MASKED, model, tmp_path / "model.onnx").passed


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
