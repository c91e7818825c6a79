"""What architectures of one kind share."""

import pytest

from onnxfn.architectures.families import bert_inputs, text_encoder, text_inputs
from onnxfn.specs.axes import pattern
from onnxfn.specs.compose import compose
from onnxfn.specs.defaults import DEFAULTS
from onnxfn.specs.dummies import dummies, padded, sized
from onnxfn.specs.facts import case
from onnxfn.specs.plan.check_cases import in_case
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.records import Constant
from onnxfn.specs.spec import Check, ExportSpec, Overlay, Target
from onnxfn.specs.tasks import for_task, task_names

CONFIG = {"vocab_size": 50, "type_vocab_size": 3}
BERT = compose(text_encoder, bert_inputs)


def cases(spec):
    """The dummies of every case of the check, by the case's name."""
    made = resolved(spec, CONFIG)
    return {one.name: dummies(in_case(made, one), {}) for one in made.cases}


def test_the_defaults_are_said():
    assert ExportSpec(check=Check(atol=1e-5, rtol=1e-4), target=Target(opset=18, int_dtype="int64")) == DEFAULTS


def test_a_text_has_tokens_and_a_mask_and_berts_has_segments_too():
    assert [one.name for one in text_inputs.inputs] == ["input_ids", "attention_mask"]
    assert [one.name for one in bert_inputs.inputs] == ["input_ids", "attention_mask", "token_type_ids"]
    assert {pattern(one.axes) for one in bert_inputs.inputs} == {"batch_size sequence_length"}


def test_a_text_encoder_knows_six_tasks():
    assert task_names(text_encoder) == (
        "feature-extraction",
        "fill-mask",
        "multiple-choice",
        "question-answering",
        "text-classification",
        "token-classification",
    )


def test_a_text_encoder_answers_with_names():
    assert text_encoder.call.constants == (Constant("return_dict", value=True),)


def test_a_text_encoder_takes_no_inputs_of_its_own():
    assert text_encoder.inputs == ()


def test_only_choices_have_an_axis_of_choices():
    told = {task: {pattern(one.axes) for one in for_task(BERT, task).inputs} for task in task_names(BERT)}
    assert told.pop("multiple-choice") == {"batch_size num_choices sequence_length"}
    assert set(map(frozenset, told.values())) == {frozenset({"batch_size sequence_length"})}


def test_a_case_is_the_specs_that_it_is_tried_with():
    assert case("long", sized(batch_size=1), sized(sequence_length=99)) == ExportSpec(
        cases=[Overlay("long", sized(batch_size=1, sequence_length=99))]
    )


@pytest.mark.parametrize("task", task_names(BERT))
def test_no_case_repeats_a_size_of_the_trace_nor_of_another_case(task):
    spec = for_task(BERT, task)
    shapes = [dummies(resolved(spec, CONFIG), {})["input_ids"].shape]
    shapes += [made["input_ids"].shape for made in cases(spec).values()]
    assert len(set(shapes)) == 4
    assert {len(set(sizes)) for sizes in list(zip(*shapes, strict=True))[1:]} == {4}


@pytest.mark.parametrize("task", task_names(BERT))
def test_a_batch_is_tried_padded_at_either_side_and_not_at_all(task):
    masks = {name: made["attention_mask"] for name, made in cases(for_task(BERT, task)).items()}
    assert masks["one"].min() == 1
    assert (masks["right-padded"][..., 0].min(), masks["right-padded"][..., -1].min()) == (1, 0)
    assert (masks["left-padded"][..., 0].min(), masks["left-padded"][..., -1].min()) == (0, 1)


def test_tokens_and_segments_stay_inside_their_tables():
    made = dummies(resolved(compose(BERT, sized(sequence_length=400)), CONFIG), {})
    assert set(made["input_ids"].ravel().tolist()) == set(range(50))
    assert set(made["token_type_ids"].ravel().tolist()) == {0, 1, 2}


def test_a_side_of_padding_is_said_for_every_mask():
    made = dummies(resolved(compose(BERT, padded("left")), CONFIG), {})
    assert made["attention_mask"][1, 0] == 0
    assert made["attention_mask"][:, -1].tolist() == [1, 1]
