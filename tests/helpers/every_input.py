"""Which inputs that a processor gives the graphs of a pair of a model type and a task take: all, or all but some.

`tests/sweeps/every_input.json` holds a line for each pair that agrees in heads.json: `all`; `all, by with_input of ...`
if the graphs leave inputs out and agree with PyTorch with the edit that adds them; or `not: ...` with the inputs that
no edit adds.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import every_head
import swept

import onnxfn
from onnxfn.export.lookup.processors import processed_arguments
from onnxfn.specs.plan.left_out import left_out

NAME = "every_input"
NOT_READ = "the configuration does not set"
"""How the reason of an input begins that this model does not read."""


def pairs() -> tuple[tuple[str, str], ...]:
    """The pairs of heads.json that agree."""
    seen = swept.seen(every_head.NAME)
    return tuple(pair for pair in every_head.pairs() if pair[1] in swept.validated(seen.get(pair[0], {})))


def missing(spec: Any, model: Any) -> list[str]:
    """The inputs that a processor gives, that the model reads, and that the graphs of a spec do not take."""
    every = left_out(spec, onnxfn.plan(spec, model), *processed_arguments(model))
    return [each.name for each in every if not each.reason.startswith(NOT_READ)]


def line(model_type: str, task: str, folder: Path) -> str:
    """The line of a pair."""
    model = every_head.tiny_model(model_type, task)
    spec = onnxfn.spec_for(model, task)
    names = missing(spec, model)
    if not names:
        return "all"
    try:
        for name in names:
            spec = onnxfn.with_input(spec, name)
        onnxfn.export(spec, model, folder)
        without = missing(spec, model)
    except onnxfn.OnnxfnError as error:
        return f"{swept.NOT}{', '.join(names)}: {type(error).__name__}"
    return f"{swept.NOT}{', '.join(without)}" if without else f"all, by with_input of {', '.join(names)}"


def summary() -> str:
    """How many pairs take all inputs, and those that do not, with what they leave out."""
    seen = swept.seen(NAME)
    lines = {f"{name} ({task})": line for name, tasks in seen.items() for task, line in tasks.items()}
    by_edit = sum(line.startswith("all, by") for line in lines.values())
    without = {name: line.removeprefix(swept.NOT) for name, line in lines.items() if line.startswith(swept.NOT)}
    names: dict[str, list[str]] = {}
    for name, text in without.items():
        names.setdefault(text.partition(":")[0], []).append(name)
    listed = "\n".join(f"| {inputs} | {', '.join(pairs)} |" for inputs, pairs in sorted(names.items()))
    text = (
        f"Of the {len(lines)} pairs that agree, the graphs of {len(lines) - by_edit - len(without)} take every input "
        f"that a processor of the model gives and the model reads, and those of {by_edit} do with `with_input`, which "
        f"the plan names; these agree, too. {len(without)} leave something out, most of them videos or boxes, or the "
        "images of a model for a task of texts:"
    )
    return f"{fill(text, 120)}\n\n| left out | pairs |\n| --- | --- |\n{listed}"
