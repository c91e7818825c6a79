"""A tiny random model of each row goes to ONNX and agrees with PyTorch where it was not traced.

The sweep takes every task of every row of these families and writes `tests/sweeps/<family>.json`, a line a task as soon
as it is known: `python -m pytest -m sweep tests/architectures/test_rows.py`; after an interruption `--left` takes
those without one.
Models that write token by token have sweeps of their own: test_decoders.py, test_seq2seq.py.
"""

from __future__ import annotations

import pytest
import swept
import tiny
from agreement import assert_agreement, assert_axis_sizes

import onnxfn
from onnxfn.architectures import audio, detection, multimodal, series, text, vision
from onnxfn.specs.tasks import task_names

FAMILIES = {"text": text, "vision": vision, "detection": detection, "multimodal": multimodal, "audio": audio}
FAMILIES |= {"series": series}
PLANNED_ALONE = ("mctct",)
"""What transformers 5 has no model of."""
PAIRS = [
    pytest.param(family, model_type, task, id=f"{family}-{model_type}-{task}")
    for family, table in FAMILIES.items()
    for model_type, row in table.ROWS.items()
    if model_type not in PLANNED_ALONE
    for task in task_names(row)
]

# Every composition once; every task of the first of each family; and what is special to one.
SPECIAL = [
    ("deberta-v2", "multiple-choice"),
    ("longformer", "multiple-choice"),
    ("markuplm", "question-answering"),
    ("modernbert", "token-classification"),
    ("splinter", "question-answering"),
    ("xlm", "fill-mask"),
    ("xlm", "question-answering"),
]
COMPOSITIONS = {row: name for table in FAMILIES.values() for name, row in reversed(table.ROWS.items())}
SAMPLE = [
    *((name, task_names(row)[0]) for row, name in reversed(COMPOSITIONS.items()) if name not in PLANNED_ALONE),
    *(
        (name, task)
        for table in FAMILIES.values()
        for name, row in [*table.ROWS.items()][:1]
        for task in task_names(row)[1:]
    ),
    *SPECIAL,
]


def agrees(model_type, task, folder, **overrides):
    spec = onnxfn.spec_for(model_type, task)
    model = tiny.model(model_type, spec.call.loader, **overrides)
    return assert_axis_sizes(assert_agreement(onnxfn.export(spec, model, folder), folder))


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_a_model_agrees_with_pytorch(model_type, task, tmp_path):
    agrees(model_type, task, tmp_path / "out")


def test_segments_are_taken_by_a_deberta_that_has_them(tmp_path):
    agrees("deberta", "feature-extraction", tmp_path / "out", type_vocab_size=2)


TABLES = {family: {one.values[1:] for one in PAIRS if one.values[0] == family} for family in FAMILIES}


@pytest.mark.sweep
@pytest.mark.parametrize(("family", "model_type", "task"), PAIRS)
def test_every_task_of_every_row_agrees_with_pytorch(family, model_type, task, tmp_path, only_left, record):
    only_left(family, model_type, task)
    result = agrees(model_type, task, tmp_path / "out")
    record(family, model_type, task, swept.line(result), TABLES[family])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_sweep_in_the_repository_is_of_this_table(family):
    """A row that was added or lost a task since then has not been swept."""
    assert swept.pairs(family) == TABLES[family]
