"""Which spec for this model and task."""

from types import SimpleNamespace

import pytest
from refusals import refusal

from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.families import bert_inputs, text_encoder
from onnxfn.export.lookup.class_tasks import task_of
from onnxfn.export.lookup.lookup import spec_for, tasks_for, with_model_task
from onnxfn.specs.compose import compose
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.errors import InvalidSpec, UnknownName
from onnxfn.specs.facts import gives
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import for_task

BERT = ARCHITECTURES["bert"]
CONFIG = {"model_type": "bert", "vocab_size": 50}


def model(name, model_type="bert"):
    """A model as far as lookup sees: its class has a name and `forward`, and it has a configuration."""
    config = SimpleNamespace(to_dict=dict, model_type=model_type)
    return type(name, (), {"forward": None, "config": config})()


def torchless(name):
    """A module of one's own: it has `forward`, and no configuration."""
    return type(name, (), {"forward": None})()


# Specs


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_a_model_type_has_the_spec_of_its_row(model_type):
    assert spec_for(model_type) is ARCHITECTURES[model_type]
    assert spec_for(model_type).name == model_type


def test_a_task_is_laid_over_the_row():
    assert spec_for("bert", "masked-lm") == for_task(BERT, "fill-mask")


def test_a_configuration_has_the_spec_of_its_model_type():
    assert spec_for(CONFIG) == BERT


def test_a_configuration_that_tells_its_class_has_the_task_of_the_class():
    assert spec_for({**CONFIG, "architectures": ["BertForMaskedLM"]}) == for_task(BERT, "fill-mask")


def test_a_model_has_the_task_of_its_class():
    assert spec_for(model("BertForQuestionAnswering")) == for_task(BERT, "question-answering")


def test_a_model_whose_class_tells_no_task_has_the_spec_without_one():
    assert spec_for(model("BertForPreTraining")) == BERT


def test_a_task_of_the_class_that_the_row_does_not_know_is_not_chosen():
    rows = {"bert": only_tasks(BERT, "fill-mask")}
    assert spec_for(model("BertForQuestionAnswering"), architectures=rows) == rows["bert"]


def test_a_task_that_is_asked_for_wins_over_that_of_the_class():
    assert spec_for(model("BertForMaskedLM"), "feature-extraction") == for_task(BERT, "feature-extraction")


def test_a_longer_table_has_a_row_more():
    mine = compose(text_encoder, bert_inputs)
    assert spec_for("mine", architectures=ARCHITECTURES | {"mine": mine}) == mine


@pytest.mark.parametrize("find", [spec_for, tasks_for])
def test_an_unknown_model_type_is_refused_with_the_closest(find):
    rows = {"bert": BERT, "roberta": BERT}
    assert refusal(UnknownName, find, "robert", architectures=rows) == (
        "no model type 'robert'; known: bert, roberta; did you mean 'roberta'?; "
        "to derive a spec without a row, pass the model or its configuration: spec_for(model)"
    )


def test_an_unknown_task_is_refused_with_the_closest():
    assert refusal(UnknownName, spec_for, "splinter", "question-answer") == (
        "no task 'question-answer' for splinter; known: feature-extraction, question-answering; "
        "did you mean 'question-answering'?"
    )


def test_what_has_no_model_type_is_refused():
    assert refusal(UnknownName, spec_for, {"vocab_size": 50}) == (
        "dict has no model_type; compose a spec for it, or pass a model type as text"
    )


# Tasks


def test_tasks_are_those_of_the_row():
    assert tasks_for("splinter") == ("feature-extraction", "question-answering")
    assert tasks_for(CONFIG) == tasks_for(model("BertModel")) == tasks_for("bert")


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("BertForMaskedLM", "fill-mask"),
        ("XLMWithLMHeadModel", "fill-mask"),
        ("BertForSequenceClassification", "text-classification"),
        ("BertForTokenClassification", "token-classification"),
        ("BertForQuestionAnswering", "question-answering"),
        ("XLMForQuestionAnsweringSimple", "question-answering"),
        ("BertForMultipleChoice", "multiple-choice"),
        ("SpeechT5ForTextToSpeech", "text-to-audio"),
        ("SeamlessM4TForSpeechToText", "automatic-speech-recognition"),
        ("SeamlessM4Tv2ForTextToText", "text2text-generation"),
        ("ParakeetForRNNT", "automatic-speech-recognition"),
        ("ParakeetForTDT", "automatic-speech-recognition"),
        ("BertModel", "feature-extraction"),
        ("BertForPreTraining", None),
        ("", None),
    ],
)
def test_the_name_of_a_class_tells_its_task(name, task):
    assert task_of(name) == task
    assert task_of(model(name)) == task
    assert task_of({"architectures": [name]}) == task


@pytest.mark.parametrize("told", [{}, {"architectures": None}, {"architectures": []}])
def test_a_configuration_that_tells_no_class_tells_no_task(told):
    assert task_of(told) is None


# Does the model fit


def test_a_spec_without_a_task_is_made_one_for_the_models_task():
    assert with_model_task(BERT, model("BertForMaskedLM")) == for_task(BERT, "fill-mask")


def test_a_spec_for_the_models_task_fits_as_it_is():
    spec = for_task(BERT, "fill-mask")
    assert with_model_task(spec, model("BertForMaskedLM")) is spec


def test_a_model_whose_class_tells_no_task_is_taken_at_its_word():
    spec = for_task(BERT, "fill-mask")
    assert with_model_task(spec, model("BertForPreTraining")) is spec


def test_a_spec_that_says_its_outputs_fits_any_model():
    spec = compose(BERT, gives("logits", "batch_size sequence_length _"))
    assert with_model_task(spec, model("BertForPreTraining")) == only_tasks(spec)
    assert with_model_task(spec, torchless("MyModel")) == only_tasks(spec)


def test_an_output_of_ones_own_stands_beside_those_of_the_models_task():
    spec = compose(BERT, gives("pooler_output", "batch_size _"))
    assert [one.name for one in with_model_task(spec, model("BertModel")).outputs] == [
        "pooler_output",
        "last_hidden_state",
    ]


def test_the_name_of_a_module_that_is_not_of_transformers_tells_nothing():
    assert task_of(torchless("MyModel")) is None


def test_a_model_that_tells_no_task_needs_a_spec_that_does():
    spec = only_tasks(BERT, "fill-mask", "question-answering")
    assert refusal(InvalidSpec, with_model_task, spec, model("BertForPreTraining")) == (
        "the class name BertForPreTraining implies no task; choose one of fill-mask, question-answering: "
        "for_task(spec, task)"
    )


def test_a_model_for_another_task_is_refused():
    assert refusal(InvalidSpec, with_model_task, for_task(BERT, "fill-mask"), model("BertModel")) == (
        "BertModel is a model for feature-extraction, not for fill-mask; "
        "load it with AutoModelForMaskedLM, or export it for feature-extraction"
    )


def test_a_model_for_another_task_than_ones_own_is_refused():
    assert refusal(InvalidSpec, with_model_task, ExportSpec(task="ner"), model("BertModel")) == (
        "BertModel is a model for feature-extraction, not for ner; "
        "load it with a class for ner, or export it for feature-extraction"
    )
