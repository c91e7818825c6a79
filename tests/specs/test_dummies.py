import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from onnxfn import ExportSpec, InvalidSpec, NestedDummy, UnknownName
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import dummies, generates, known_sizes, sized
from onnxfn.specs.algebra.facts import takes
from onnxfn.specs.algebra.fills import FILLS, mask
from onnxfn.specs.edits.tensors import with_dtypes

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


def array_of(function, *axes, **arguments):
    spec = compose(takes("x", " ".join(map(str, axes)), "g", kind="float"), generates("g", function, **arguments))
    return dummies(spec, {})["x"]


def mask_of(seed, shape, padding):
    return mask(np.random.default_rng(seed), shape, padding=padding)


# The functions of generators


@given(seeds, st.integers(-9, 0), st.integers(1, 9))
def test_integers_are_all_from_low_to_one_less_than_high(seed, low, high):
    array = FILLS["integers"](np.random.default_rng(seed), (2000,), low=low, high=high)
    assert set(array.tolist()) == set(range(low, high))


@given(seeds, st.integers(0, 8))
def test_ids_with_end_have_the_end_at_the_end_alone(seed, end):
    array = FILLS["ids_with_end"](np.random.default_rng(seed), (50, 7), high=9, end=end)
    assert {*array[:, :-1].ravel().tolist()} == set(range(9)) - {end}
    assert set(array[:, -1].tolist()) == {end}


@given(seeds, st.floats(-9, 0), st.floats(1, 9))
def test_uniform_numbers_are_between_low_and_high(seed, low, high):
    array = FILLS["uniform"](np.random.default_rng(seed), (50,), low=low, high=high)
    assert low <= array.min() <= array.max() <= high


def test_normal_numbers_have_the_given_deviation():
    assert 1.8 < array_of("normal", 4000, deviation=2.0).std() < 2.2


@pytest.mark.parametrize(
    ("function", "shape", "arguments", "rows"),
    [
        ("constant", (2, 2), {"value": 7}, [[7, 7], [7, 7]]),
        ("positions", (2, 3), {}, [[0, 1, 2], [0, 1, 2]]),
        ("first_one", (2, 3), {}, [[1, 0, 0], [1, 0, 0]]),
        ("first_one", (2, 0), {}, [[], []]),
    ],
)
def test_a_function_without_chance_makes_these_rows(function, shape, arguments, rows):
    assert array_of(function, *shape, **arguments).tolist() == rows


@given(seeds)
def test_boxes_have_their_left_and_top_before_their_right_and_bottom(seed):
    array = FILLS["boxes"](np.random.default_rng(seed), (3, 5, 4), high=1000)
    assert array.shape == (3, 5, 4)
    assert (array[..., :2] <= array[..., 2:]).all()
    assert 0 <= array.min() <= array.max() < 1000


@given(seeds, st.integers(1, 7))
def test_ids_with_image_have_the_token_of_the_image_at_the_start_alone(seed, count):
    array = FILLS["ids_with_image"](np.random.default_rng(seed), (50, 9), high=9, image=4, count=count)
    assert set(array[:, :count].ravel().tolist()) == {4}
    assert {*array[:, count:].ravel().tolist()} == set(range(9)) - {4}


def test_a_sequence_that_is_too_short_for_its_image_is_an_error():
    message = refusal(InvalidSpec, array_of, "ids_with_image", 2, 4, high=9, image=4, count=5)
    assert "an image is 5 tokens long" in message


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_a_grid_has_as_many_cells_as_its_row_of_the_mask_has_ones(counts):
    masks = np.arange(60) < np.array(counts)[:, None]
    array = FILLS["grids"](np.random.default_rng(0), (len(counts), 2), mask=masks.astype(np.int64))
    assert array.prod(axis=-1).tolist() == counts


# The last axis of grids and of their positions has size 2, that of packed grids size 3.
# Positions in three directions are for a text of two axes; the docstring has an example.
OF_OTHER_SHAPES = ("grids", "packed_grids", "grid_positions", "mrope_positions")


@pytest.mark.parametrize("function", [name for name in FILLS if name not in OF_OTHER_SHAPES])
def test_every_function_makes_an_array_of_the_given_shape(function):
    arguments = {
        "integers": {"high": 9},
        "boxes": {"high": 9},
        "repeated": {"numbers": "7 8 9"},
        "size": {"of": NestedDummy("uniform", "7")},
        "scaled": {"low": 0.0, "high": 1.0},
        "ids_with_end": {"high": 9, "end": 3},
        "in_buffer": {"tokens": np.ones((2, 3, 2), np.int64)},
        "ids_with_image": {"high": 9, "image": 3, "count": 2},
        "special_ids": {"ids": np.ones((2, 3, 4)), "mask": np.ones((2, 3, 4))},
    }.get(function, {})
    assert array_of(function, 2, 3, 4, **arguments).shape == (2, 3, 4)


# Masks


@given(seeds, rows, lengths, st.sampled_from(("left", "right", "none")))
def test_row_0_has_no_padding(seed, count, length, padding):
    assert mask_of(seed, (count, length), padding)[0].tolist() == [1] * length


@given(seeds, rows, lengths, st.sampled_from((("left", 1), ("right", -1))))
def test_every_other_row_has_a_token_and_padding_on_its_side(seed, count, length, side):
    padding, step = side
    array = mask_of(seed, (count, length), padding)
    assert 1 <= array[1:].sum(axis=-1).min() <= array[1:].sum(axis=-1).max() < length
    assert (step * np.diff(array, axis=-1) >= 0).all()
    assert 1 <= mask_of(seed, (1, length), padding).sum() < length


