"""What the package says of itself, and what its archives hold."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]


def test_the_classifiers_name_the_versions_of_python_that_are_tried():
    versions = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if line.startswith("Programming Language")}
    assert versions == {"3", "3.11", "3.12", "3.13"}
    assert PROJECT["requires-python"] == ">=3.11"


def test_somebody_is_named_as_author():
    assert all(author["name"] for author in PROJECT["authors"])


def test_the_archive_of_sources_has_what_a_user_needs_alone():
    targets = SETTINGS["tool"]["hatch"]["build"]["targets"]
    included = targets["sdist"]["only-include"]
    assert set(included) == {"onnxfn", "LICENSE", "README.md", "pyproject.toml"}
    assert all((ROOT / name).exists() for name in included)
    assert targets["wheel"]["packages"] == ["onnxfn"]


def test_matplotlib_is_an_extra():
    assert [name for name, packages in PROJECT["optional-dependencies"].items() if "matplotlib" in str(packages)] == [
        "plot"
    ]
    assert "matplotlib" not in str(PROJECT["dependencies"])
