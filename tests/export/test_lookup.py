import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from refusals import refusal

from onnxfn import ARCHITECTURES, ExportSpec, InvalidSpec, ModelNotFound, UnknownName, bert_inputs, text_encoder
from onnxfn.export.find.lookup import spec_for, tasks_for, with_model_task
from onnxfn.export.load.class_tasks import task_of
from onnxfn.export.report.graph_summary import graph_files
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.facts import gives
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.tasks.tasks import for_task

BERT, TEXTS = ARCHITECTURES["bert"], compose(text_encoder, bert_inputs)
CONFIG = {"model_type": "bert", "vocab_size": 50}
CLASS_TASKS = json.loads(Path(__file__).with_name("class_tasks.json").read_text())


def model(name, model_type="bert"):
    """A stand-in for a model of transformers: a class with a name and `forward`, and a configuration."""
    return type(name, (), {"forward": None, "config": SimpleNamespace(to_dict=dict, model_type=model_type)})()


BASE, LLAMA = model("BertModel"), model("LlamaForCausalLM", "llama")


def module_without_config(name):
    return type(name, (), {"forward": None})()


# Specs


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_a_model_type_has_the_spec_of_its_row(model_type):
    assert spec_for(model_type) is ARCHITECTURES[model_type]
    assert spec_for(model_type).name == model_type


@pytest.mark.parametrize(
    ("arguments", "task"),
    [
        ((CONFIG,), None),
        (({**CONFIG, "architectures": ["BertForMaskedLM"]},), "fill-mask"),
        ((model("BertForQuestionAnswering"),), "question-answering"),
        ((model("BertForPreTraining"),), None),
        ((model("BertForMaskedLM"), "feature-extraction"), "feature-extraction"),
        (("bert", "masked-lm"), "fill-mask"),
    ],
    ids=["configuration", "with a class", "model", "class without a task", "a task is given", "synonym"],
)
def test_a_spec_has_the_task_that_is_given_else_that_of_the_class(arguments, task):
    assert spec_for(*arguments) == (for_task(BERT, task) if task else BERT)


def test_a_task_of_the_class_that_the_row_does_not_have_is_that_of_the_family():
    spec = spec_for(model("BertForQuestionAnswering"), architectures={"bert": only_tasks(BERT, "fill-mask")})
    assert spec.outputs == for_task(BERT, "question-answering").outputs
    assert spec.call.loader == "AutoModelForQuestionAnswering"


def test_a_task_of_the_class_that_neither_the_row_nor_transformers_has_is_not_chosen():
    rows = {"mine": compose(only_tasks(BERT, "fill-mask"), ExportSpec(name="mine"))}
    assert spec_for(model("MineForQuestionAnswering", "mine"), architectures=rows) == rows["mine"]


@pytest.mark.parametrize("find", [spec_for, tasks_for])
def test_an_unknown_model_type_raises_an_error_with_the_closest_name(find):
    rows = {"bert": BERT, "roberta": BERT}
    assert refusal(UnknownName, find, "robert", architectures=rows) == (
        "no model type 'robert'; known: bert, roberta; did you mean 'roberta'?; "
        "pass the model or its configuration: spec_for(model, task); or onnxfn export CHECKPOINT OUT --dry-run"
    )


# Tasks


def test_the_tasks_of_a_model_type_are_the_tasks_of_its_row():
    assert tasks_for("splinter") == ("feature-extraction", "question-answering")
    assert tasks_for(CONFIG) == tasks_for(model("BertModel")) == tasks_for("bert")


@pytest.mark.parametrize(("name", "task"), CLASS_TASKS)
def test_the_name_of_a_class_implies_its_task(name, task):
    assert task_of(name) == task
    assert task_of(model(name)) == task
    assert task_of({"architectures": [name]}) == task


@pytest.mark.parametrize(
    "config", [{}, {"architectures": None}, {"architectures": []}, module_without_config("MyModel")]
)
def test_a_configuration_without_a_class_name_and_a_module_without_one_imply_no_task(config):
    assert task_of(config) is None


