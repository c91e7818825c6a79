"""The model types of transformers without a row: how many validate with a derived spec, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from textwrap import fill

import every_head
import swept

from onnxfn import ARCHITECTURES

CAUSES: Mapping[str, str] = {
    "no forward": "no forward",
    "a Python object among the arguments": "which no graph can take",
    "an argument that is not known": "not known|padding_cache, use_cache; write",
    "no form of inputs on which the model runs": "no spec could be derived",
    "no trace": "could not be traced|no translation to ONNX",
    "an axis that the trace fixes": " fixes axis ",
    "a graph that differs from PyTorch": "CheckFailed",
}
"""Cause -> texts of the lines that have it, the first that fits."""

OTHER = "another error"


def results() -> dict[str, tuple[str, ...]]:
    """The lines of each model type without a row: of its pairs, and of the spec derived from its model."""
    derived, heads = swept.seen("derived"), swept.seen(every_head.NAME)
    names = {name for name, _ in every_head.pairs()} | derived.keys()
    return {
        name: (*derived.get(name, {}).values(), *heads.get(name, {}).values())
        for name in sorted(names - ARCHITECTURES.keys())
    }


def validates(lines: Iterable[str]) -> bool:
    """Whether a task of a model type agrees with PyTorch."""
    return any(not line.startswith(swept.NOT) for line in lines)


def runs(name: str, lines: Iterable[str]) -> bool:
    """Whether there is a tiny model of the type, for a task at least, as the sweep of every head says."""
    tried = swept.seen(every_head.NAME).get(name, {}).values()
    return validates(lines) or not tried or not all(line.startswith(every_head.NO_MODEL) for line in tried)


def counts() -> tuple[int, int, int]:
    """How many model types have no row, how many of these have a tiny model, and how many of those validate."""
    every = results()
    with_model = [lines for name, lines in every.items() if runs(name, lines)]
    return len(every), len(with_model), sum(map(validates, with_model))


def causes() -> Counter[str]:
    """Why the others do not validate, by the first cause that a line of theirs has."""
    left = (lines for name, lines in results().items() if runs(name, lines) and not validates(lines))
    return Counter(_cause(" ".join(lines)) for lines in left)


def _cause(text: str) -> str:
    return next((cause for cause, marks in CAUSES.items() if any(mark in text for mark in marks.split("|"))), OTHER)


def summary() -> str:
    """How many model types without a row validate, and why the others do not."""
    every, with_model, agree = counts()
    reasons = "; ".join(f"{cause}: {number}" for cause, number in causes().most_common())
    text = (
        f"{every} model types of transformers have no row; their specs are derived from the model. {with_model} have a "
        f"tiny model, and of these {agree} ({agree / with_model:.0%}) agree with PyTorch for a task at least. "
        f"Causes of the others: {reasons}."
    )
    return fill(text, 118, break_long_words=False, break_on_hyphens=False)
