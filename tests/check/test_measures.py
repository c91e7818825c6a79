import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxfn.check.variants.measures import MEASURES, cosine_of, kl, output_measures
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.results.measurements import MEASURE_NAMES

SEEDS = st.integers(0, 2**32 - 1)


def outputs(seed):
    random = np.random.default_rng(seed)
    boxes = np.concatenate([random.uniform(0.2, 0.8, (2, 6, 2)), random.uniform(0.1, 0.3, (2, 6, 2))], -1)
    return {"logits": random.normal(size=(2, 6, 5)), "pred_boxes": boxes}


def values(name, output, actual, expected):
    return MEASURES[name].whole(MEASURES[name].values(output, actual, expected))


def test_each_measure_has_a_floor_that_a_caller_may_state():
    assert {*MEASURES} == {*MEASURE_NAMES}


@given(SEEDS)
def test_outputs_that_are_equal_have_the_best_values(seed):
    own = outputs(seed)
    tokens = {"logits": own["logits"]}
    best = {name: values(name, "logits", tokens, tokens) for name in ("agreement", "kl", "cosine")}
    assert best == pytest.approx({"agreement": 1.0, "kl": 0.0, "cosine": 1.0})
    assert values("iou", "pred_boxes", own, own) == pytest.approx(1.0)
    assert values("agreement", "logits", own, own) == 1.0


@given(SEEDS, st.floats(0.1, 10), st.floats(-5, 5))
def test_a_shift_of_the_logits_changes_no_distribution_and_a_factor_no_cosine(seed, factor, shift):
    logits = outputs(seed)["logits"]
    assert kl("x", {"x": logits + shift}, {"x": logits}) == pytest.approx(0.0, abs=1e-9)
    assert cosine_of(factor * logits, logits) == pytest.approx(1.0)


@given(seed=SEEDS, size=st.integers(0, 40), dtype=st.sampled_from([np.float16, np.float32, np.float64]))
def test_the_cosine_of_blocks_is_that_of_the_whole_vectors(seed, size, dtype):
    random = np.random.default_rng(seed)
    left, right = (random.standard_normal(size).astype(dtype) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnxfn.check.variants.measures.ELEMENTS_AT_ONCE", 7)
        in_blocks = cosine_of(left, right)
    left, right = left.astype(np.float64), right.astype(np.float64)
    norms = np.linalg.norm(left) * np.linalg.norm(right)
    assert in_blocks == pytest.approx(left @ right / norms if norms else 1.0)


@given(SEEDS, SEEDS)
def test_boxes_count_whatever_their_order_is(seed, order):
    own = outputs(seed)
    other = np.random.default_rng(order).permutation(6)
    shuffled = {name: array[:, other] for name, array in own.items()}
    assert values("iou", "pred_boxes", shuffled, own) == pytest.approx(1.0)
    assert values("agreement", "logits", shuffled, own) == 1.0


def test_the_kl_divergence_has_the_value_of_its_formula_and_excluded_tokens_do_not_count():
    actual, expected = np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]])
    divergence = kl("x", {"x": np.log(actual)}, {"x": np.log(expected)})
    assert divergence == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(0.5 / 0.75))
    excluded = np.array([[0.0, 1.0, -np.inf]])
    assert kl("x", {"x": excluded}, {"x": excluded}) == pytest.approx(0.0)


def test_a_box_that_is_moved_by_half_of_its_width_overlaps_by_a_third():
    own = {"pred_boxes": np.array([[[0.5, 0.5, 0.2, 0.2]]]), "logits": np.zeros((1, 1, 2))}
    moved = {**own, "pred_boxes": own["pred_boxes"] + [0.1, 0, 0, 0]}
    assert values("iou", "pred_boxes", moved, own) == pytest.approx(1 / 3)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_number_that_is_not_finite_reaches_no_floor(wrong):
    own = outputs(0)["logits"]
    broken = own.copy()
    broken[0, 0, 0] = wrong
    for name in ("kl", "cosine"):
        with np.errstate(invalid="ignore"):
            value = values(name, "logits", {"logits": broken}, {"logits": own})
        assert not MEASURES[name].passed(value, 0.5), name


@pytest.mark.parametrize(
    ("task", "output", "measures"),
    [
        ("text-generation-with-past", "logits", ("agreement", "kl")),
        ("automatic-speech-recognition", "logits", ("agreement", "kl")),
        ("image-classification", "logits", ("agreement", "cosine")),
        ("question-answering", "start_logits", ("agreement", "cosine")),
        ("object-detection", "pred_boxes", ("iou",)),
        ("feature-extraction", "last_hidden_state", ("cosine",)),
    ],
)
def test_the_kind_of_an_output_decides_its_measures(task, output, measures):
    assert output_measures(PlannedSpec(task=task), output) == measures
