"""Large images are checked in small batches, and rows of other inputs still fit the batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnxfn
from onnxfn import compose, gives, takes
from onnxfn.specs.algebra.dummies import known_sizes, sized
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.algebra.planned import Case
from onnxfn.specs.plan.check_cases import (
    AFFORDABLE_BATCH,
    LARGE_INPUTS,
    cases,
    in_affordable_batches,
    in_case,
    with_affordable_batch,
)

SIDE = 1024


def planned(side, batch, texts):
    """A plan for images of this side and texts, with one case of this batch and these texts."""
    spec = compose(
        takes("pixel_values", f"batch_size 3 {side} {side}", "dummies.normal", kind="float"),
        takes("input_ids", "text_batch_size 5", "position_ids"),
        gives("scores", "batch_size text_batch_size"),
        case("several", sized(batch_size=batch, text_batch_size=texts)),
    )
    return onnxfn.plan(spec, {}).parts[0].spec


def checked_sizes(spec):
    """The sizes in which the only case of a plan is checked."""
    (only,) = cases(spec)
    return known_sizes(in_case(spec, with_affordable_batch(spec, only)), {})


@given(st.integers(1, 6), st.integers(1, 4))
def test_texts_for_each_large_image_stay_texts_for_each_image(batch, each):
    sizes = checked_sizes(planned(SIDE, batch, batch * each))
    assert sizes["text_batch_size"] == batch * each
    assert sizes["text_batch_size"] % sizes["batch_size"] == 0
    assert sizes["batch_size"] <= (AFFORDABLE_BATCH if 3 * SIDE**2 * batch > LARGE_INPUTS else batch)


@pytest.mark.parametrize(("side", "batch", "texts"), [(64, 3, 6), (SIDE, 3, 4)])
def test_small_images_and_other_rows_keep_their_batch(side, batch, texts):
    assert checked_sizes(planned(side, batch, texts))["batch_size"] == batch


def test_one_text_for_all_large_images_fits_any_batch():
    assert checked_sizes(planned(SIDE, 3, 1)) == {"batch_size": AFFORDABLE_BATCH, "text_batch_size": 1}


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=5), st.sampled_from([64, SIDE]))
def test_of_several_cases_of_large_images_those_with_most_texts_have_several(sizes, side):
    spec = planned(side, 1, 1)
    every_case = [Case("case", sized(batch_size=batch, text_batch_size=texts).dummies) for batch, texts in sizes]
    before = [known_sizes(in_case(spec, with_affordable_batch(spec, each)), {}) for each in every_case]
    after = [known_sizes(in_case(spec, each), {}) for each in in_affordable_batches(spec, every_case)]
    assert [each["text_batch_size"] for each in after] == [texts for _, texts in sizes]
    if side != SIDE:
        assert after == before
        return
    most = max((each["text_batch_size"] for each in before if each["batch_size"] > 1), default=0)
    for old, new in zip(before, after, strict=True):
        assert new["batch_size"] == (old["batch_size"] if old["text_batch_size"] == most else 1)
