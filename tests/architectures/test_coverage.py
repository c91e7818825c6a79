"""Each model type and task of Optimum's table is validated by a sweep or has a reason; the results are current."""

from __future__ import annotations

import re

import coverage_tables
import every_head
import head_table
import part_table
import pytest
import swept
from corrections import WITHOUT_MODEL
from declarations import contract, exports
from transformers import CONFIG_MAPPING

TESTED = re.search(r"# Tested with (.*?)\. ", (swept.ROOT / "pyproject.toml").read_text(), re.DOTALL)
"""The comment of pyproject.toml: `torch 2.13.0, transformers 5.23.0, onnx 1.23, onnxruntime 1.31 and 1.32`."""
VERSION = r"\d[\d.]*\d"
TESTED_VERSIONS = {
    package: re.findall(VERSION, versions)
    for package, versions in re.findall(rf"(\w+) ({VERSION}(?: and {VERSION})*)", TESTED[1])
}
"""From a package to its versions."""


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
    """The pairs that agreed with PyTorch in a sweep."""
    return {
        (model_type, task)
        for family in swept.FAMILIES
        for model_type, tasks in swept.seen(family).items()
        for task in swept.validated(tasks)
    }


def excused():
    """The pairs that no model exists of, each with its reason."""
    return {
        (never.model_type, task)
        for never in WITHOUT_MODEL
        for task in never.tasks
        if never.model_type in CONFIG_MAPPING
    }


def test_every_pair_of_optimum_is_validated_or_excused():
    assert declared() - validated() - excused() == set()


def test_no_excused_pair_is_validated():
    assert excused() & validated() == set()


def test_less_than_3_percent_are_excused():
    assert len(excused()) < 0.03 * len(declared())


def test_more_than_250_model_types_are_validated():
    assert len({model_type for model_type, _ in validated()}) >= 250


@pytest.mark.parametrize("name", [*swept.FAMILIES, "decoding"])
def test_results_were_seen_with_the_versions_that_pyproject_calls_tested(name):
    file = swept.recorded(name)
    assert file["versions"].keys() == TESTED_VERSIONS.keys() == set(swept.PACKAGES)
    for package, versions in TESTED_VERSIONS.items():
        assert any(f"{file['versions'][package]}.".startswith(f"{version}.") for version in versions), package
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", file["date"])
    assert re.fullmatch(r"[0-9a-f]{7,}( with changes)?", file["commit"])


def test_every_pair_that_agrees_names_its_inputs():
    assert head_table.missing(every_head.pairs()) == set()


def test_the_tables_are_current():
    """When it fails: python tests/tools/coverage.py."""
    assert (swept.SWEEPS / "README.md").read_text() == coverage_tables.sweeps_readme()
    assert head_table.PAGE.read_text() == head_table.page()
    assert part_table.PAGE.read_text() == part_table.page()
    assert coverage_tables.root_summary() in (swept.ROOT / "README.md").read_text()
