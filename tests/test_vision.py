"""Models that see: a tiny random model of each goes to ONNX and agrees with PyTorch where it was not traced.

The sweep takes every task of every row and writes `tests/sweeps/vision.json`:
`python -m pytest -m sweep tests/test_vision.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny
from agreement import agreeing

import onnxfn
from onnxfn.architectures import vision
from onnxfn.tasks import TASKS, task_names

SWEPT = Path(__file__).parent / "sweeps" / "vision.json"
PAIRS = [(model_type, task) for model_type, row in vision.ROWS.items() for task in task_names(row)]


def agrees(model_type, task, folder):
    model = tiny.model(model_type, TASKS[task].loader)
    spec = onnxfn.spec_for(model_type, task)
    return agreeing(onnxfn.export(spec, model, folder), onnxfn.plan(spec, model).parts[0], folder)


def test_a_model_that_sees_agrees_with_pytorch(tmp_path):
    agrees("vit", "image-classification", tmp_path / "out")


@pytest.fixture(scope="module")
def results():
    """The largest difference of each task of each row, kept in the repository when the whole sweep has run."""
    found: dict[str, dict[str, str]] = {}
    yield found
    if sum(map(len, found.values())) == len(PAIRS):
        SWEPT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_every_task_of_every_model_that_sees_agrees_with_pytorch(model_type, task, tmp_path, results):
    result = agrees(model_type, task, tmp_path / "out")
    limits = "".join(f", {limit}" for limit in result.limits)
    worst = max(one.max_abs for one in result.report.differences)
    results.setdefault(model_type, {})[task] = f"max abs diff {worst:.0e}{limits}"


def test_the_last_sweep_in_the_repository_is_of_this_table():
    """A row that was added or lost a task since then has not been swept."""
    swept = json.loads(SWEPT.read_text())
    assert {(model_type, task) for model_type, tasks in swept.items() for task in tasks} == set(PAIRS)
