"""The model of a checkpoint, and the synonyms of tasks."""

import pytest
import tiny

from onnxfn import canonical, model_for, synonyms
from onnxfn.specs.tasks.tasks import SYNONYMS, TASKS


@pytest.mark.parametrize("task", [*TASKS, *SYNONYMS])
def test_the_synonyms_of_a_task_are_synonyms_of_one_another(task):
    for other in synonyms(task):
        assert canonical(other) == canonical(task)
        assert task in synonyms(other)
    assert task not in synonyms(task)


def test_a_checkpoint_is_loaded_for_its_task_or_another(tmp_path):
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(tmp_path)
    assert type(model_for(str(tmp_path))).__name__ == "BertForMaskedLM"
    model = model_for(str(tmp_path), "default")
    assert type(model).__name__ == "BertModel"
    assert not model.training
