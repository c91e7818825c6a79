"""A tensor's axes, said once."""

from operator import add, floordiv, mul, sub

import pytest
import strategies as some
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from onnxfn.specs.axes import (
    Axis,
    AxisMap,
    axis,
    axis_map,
    inserted,
    names,
    pattern,
    resolve_configured,
    shape,
    solve_for_name,
    substitute,
    symbols,
    terms,
    value,
)
from onnxfn.specs.errors import InvalidSpec, UnknownName

FORMS = {
    "batch_size": Axis("batch_size", "dynamic"),
    "past_sequence_length+sequence_length": Axis("past_sequence_length + sequence_length", "dynamic"),
    "2*(a-b)//c": Axis("2 * ( a - b ) // c", "dynamic"),
    "head_dim=": Axis("head_dim", "configured"),
    "4": Axis("4", "literal"),
    "_": Axis("_", "unsaid"),
}

NOT_AXES = {
    "class": "axis 'class' is not a name, a number, '_', 'name=' or a sum of names",
    "a+": "axis 'a+' is not a name, a number, '_', 'name=' or a sum of names",
    "=": "axis '=' is fixed by the configuration, so one name stands before the '='",
    "4=": "axis '4=' is fixed by the configuration, so one name stands before the '='",
    "a+b=": "axis 'a+b=' is fixed by the configuration, so one name stands before the '='",
    "2+2": "axis '2+2' moves, so it has a name; write a fixed size as one number",
    "a/b": "axis 'a/b' has an operator other than + - * //",
    "a**2": "axis 'a**2' has an operator other than + - * //",
    "a+1.5": "axis 'a+1.5' is not made of names and whole numbers",
    "a+True": "axis 'a+True' is not made of names and whole numbers",
    "max(a,b)": "axis 'max(a,b)' is not made of names and whole numbers",
    "text_config.heads=": "axis 'text_config.heads=' is fixed by the configuration, so one name stands before the '='",
    "-a": "axis '-a' is not made of names and whole numbers",
    "a#b": "axis 'a#b' is not made of names and whole numbers",
}

KV = axis_map("batch_size num_heads= past_sequence_length+sequence_length 64 _")


@pytest.mark.parametrize(("word", "said"), FORMS.items())
def test_a_word_is_one_of_five_forms(word, said):
    assert axis(word) == said


@pytest.mark.parametrize(("word", "text"), NOT_AXES.items())
def test_a_word_that_is_no_axis_is_refused(word, text):
    assert refusal(InvalidSpec, axis_map, f"batch_size {word}") == text


def test_spaces_between_words_do_not_count():
    assert axis_map("  batch_size \n sequence_length ") == axis_map("batch_size sequence_length")


def test_an_empty_pattern_is_a_number_without_axes():
    assert axis_map("") == AxisMap(())
    assert shape(axis_map(""), {}) == ()


@given(some.axis_maps)
def test_axes_are_given_back_as_they_are(axes):
    assert axis_map(axes) is axes


def test_axes_print_as_a_list():
    assert str(KV) == "[batch_size, num_heads, past_sequence_length + sequence_length, 64, _]"


def test_symbols_are_those_of_the_axes_that_move():
    assert symbols(KV) == {0: "batch_size", 2: "past_sequence_length + sequence_length"}


def test_names_are_those_of_the_axes_that_move_each_once():
    assert names(axis_map("b s+b heads= s")) == ("b", "s")


def test_terms_stand_in_the_order_of_the_text():
    assert terms("2 * (z - b) + a + z") == ("z", "b", "a")


@given(some.axis_maps)
def test_names_are_the_terms_of_the_symbols(axes):
    told = [term for symbol in symbols(axes).values() for term in terms(symbol)]
    assert list(names(axes)) == list(dict.fromkeys(told))


def test_a_shape_has_the_sizes_of_the_names():
    sizes = {"batch_size": 2, "num_heads": 12, "past_sequence_length": 5, "sequence_length": 1}
    assert shape(AxisMap(KV.axes[:4]), sizes) == (2, 12, 6, 64)


