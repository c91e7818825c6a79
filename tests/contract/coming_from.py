"""What to write instead of each public name of Optimum and of transformers.onnx: the tables of README.md here."""

import re
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROW = re.compile(r"\| `(?P<name>[^`]+)` \| (?P<instead>.+) \|")


def rows(table: str) -> dict[str, str]:
    """The rows of a table in Markdown: a name, and what to write instead; its head too, if it is a name."""
    matches = filter(None, map(ROW.fullmatch, table.splitlines()))
    return {match["name"]: match["instead"].replace("\\|", "|") for match in matches}


def tables() -> dict[str, dict[str, str]]:
    """{module or class: {its public name: what to write instead}}; a table has the module or class in its head."""
    _, _, text = (HERE / "README.md").read_text().partition("## Every name")
    every = [rows(table) for table in text.split("\n\n")]
    return {next(iter(table)): dict([*table.items()][1:]) for table in every if table}


def most_used() -> dict[str, str]:
    """The rows of the names that are used most, in README.md of the project."""
    return rows((ROOT / "README.md").read_text().partition("| name | instead |")[2].partition("\n\n")[0])


INSTEAD: Mapping[str, Mapping[str, str]] = tables()
