"""Each model type and task of Optimum's table is validated by a sweep or has a reason; the results are current."""

import re

import pytest
import swept
from corrections import corrections
from declarations import contract, exports
from transformers import CONFIG_MAPPING

from onnxfn.specs.algebra.public_calls import NEWEST_TRIED, newer_than_tried


def declared():
    """The pairs that Optimum exports and transformers still has; test_libraries.py has those of other libraries."""
    return {
        (model_type, task.partition("@")[0])  # a variant is another file of the same task
        for model_type in contract()
        if model_type in CONFIG_MAPPING
        for preset in contract()[model_type]["configs"]
        for task in exports(model_type, preset)
    }


def validated():
    return {
        (model_type, task)
        for family in swept.FAMILIES
        for model_type, tasks in swept.seen(family).items()
        for task in swept.validated(tasks)
    }


def excused():
    rows = corrections("without model")
    pairs = ((model_type, task) for row in rows for model_type in row.model_types for task in row.tasks)
    return {(model_type, task) for model_type, task in pairs if model_type in CONFIG_MAPPING}


def test_every_pair_of_optimum_is_validated_or_excused():
    assert declared() - validated() - excused() == set()


def test_no_excused_pair_is_validated():
    assert excused() & validated() == set()


@pytest.mark.parametrize("name", [path.stem for path in sorted(swept.SWEEPS.glob("*.json"))])
def test_each_line_has_a_run_with_its_day_commit_and_versions(name):
    for model_type, tasks in swept.seen(name).items():
        lines = [(model_type, task) for task in tasks] if isinstance(tasks, dict) else [(model_type,)]
        assert all(swept.run_of(name, *line)["commit"] for line in lines)
    for run in swept.recorded(name)["runs"]:
        assert run["versions"].keys() == NEWEST_TRIED.keys() == set(swept.PACKAGES)
        assert newer_than_tried(run["versions"]) == ""
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
        assert re.fullmatch(r"[0-9a-f]{7,}( with changes)?", run["commit"])
