"""Axes that no longer move: planned as numbers, checked at these, and nothing else changes."""

import onnx
import pytest
import strategies as some
import tiny
from agreement import assert_agreement
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

import onnxfn
from onnxfn.check.cases.references import case_inputs
from onnxfn.specs.axes import axis_map, fix_sizes, names, pattern, shape
from onnxfn.specs.axis_symbols import fixed_sizes, graph_axes
from onnxfn.specs.plan.check_cases import in_case

BERT = onnxfn.for_task(onnxfn.spec_for("bert"), "text-classification")
LLAMA = onnxfn.for_task(onnxfn.spec_for("llama"), "text-generation-with-past")
T5 = onnxfn.for_task(onnxfn.spec_for("t5"), "text2text-generation-with-past")
SIZES = {"vocab_size": 99, "type_vocab_size": 2}
LENGTHS = {"encoder_sequence_length": 10, "decoder_sequence_length": 1, "past_decoder_sequence_length": 7}

some_sizes = st.dictionaries(st.sampled_from(some.AXES), st.integers(1, 9), max_size=3)


def moving(part):
    return {symbol for axes in (*part.inputs.values(), *part.outputs.values()) for symbol in axes.values()}


# Laws


@given(some.specs, some_sizes)
def test_fixing_twice_is_fixing_once_and_fixing_nothing_changes_nothing(spec, sizes):
    once = onnxfn.with_shapes(spec, **sizes)
    assert onnxfn.with_shapes(once, **sizes) == once
    assert onnxfn.with_shapes(spec) == spec


@given(some.specs, some_sizes, some_sizes)
def test_the_last_size_wins(spec, first, then):
    assert fixed_sizes(onnxfn.with_shapes(onnxfn.with_shapes(spec, **first), **then)).items() >= (first | then).items()


@given(st.lists(some.moving_axes, max_size=3), some_sizes, st.dictionaries(st.sampled_from(some.AXES), st.just(3)))
def test_fixed_axes_have_the_given_sizes(said, sizes, others):
    """Whatever is fixed first, the shape is the same; what is fixed whole has no name."""
    axes = axis_map(" ".join(word for word, _ in said if "//" not in word))
    every = dict.fromkeys(some.AXES, 2) | others | sizes
    assert shape(fix_sizes(axes, sizes), every) == shape(axes, every)
    assert names(fix_sizes(axes, every)) == ()
    assert set(names(fix_sizes(axes, sizes))) == set(names(axes)) - sizes.keys()


@pytest.mark.parametrize(
    ("spec", "config", "sizes"),
    [
        (BERT, SIZES, {"sequence_length": 8}),
        (onnxfn.for_task(onnxfn.spec_for("bert"), "multiple-choice"), SIZES, {"sequence_length": 8, "num_choices": 3}),
        (LLAMA, tiny.config("llama"), {"sequence_length": 4, "past_sequence_length": 6}),
        (T5, tiny.config("t5"), LENGTHS),
    ],
)
def test_a_plan_whose_axes_are_all_fixed_has_no_symbol(spec, config, sizes):
    for part in onnxfn.plan(onnxfn.with_shapes(spec, batch_size=2, **sizes), config).parts:
        assert moving(part) == set()


# Plans


def test_other_axes_stay_dynamic():
    (part,) = onnxfn.plan(onnxfn.with_shapes(LLAMA, sequence_length=1), tiny.config("llama")).parts
    assert moving(part) == {"batch_size", "past_sequence_length", "past_sequence_length + 1"}


def test_a_graph_without_a_past_returns_the_new_length():
    """Optimum calls the length of what it gives a sum with a past that it does not take."""
    made = onnxfn.plan(onnxfn.with_shapes(T5, **LENGTHS), tiny.config("t5"), decoders="separate")
    given_axes = {part.name: pattern(graph_axes(part.spec, part.spec.outputs[1])) for part in made.parts[1:]}
    assert given_axes == {"decoder_model": "batch_size 4 1 8", "decoder_with_past_model": "batch_size 4 8 8"}


def test_a_fixed_length_plans_separate_decoders():
    assert len(onnxfn.plan(onnxfn.with_shapes(T5, batch_size=1), tiny.config("t5")).files) == 2
    assert onnxfn.plan(onnxfn.with_shapes(T5, encoder_sequence_length=9), tiny.config("t5")).files == (
        *("encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx"),
    )


def test_dummies_have_the_fixed_shape():
    spec = onnxfn.with_shapes(BERT, batch_size=1)
    assert onnxfn.dummy_inputs(spec, SIZES, "np", sequence_length=5)["input_ids"].shape == (1, 5)
    message = refusal(onnxfn.InvalidSpec, onnxfn.dummy_inputs, spec, SIZES, batch_size=2)
    assert message == "'batch_size' is fixed at 1 by with_shapes, so no dummy has 2"


# Numbers


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        (BERT, {"batch_size": 1, "sequence_length": 12}),
        (LLAMA, {"batch_size": 2, "sequence_length": 1, "past_sequence_length": 9}),
        (LLAMA, {"batch_size": 1}),
        (T5, {"batch_size": 2, **LENGTHS}),
    ],
)
def test_a_fixed_graph_agrees_with_pytorch(spec, sizes, tmp_path):
    model = tiny.model(spec.name, spec.call.loader)
    result = assert_agreement(onnxfn.export(onnxfn.with_shapes(spec, **sizes), model, tmp_path / "out"))
    for file in (name for name in result.files if name.endswith(".onnx")):
        for value in onnx.load(file).graph.input:
            batch = value.type.tensor_type.shape.dim[0]
            assert (batch.dim_value, batch.dim_param) == (sizes["batch_size"], "")


def test_cases_of_one_shape_have_different_values():
    part = onnxfn.plan(onnxfn.with_shapes(BERT, batch_size=2, sequence_length=6), SIZES).parts[0]
    one, other = (
        case_inputs(None, part, in_case(part.spec, overlay), seed=seed)["input_ids"].tolist()
        for seed, overlay in enumerate(part.spec.cases[:2])
    )
    assert one != other
