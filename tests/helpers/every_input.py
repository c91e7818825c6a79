"""Which inputs that a processor gives the graphs of a pair of a model type and a task take: all, or all but some.

`tests/sweeps/every_input.json` holds a line for each pair that agrees in heads.json: `all`; `all, by with_input of ...`
if the graphs leave inputs out and agree with PyTorch with the edit that adds them; or `not: ...` with the inputs that
no edit adds.
"""

from __future__ import annotations

from pathlib import Path
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