@given(seeds, st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_a_mask_without_padding_is_ones(seed, shape):
    assert mask_of(seed, tuple(shape), "none").tolist() == np.ones(shape).tolist()


@given(seeds, st.integers(1, 3), rows, lengths, st.sampled_from(("left", "right")))
def test_a_mask_of_choices_is_padded_row_by_row(seed, batch, choices, length, padding):
    array = mask_of(seed, (batch, choices, length), padding)
    assert array[0, 0].tolist() == [1] * length
    assert array.sum(axis=-1).min() >= 1


@pytest.mark.parametrize("padding", ["left", "right", "none"])
@pytest.mark.parametrize("shape", [(3, 1), (3, 0), (0, 4), (1, 1)])
def test_a_mask_without_room_for_padding_is_ones(shape, padding):
    assert mask_of(0, shape, padding).tolist() == np.ones(shape).tolist()


@pytest.mark.parametrize("length", [0, 1, 8])
def test_an_unknown_padding_is_an_error_that_names_the_closest(length):
    message = "no padding 'rigth'; known: right, left, none; did you mean 'right'?"
    assert refusal(UnknownName, mask_of, 0, (2, length), "rigth") == message


# All dummies of a spec


def test_dummies_have_the_order_of_the_inputs_and_the_sizes_of_the_spec():
    shapes = {name: array.shape for name, array in dummies(SPEC, {}).items()}
    assert shapes == {"input_ids": (2, 16), "pixels": (2, 3, 4), "flags": (2,)}


def test_a_given_size_replaces_that_of_the_spec_and_may_be_zero():
    assert dummies(SPEC, {"batch_size": 5})["input_ids"].shape == (5, 16)
    assert dummies(SPEC, {"batch_size": 0})["pixels"].shape == (0, 3, 4)
    unused = compose(SPEC, sized(num_choices=4))
    assert known_sizes(unused, {"batch_size": 5}) == {"batch_size": 5, "sequence_length": 16, "size": 4}


@pytest.mark.parametrize(
    ("chosen", "dtypes"),
    [
        ({}, ["int64", "float32", "bool"]),
        ({"int": "int32", "float": "float16"}, ["int32", "float16", "bool"]),
        ({"float": "bfloat16"}, ["int64", "float32", "bool"]),
    ],
    ids=str,
)
def test_dummies_have_the_dtypes_of_the_spec_and_float32_for_bfloat16(chosen, dtypes):
    assert [array.dtype for array in dummies(with_dtypes(SPEC, **chosen), {}).values()] == dtypes


@pytest.mark.parametrize(
    ("error", "more", "sizes", "words"),
    [
        (UnknownName, takes("mask", "batch_size", "pixel"), {}, "no generator 'pixel' for input 'mask' of bert; known"),
        (UnknownName, takes("mask", "batch_size", "pixel"), {}, "'pixels'?; or add one: generates('pixel'"),
        (UnknownName, ExportSpec(), {"seq_length": 8}, "did you mean 'sequence_length'?"),
        (InvalidSpec, ExportSpec(), {"batch_size": -1}, "size 'batch_size' is -1; a size is 0 or more"),
        (UnknownName, takes("mask", "num_choices", "ids"), {}, "input 'mask' of bert: no size for 'num_choices'"),
        (UnknownName, takes("mask", "num_choices", "ids"), {}, "give a size to trace with: sized(num_choices=2)"),
        (UnknownName, generates("ids", "integer", high=9), {}, "did you mean 'integers'?"),
        (UnknownName, generates("ids", "no_such_package:f"), {}, "module 'no_such_package' cannot be imported: "),
    ],
)
def test_dummies_that_cannot_be_made_are_refused(error, more, sizes, words):
    assert words in refusal(error, dummies, compose(SPEC, more), sizes)


def test_a_generator_may_name_a_function_of_another_package():
    spec = compose(takes("x", "3", "g"), generates("g", "onnxfn.specs.algebra.fills:positions"))
    assert dummies(spec, {})["x"].tolist() == [0, 1, 2]


def failing(random, shape, *, error):
    raise {"TypeError": TypeError, "ValueError": ValueError}[error]("three rows expected")


@pytest.mark.parametrize("error", ["TypeError", "ValueError"])
def test_an_error_in_the_function_of_a_user_is_the_cause_of_the_error(error, monkeypatch):
    monkeypatch.setitem(sys.modules, "users_package", SimpleNamespace(failing=failing))
    spec = compose(takes("x", "3", "g"), generates("g", "users_package:failing", error=error))
    with pytest.raises(InvalidSpec) as caught:
        dummies(spec, {})
    assert str(caught.value) == (
        f"users_package:failing(error={error}) cannot make a dummy for 'x' with the shape [3]: three rows expected"
    )
    assert type(caught.value.__cause__).__name__ == error
    assert caught.value.__cause__.__traceback__ is not None


def test_a_text_in_place_of_a_number_is_answered_with_the_way_to_read_the_configuration():
    spec = compose(takes("x", "3", "ids"), generates("ids", "integers", high="vocab"))
    assert "high=from_config('vocab')" in refusal(InvalidSpec, dummies, spec, {})


def test_an_error_of_a_nested_dummy_names_the_generator_that_failed():
    spec = compose(
        takes("x", "3", "positions"),
        generates("positions", "positions", mask=NestedDummy("padding_mask", "5")),
        generates("padding_mask", "integers", low=9, high=1),
    )
    message = "integers(high=1, low=9) cannot make a dummy for 'x' with the shape [5]: "
    assert refusal(InvalidSpec, dummies, spec, {}).startswith(message)
