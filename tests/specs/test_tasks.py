import pytest
import transformers

from onnxfn import Edit, ExportSpec
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import gives, takes
from onnxfn.specs.axes import pattern
from onnxfn.specs.tasks.tasks import SYNONYMS, TASKS, canonical, for_task, task_names, tasked

BERT = compose(
    ExportSpec(name="bert"),
    takes("input_ids", "batch_size sequence_length", "token_ids"),
    tasked("fill-mask"),
    tasked("multiple-choice", Edit("with_axis", {"axis": "num_choices", "at": 1, "starting": "batch_size"})),
)


def test_tasks_are_in_the_order_of_first_mention():
    assert task_names(BERT) == ("fill-mask", "multiple-choice")
    assert task_names(ExportSpec()) == ()


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_a_loader_and_usual_outputs(task):
    made = for_task(tasked(task), task)
    assert (made.task, made.call.loader, made.outputs) == (task, TASKS[task].call.loader, TASKS[task].outputs)
    assert hasattr(transformers, made.call.loader)


def test_question_answering_has_start_and_end_logits():
    assert {one.name: pattern(one.axes) for one in TASKS["question-answering"].outputs} == {
        "start_logits": "batch_size sequence_length",
        "end_logits": "batch_size sequence_length",
    }


def test_the_overlay_of_a_task_is_composed_onto_the_spec():
    spec = compose(sized(batch_size=2), tasked("ner", sized(batch_size=9), gives("tags", "batch_size")))
    tagged = compose(sized(batch_size=9), gives("tags", "batch_size"), ExportSpec(task="ner", tasks=spec.tasks))
    assert for_task(spec, "ner") == tagged


def test_a_row_wins_over_the_table_of_tasks():
    made = for_task(tasked("fill-mask", spec=gives("logits", "batch_size 7")), "fill-mask")
    assert [pattern(one.axes) for one in made.outputs] == ["batch_size 7"]


def test_the_edits_of_a_task_are_applied():
    patterns = [pattern(one.axes) for one in for_task(BERT, "multiple-choice").inputs]
    assert patterns == ["batch_size num_choices sequence_length"]


@pytest.mark.parametrize("name", [*SYNONYMS, *SYNONYMS.values(), *TASKS, "my-own-task"])
def test_a_canonical_name_is_unchanged(name):
    once = canonical(name)
    assert once not in SYNONYMS
    assert canonical(once) == once
    assert canonical(f"{name}-with-past") == f"{once}-with-past"


@pytest.mark.parametrize("name", ["causal-lm-with-pastry", "with-past-causal-lm", "a-with-past-b"])
def test_a_name_with_the_ending_inside_is_unchanged(name):
    assert canonical(name) == name
