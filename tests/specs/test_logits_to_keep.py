"""`num_logits_to_keep`: logits of the last tokens alone."""

import numpy as np
import pytest
from refusals import refusal

import onnxfn
from onnxfn import UnknownName, from_json, plan, spec_for, to_json, with_input
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP as NAME

LLAMA = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 9}
TASKS = ("text-generation", "text-generation-with-past")


@pytest.mark.parametrize("task", TASKS)
def test_the_input_is_a_number_and_the_logits_have_an_axis_of_their_own(task):
    part = plan(with_input(spec_for("llama", task), NAME), LLAMA).parts[0]
    assert part.inputs[NAME] == {}
    assert part.outputs["logits"] == {0: "batch_size", 1: "num_logits"}
    assert part.spec.inputs[NAME].kind == "int64"


def test_a_spec_without_a_task_has_it_in_the_tasks_that_write_text():
    spec = with_input(spec_for("llama"), NAME)
    chosen = {overlay.name: NAME in onnxfn.for_task(spec, overlay.name) for overlay in spec.tasks}
    assert {name for name, has in chosen.items() if has} == {*TASKS}
    for task in TASKS:
        (first,) = plan(onnxfn.for_task(spec, task), LLAMA).parts
        (later,) = plan(with_input(onnxfn.for_task(spec_for("llama"), task), NAME), LLAMA).parts
        assert (first.inputs, first.outputs) == (later.inputs, later.outputs)


def test_the_edit_is_its_own_repetition_and_goes_to_json():
    spec = with_input(spec_for("llama", TASKS[1]), NAME)
    assert with_input(NAME)(spec) == spec == from_json(to_json(spec))


def test_all_logits_are_kept_but_in_cases_of_their_own():
    spec = plan(with_input(spec_for("llama", TASKS[1]), NAME), LLAMA).parts[0].spec
    kept = {case.name: case.dummies.generators["logits_to_keep"].arguments[0][1] for case in spec.cases if case.name
            in ("last logit", "last logits", "more logits than tokens")}  # fmt: skip
    assert kept == {"last logit": 1, "last logits": 3, "more logits than tokens": 9}
    assert dict(spec.dummies.generators["logits_to_keep"].arguments) == {"value": 0}
    assert onnxfn.dummy_inputs(with_input(spec_for("llama", TASKS[1]), NAME), LLAMA, "np")[NAME] == np.int64(0)


@pytest.mark.parametrize(("model_type", "task"), [("bert", "fill-mask"), ("llama", "token-classification")])
def test_a_model_that_writes_no_text_has_no_such_input(model_type, task):
    line = refusal(UnknownName, with_input, spec_for(model_type, task), NAME)
    assert f"with_input cannot add '{NAME}' to {model_type}; it can add: " in line
