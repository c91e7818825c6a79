"""Dummy tensors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import FILLS, dummies, generates, known_sizes, mask, sized
from onnxfn.specs.edits.tensors import with_dtypes
from onnxfn.specs.errors import InvalidSpec, UnknownName
from onnxfn.specs.facts import takes
from onnxfn.specs.spec import ExportSpec

SPEC = compose(
    ExportSpec(name="bert"),
    takes("input_ids", "batch_size sequence_length", "ids"),
    takes("pixels", "batch_size 3 size", "pixels", kind="float"),
    takes("flags", "batch_size", "flags", kind="bool"),
    generates("ids", "integers", low=5, high=9),
    generates("pixels", "normal"),
    generates("flags", "constant", value=1),
    sized(batch_size=2, sequence_length=16, size=4),
)

seeds = st.integers(0, 1 << 32)
lengths = st.integers(2, 12)
rows = st.integers(2, 6)


def filled(function, *axes, **arguments):
    """What one function fills a tensor with."""
    spec = compose(takes("x", " ".join(map(str, axes)), "g", kind="float"), generates("g", function, **arguments))
    return dummies(spec, {})["x"]


def mask_of(seed, shape, padding):
    return mask(np.random.default_rng(seed), shape, padding=padding)


# What fills


@given(seeds, st.integers(-9, 0), st.integers(1, 9))
def test_integers_lie_from_low_up_to_but_not_including_high(seed, low, high):
    made = FILLS["integers"](np.random.default_rng(seed), (50,), low=low, high=high)
    assert set(made.tolist()) <= set(range(low, high))


@given(seeds, st.integers(0, 8))
def test_an_ended_text_ends_once(seed, end):
    made = FILLS["ids_with_end"](np.random.default_rng(seed), (50, 7), high=9, end=end)
    assert {*made[:, :-1].ravel().tolist()} == set(range(9)) - {end}
    assert set(made[:, -1].tolist()) == {end}


def test_integers_reach_both_ends():
    assert set(filled("integers", 200, low=1, high=4).tolist()) == {1, 2, 3}


@given(seeds, st.floats(-9, 0), st.floats(1, 9))
def test_uniform_numbers_lie_between_low_and_high(seed, low, high):
    made = FILLS["uniform"](np.random.default_rng(seed), (50,), low=low, high=high)
    assert low <= made.min() <= made.max() <= high


def test_normal_numbers_spread_as_asked():
    assert 1.8 < filled("normal", 4000, deviation=2.0).std() < 2.2


def test_filled_is_one_value_everywhere():
    assert filled("constant", 2, 2, value=7).tolist() == [[7, 7], [7, 7]]


def test_positions_count_along_the_last_axis():
    assert filled("positions", 2, 3).tolist() == [[0, 1, 2], [0, 1, 2]]


def test_first_is_one_at_the_start_of_each_row():
    assert filled("first_one", 2, 3).tolist() == [[1, 0, 0], [1, 0, 0]]
    assert filled("first_one", 2, 0).shape == (2, 0)


@given(seeds)
def test_boxes_have_their_left_and_top_before_their_right_and_bottom(seed):
    made = FILLS["boxes"](np.random.default_rng(seed), (3, 5, 4), high=1000)
    assert made.shape == (3, 5, 4)
    assert (made[..., :2] <= made[..., 2:]).all()
    assert 0 <= made.min() <= made.max() < 1000


@given(seeds, st.integers(1, 7))
def test_an_illustrated_text_begins_with_the_mark_of_its_image_and_has_it_nowhere_else(seed, count):
    made = FILLS["ids_with_image"](np.random.default_rng(seed), (50, 9), high=9, image=4, count=count)
    assert set(made[:, :count].ravel().tolist()) == {4}
    assert {*made[:, count:].ravel().tolist()} == set(range(9)) - {4}


def test_a_text_too_short_for_its_image_is_refused():
    assert "an image stands for 5 tokens" in refusal(
        InvalidSpec, filled, "ids_with_image", 2, 4, high=9, image=4, count=5
    )


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_a_grid_has_as_many_places_as_its_row_of_the_mask_keeps(kept):
    masks = np.arange(60) < np.array(kept)[:, None]
    made = FILLS["grids"](np.random.default_rng(0), (len(kept), 2), mask=masks.astype(np.int64))
    assert made.prod(axis=-1).tolist() == kept


@pytest.mark.parametrize("function", [one for one in FILLS if one != "grids"])  # which are of size 2
def test_every_function_fills_the_shape_it_is_asked_for(function):
    arguments = {
        "integers": {"high": 9},
        "boxes": {"high": 9},
        "whole_floats": {"high": 9},
        "ids_with_end": {"high": 9, "end": 3},
        "ids_with_image": {"high": 9, "image": 3, "count": 2},
    }.get(function, {})
    assert filled(function, 2, 3, 4, **arguments).shape == (2, 3, 4)


# Masks


@given(seeds, rows, lengths, st.sampled_from(("left", "right", "none")))
def test_row_0_has_no_padding(seed, count, length, padding):
    assert mask_of(seed, (count, length), padding)[0].tolist() == [1] * length


@given(seeds, rows, lengths, st.sampled_from(("left", "right")))
def test_every_other_row_has_a_token_and_padding(seed, count, length, padding):
    tokens = mask_of(seed, (count, length), padding)[1:].sum(axis=-1)
    assert 1 <= tokens.min() <= tokens.max() < length


@given(seeds, rows, lengths)
def test_padding_at_the_right_stands_after_the_tokens(seed, count, length):
    made = mask_of(seed, (count, length), "right")
    assert (np.diff(made, axis=-1) <= 0).all()


@given(seeds, rows, lengths)
def test_padding_at_the_left_stands_before_the_tokens(seed, count, length):
    made = mask_of(seed, (count, length), "left")
    assert (np.diff(made, axis=-1) >= 0).all()


@given(seeds, st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_no_padding_is_ones(seed, shape):
    assert mask_of(seed, tuple(shape), "none").tolist() == np.ones(shape).tolist()


@given(seeds, lengths, st.sampled_from(("left", "right")))
def test_a_single_row_is_padded_as_a_mask_of_ones_would_show_nothing(seed, length, padding):
    assert 1 <= mask_of(seed, (1, length), padding).sum() < length


@given(seeds, st.integers(1, 3), rows, lengths, st.sampled_from(("left", "right")))
def test_a_mask_of_choices_is_padded_row_by_row(seed, batch, choices, length, padding):
    made = mask_of(seed, (batch, choices, length), padding)
    assert made[0, 0].tolist() == [1] * length
    assert made.sum(axis=-1).min() >= 1


@pytest.mark.parametrize("padding", ["left", "right", "none"])
@pytest.mark.parametrize("shape", [(3, 1), (3, 0), (0, 4), (1, 1)])
def test_a_mask_without_room_for_padding_is_ones(shape, padding):
    assert mask_of(0, shape, padding).tolist() == np.ones(shape).tolist()


@pytest.mark.parametrize("length", [0, 1, 8])
def test_an_unknown_padding_is_refused_with_the_closest(length):
    assert refusal(UnknownName, mask_of, 0, (2, length), "rigth") == (
        "no padding 'rigth'; known: right, left, none; did you mean 'right'?"
    )


# All dummies of a spec


def test_dummies_stand_in_the_order_of_the_inputs_with_the_sizes_of_the_spec():
    assert {name: made.shape for name, made in dummies(SPEC, {}).items()} == {
        "input_ids": (2, 16),
        "pixels": (2, 3, 4),
        "flags": (2,),
    }


def test_a_given_size_wins_over_the_specs_own():
    assert dummies(SPEC, {"batch_size": 5})["input_ids"].shape == (5, 16)
    assert known_sizes(SPEC, {"batch_size": 5}) == {"batch_size": 5, "sequence_length": 16, "size": 4}


def test_sizes_that_no_input_has_are_left_out():
    assert "num_choices" not in known_sizes(compose(SPEC, sized(num_choices=4)), {})


def test_a_size_may_be_zero():
    assert dummies(SPEC, {"batch_size": 0})["pixels"].shape == (0, 3, 4)


@pytest.mark.parametrize(
    ("chosen", "dtypes"),
    [
        ({}, ["int64", "float32", "bool"]),
        ({"int": "int32", "float": "float16"}, ["int32", "float16", "bool"]),
        ({"float": "bfloat16"}, ["int64", "float32", "bool"]),
    ],
    ids=str,
)
def test_dummies_have_the_types_of_the_spec_and_numpy_knows_no_bfloat16(chosen, dtypes):
    assert [made.dtype for made in dummies(with_dtypes(SPEC, **chosen), {}).values()] == dtypes


def test_an_input_without_a_generator_is_refused_with_the_closest():
    spec = compose(SPEC, takes("mask", "batch_size", "pixel"))
    assert refusal(UnknownName, dummies, spec, {}) == (
        "no generator 'pixel' for input 'mask' of bert; known: ids, pixels, flags; did you mean 'pixels'?"
    )


def test_an_unknown_size_is_refused_with_the_closest():
    assert refusal(UnknownName, dummies, SPEC, {"seq_length": 8}) == (
        "no size 'seq_length' for bert; known: batch_size, sequence_length, size; did you mean 'sequence_length'?"
    )


def test_a_negative_size_is_refused():
    assert refusal(InvalidSpec, dummies, SPEC, {"batch_size": -1}) == "size 'batch_size' is -1; a size is 0 or more"


def test_a_size_that_nobody_says_is_refused_with_the_input():
    spec = compose(SPEC, takes("mask", "batch_size num_choices", "ids"))
    assert refusal(UnknownName, dummies, spec, {}) == (
        "input 'mask' of bert: no size for 'num_choices' in axis 'num_choices'; "
        "known: batch_size, sequence_length, size"
    )


def test_an_unknown_function_is_refused_with_the_closest():
    spec = compose(SPEC, generates("ids", "integer", high=9))
    assert refusal(UnknownName, dummies, spec, {}) == (
        f"no dummy function 'integer'; known: {', '.join(FILLS)}; did you mean 'integers'?; "
        "any other function is written 'package.module:function'"
    )


def test_a_function_of_another_package_fills_too():
    spec = compose(takes("x", "3", "g"), generates("g", "onnxfn.specs.dummies:positions"))
    assert dummies(spec, {})["x"].tolist() == [0, 1, 2]