def test_a_shape_without_a_size_is_refused_with_the_closest():
    assert refusal(UnknownName, shape, axis_map("batch seq_length"), {"batch": 2, "sequence_length": 3}) == (
        "no size for 'seq_length' in axis 'seq_length'; known: batch, sequence_length; did you mean 'sequence_length'?"
    )


def test_an_unsaid_axis_has_no_size():
    assert refusal(InvalidSpec, shape, axis_map("_"), {}) == (
        "an axis marked '_' has no size of its own; only outputs may have one"
    )


@given(
    some.spelt_symbols(("+", "-", "*")),
    some.spelt_symbols(("+", "-", "*")),
    st.fixed_dictionaries({name: st.integers(0, 99) for name in some.AXES}),
    st.sampled_from([("+", add), ("-", sub), ("*", mul)]),
)
def test_the_value_of_two_symbols_joined_is_their_values_joined(left, right, sizes, joined_by):
    written, join = joined_by
    joined = f"({left[1]}) {written} ({right[1]})"
    assert value(joined, sizes) == join(value(left[1], sizes), value(right[1], sizes))


@given(st.integers(0, 99), st.integers(1, 99))
def test_a_quotient_is_whole(over, under):
    assert value("over // under", {"over": over, "under": under}) == floordiv(over, under)


@pytest.mark.parametrize(
    ("symbol", "size"), {"a + b * 2": 8, "(a + b) * 2": 10, "7 - a - b": 2, "9 // b // a": 1}.items()
)
def test_operators_bind_as_in_python(symbol, size):
    assert value(symbol, {"a": 2, "b": 3}) == size


def test_a_symbol_that_no_pattern_says_has_no_value():
    assert refusal(InvalidSpec, value, "a.b", {"a": 1}) == "axis 'a.b' is not made of names and whole numbers"


def test_settling_puts_numbers_for_what_the_configuration_fixes_and_for_nothing_else():
    assert pattern(resolve_configured(KV, {"num_heads": 12}.__getitem__)) == (
        "batch_size 12 past_sequence_length+sequence_length 64 _"
    )


@given(some.axis_maps)
def test_settling_twice_is_settling_once(axes):
    once = resolve_configured(axes, lambda _: 7)
    assert resolve_configured(once, lambda _: 8) == once


@given(some.axis_maps, st.integers(0, 4))
def test_an_inserted_axis_stands_where_it_was_put_and_moves_no_other(axes, at):
    made = inserted(axes, at, "num_choices").axes
    place = min(at, len(axes.axes))
    assert made[place] == Axis("num_choices", "dynamic")
    assert made[:place] + made[place + 1 :] == axes.axes


@pytest.mark.parametrize(
    ("said", "told", "made"),
    [
        ("frames _", {"frames": "(samples-10)//5+1"}, "(samples-10)//5+1 _"),
        ("frames*2", {"frames": "samples//5+1"}, "(samples//5+1)*2"),
        ("frames//stride", {"stride": 4, "frames": "a+b"}, "(a+b)//4"),
        ("frames", {"frames": 4}, "frames"),
        ("frames=", {"frames": "samples//5"}, "frames="),
    ],
)
def test_a_name_that_is_told_as_a_formula_is_that_formula(said, told, made):
    assert pattern(substitute(axis_map(said), told)) == made


@given(st.integers(1, 500), st.integers(0, 500))
def test_a_size_tells_how_often_an_axis_is_there(times, size):
    for symbol in (f"{times} * frames", f"frames * {times}"):
        assert solve_for_name(symbol, times * size) == {"frames": size}


@pytest.mark.parametrize("symbol", ["past + now", "( frames + 1 ) // 2", "frames // 2", "frames + 1", "8 // frames"])
def test_a_size_tells_nothing_of_what_an_axis_is_made_of_otherwise(symbol):
    assert solve_for_name(symbol, 12) == {}