# The task of the model


def test_a_spec_without_a_task_becomes_one_for_the_task_of_the_model():
    assert with_model_task(BERT, model("BertForMaskedLM")) == for_task(BERT, "fill-mask")


@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForPreTraining"])
def test_a_spec_for_the_task_of_the_model_or_for_a_class_without_a_task_is_unchanged(name):
    spec = for_task(BERT, "fill-mask")
    assert with_model_task(spec, model(name)) is spec


def test_a_spec_with_outputs_needs_no_task():
    spec = compose(BERT, gives("logits", "batch_size sequence_length _"))
    assert with_model_task(spec, model("BertForPreTraining")) == only_tasks(spec)
    assert with_model_task(spec, module_without_config("MyModel")) == only_tasks(spec)


def test_outputs_of_the_spec_come_before_the_outputs_of_the_task():
    spec = compose(BERT, gives("pooler_output", "batch_size _"))
    names = [output.name for output in with_model_task(spec, model("BertModel")).outputs]
    assert names == ["pooler_output", "last_hidden_state"]


def test_a_model_whose_class_implies_no_task_needs_a_spec_with_a_task():
    spec = only_tasks(BERT, "fill-mask", "question-answering")
    assert refusal(InvalidSpec, with_model_task, spec, model("BertForPreTraining")) == (
        "the class name BertForPreTraining implies no task; choose one of fill-mask, question-answering: "
        "for_task(spec, task)"
    )


@pytest.mark.parametrize(
    ("spec", "other", "advice"),
    [
        (for_task(BERT, "fill-mask"), BASE, "load it with AutoModelForMaskedLM, or export it for feature-extraction"),
        (ExportSpec(task="ner"), BASE, "write spec_for(model), which is for feature-extraction"),
        (for_task(BERT, "fill-mask"), LLAMA, "the spec is for bert, and the model is llama: write spec_for(model)"),
        (
            for_task(TEXTS, "text-classification"),
            LLAMA,
            "load it with AutoModelForSequenceClassification, or write spec_for(model), which is for text-generation",
        ),
        (for_task(TEXTS, "fill-mask"), LLAMA, "write spec_for(model), which is for text-generation"),
    ],
)
def test_a_model_for_another_task_raises_an_error_with_advice_that_helps(spec, other, advice):
    """transformers has no class of Llama for fill-mask, and its class for texts does not fit a spec of BERT."""
    start = f"{type(other).__name__} is a model for {task_of(other)}, not for {spec.task}; "
    assert refusal(InvalidSpec, with_model_task, spec, other) == start + advice


def test_a_model_that_hears_nothing_has_no_task_of_sounds_and_parts_have_a_past():
    seeing = ("feature-extraction", "image-text-to-text", "image-text-to-text-with-past")
    assert tasks_for("qwen2_vl") == tasks_for("llava") == (*seeing, "any-to-any", "any-to-any-with-past")
    assert "audio-text-to-text-with-past" in tasks_for("voxtral")


def test_a_type_without_a_row_is_known_by_its_tasks():
    how = "pass the model or its configuration: spec_for(model, task); or onnxfn export CHECKPOINT OUT --dry-run"
    tasks = ", ".join(tasks_for("qwen2_vl"))
    assert refusal(UnknownName, spec_for, "qwen2_vl") == (
        f"qwen2_vl has no row: its spec, for {tasks}, is derived from the model; {how}"
    )
    assert refusal(InvalidSpec, spec_for, "llava", "image-text-to-text") == (
        f"llava is written in parts, which a run of its language model shows; {how}"
    )
    assert refusal(UnknownName, spec_for, "clip", "image-text-to-text") == (
        f"no task 'image-text-to-text' for clip; known: {', '.join(tasks_for('clip'))}"
    )


def test_a_checkpoint_is_inspected_by_a_dry_run(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    message = refusal(ModelNotFound, graph_files, tmp_path)
    assert message.endswith(f"; onnxfn export {tmp_path} OUT --dry-run shows the plan of a checkpoint")
