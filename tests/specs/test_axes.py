from operator import add, floordiv, mul, sub

import pytest
import strategies as some
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from onnxfn.specs import axes as its
from onnxfn.specs.errors import InvalidSpec, UnknownName

FORMS = {
    "batch_size": its.Axis("batch_size", "dynamic"),
    "past_sequence_length+sequence_length": its.Axis("past_sequence_length + sequence_length", "dynamic"),
    "2*(a-b)//c": its.Axis("2 * ( a - b ) // c", "dynamic"),
    "head_dim=": its.Axis("head_dim", "configured"),
    "4": its.Axis("4", "literal"),
    "_": its.Axis("_", "unspecified"),
}

INVALID_WORDS = {
    "class": "axis 'class' is not a name, a number, '_', 'name=' or a formula of names",
    "a+": "axis 'a+' is not a name, a number, '_', 'name=' or a formula of names",
    "=": "axis '=' is fixed by the configuration: write one name before '='",
    "4=": "axis '4=' is fixed by the configuration: write one name before '='",
    "a+b=": "axis 'a+b=' is fixed by the configuration: write one name before '='",
    "2+2": "axis '2+2' is a formula without a name; write a fixed size as one number",
    "a/b": "axis 'a/b' has an operator other than + - * //",
    "a**2": "axis 'a**2' has an operator other than + - * //",
    "a+1.5": "axis 'a+1.5' is not made of names and whole numbers",
    "a+True": "axis 'a+True' is not made of names and whole numbers",
    "max(a,b)": "axis 'max(a,b)' is not made of names and whole numbers",
    "text_config.heads=": "axis 'text_config.heads=' is fixed by the configuration: write one name before '='",
    "-a": "axis '-a' is not made of names and whole numbers",
    "a#b": "axis 'a#b' is not made of names and whole numbers",
}

KV = its.axis_map("batch_size num_heads= past_sequence_length+sequence_length 64 _")


@pytest.mark.parametrize(("word", "expected"), FORMS.items())
def test_a_word_has_one_of_five_forms(word, expected):
    assert its.axis(word) == expected


@pytest.mark.parametrize(("word", "message"), INVALID_WORDS.items())
def test_a_word_of_another_form_is_an_error(word, message):
    assert refusal(InvalidSpec, its.axis_map, f"batch_size {word}") == message


def test_the_number_of_spaces_between_words_does_not_matter():
    assert its.axis_map("  batch_size \n sequence_length ") == its.axis_map("batch_size sequence_length")


def test_an_empty_pattern_describes_a_scalar():
    assert its.axis_map("") == its.AxisMap(())
    assert its.shape(its.axis_map(""), {}) == ()


def test_axes_print_as_a_list():
    assert str(KV) == "[batch_size, num_heads=, past_sequence_length + sequence_length, 64, _]"


def test_terms_have_the_order_of_the_text():
    assert its.terms("2 * (z - b) + a + z") == ("z", "b", "a")


@given(some.axis_maps)
def test_names_are_the_terms_of_the_symbols(axes):
    expected = [term for symbol in its.symbols(axes).values() for term in its.terms(symbol)]
    assert list(its.names(axes)) == list(dict.fromkeys(expected))


def test_a_shape_has_the_sizes_of_the_names():
    sizes = {"batch_size": 2, "num_heads": 12, "past_sequence_length": 5, "sequence_length": 1}
    assert its.shape(its.AxisMap(KV.axes[:4]), sizes) == (2, 12, 6, 64)


@pytest.mark.parametrize(
    ("error", "word", "sizes", "message"),
    [
        (
            *(UnknownName, "seq_length", {"sequence_length": 3}),
            "no size for 'seq_length' in axis 'seq_length'; known: sequence_length; did you mean 'sequence_length'?",
        ),
        (InvalidSpec, "_", {}, "the size of an axis '_' is unknown, so only outputs may have such an axis"),
        (
            *(InvalidSpec, "frames//stride", {"frames": 8, "stride": 0}),
            "axis 'frames // stride' divides by 0 for these sizes: {'frames': 8, 'stride': 0}",
        ),
    ],
)
def test_an_axis_without_a_size_is_an_error(error, word, sizes, message):
    assert refusal(error, its.shape, its.axis_map(word), sizes) == message


def test_a_symbol_that_no_pattern_can_describe_has_no_value():
    assert refusal(InvalidSpec, its.value, "a.b", {"a": 1}) == "axis 'a.b' is not made of names and whole numbers"


@given(
    some.spelt_symbols(("+", "-", "*")),
    some.spelt_symbols(("+", "-", "*")),
    st.fixed_dictionaries({name: st.integers(0, 99) for name in some.AXES}),
    st.sampled_from([("+", add), ("-", sub), ("*", mul)]),
)
def test_the_value_of_a_sum_is_the_sum_of_the_values_and_so_for_differences_and_products(left, right, sizes, operator):
    sign, operation = operator
    formula = f"({left[1]}) {sign} ({right[1]})"
    assert its.value(formula, sizes) == operation(its.value(left[1], sizes), its.value(right[1], sizes))


@given(st.integers(0, 99), st.integers(1, 99))
def test_a_quotient_is_rounded_down(dividend, divisor):
    assert its.value("a // b", {"a": dividend, "b": divisor}) == floordiv(dividend, divisor)


@pytest.mark.parametrize(
    ("symbol", "size"), {"a + b * 2": 8, "(a + b) * 2": 10, "7 - a - b": 2, "9 // b // a": 1}.items()
)
def test_operators_bind_as_in_python(symbol, size):
    assert its.value(symbol, {"a": 2, "b": 3}) == size


def test_resolve_configured_replaces_the_configured_axes_alone():
    resolved = its.resolve_configured(KV, {"num_heads": 12}.__getitem__)
    assert its.pattern(resolved) == "batch_size 12 past_sequence_length+sequence_length 64 _"


@given(some.axis_maps)
def test_resolve_configured_leaves_nothing_to_resolve(axes):
    resolved = its.resolve_configured(axes, lambda _: 7)
    assert its.resolve_configured(resolved, lambda _: 8) == resolved


@given(some.axis_maps, st.integers(0, 4))
def test_inserted_changes_no_other_axis(axes, at):
    longer = its.inserted(axes, at, "num_choices").axes
    index = min(at, len(axes.axes))
    assert longer[index] == its.Axis("num_choices", "dynamic")
    assert longer[:index] + longer[index + 1 :] == axes.axes


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("frames _", {"frames": "(samples-10)//5+1"}, "(samples-10)//5+1 _"),
        ("frames*2", {"frames": "samples//5+1"}, "(samples//5+1)*2"),
        ("frames//stride", {"stride": 4, "frames": "a+b"}, "(a+b)//4"),
        ("frames", {"frames": 4}, "frames"),
        ("frames=", {"frames": "samples//5"}, "frames="),
    ],
)
def test_substitute_replaces_names_by_formulas_and_numbers(before, values, after):
    assert its.pattern(its.substitute(its.axis_map(before), values)) == after


@given(st.integers(1, 500), st.integers(0, 500))
def test_a_linear_symbol_is_solved_for_its_name(times, size):
    for symbol in (f"{times} * frames", f"frames * {times}"):
        assert its.solve_for_name(symbol, times * size) == {"frames": size}


@pytest.mark.parametrize("symbol", ["past + now", "( frames + 1 ) // 2", "frames // 2", "frames + 1", "8 // frames"])
def test_a_symbol_that_is_not_linear_is_not_solved(symbol):
    assert its.solve_for_name(symbol, 12) == {}
