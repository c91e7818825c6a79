"""Every model of transformers' tables that sees or hears and writes: its tiny model, and what its export gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import every_head
import swept
from agreement import assert_agreement
from time_limits import limited

import onnxfn
from onnxfn.export.lookup.auto_tables import auto_tables

NAME = "parts"
"""The name of the file of results."""

SECONDS = 240
"""The limit of processor time for a pair."""

TABLES = {"image-text-to-text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT", "audio-text-to-text": "MODEL_FOR_MULTIMODAL_LM"}
"""Task -> the table of transformers whose model types are tried for it."""


def pairs() -> tuple[tuple[str, str], ...]:
    """The model types and tasks: sight for the first table, hearing for those whose classes hear."""
    import transformers

    def hears(model_type: str) -> bool:
        (name,) = auto_tables()["MODEL_FOR_MULTIMODAL_LM"].classes[model_type]
        return hasattr(getattr(transformers, name), "get_audio_features") or "audio" in model_type

    sight = auto_tables()["MODEL_FOR_IMAGE_TEXT_TO_TEXT"].classes
    hearing = filter(hears, auto_tables()["MODEL_FOR_MULTIMODAL_LM"].classes)
    return (
        *((model_type, "image-text-to-text-with-past") for model_type in sight),
        *((model_type, "audio-text-to-text-with-past") for model_type in hearing),
    )


def tiny_model(model_type: str, task: str) -> Any:
    """A tiny model of the class that transformers lists for a task."""
    import shrunk
    from sizes.parts import OVERRIDES

    (name,) = auto_tables()[TABLES[task.removesuffix("-with-past")]].classes[model_type]
    return shrunk.model(model_type, name, **OVERRIDES.get(model_type, {}))


def exported(model: Any, task: str, folder: Path) -> str:
    """The line of a model each of whose parts agrees with PyTorch and has the names and axes of the plan."""
    result = assert_agreement(onnxfn.export(onnxfn.spec_for(model, task), model, folder), folder)
    tower = result.plan.parts[0]
    return swept.line(result, f"{tower.name} of {', '.join(tower.inputs)}")


def line(model_type: str, task: str, folder: Path) -> str:
    """The line of a pair in the results: how far its export is from PyTorch, or why there is none."""
    with limited(SECONDS):
        try:
            model = tiny_model(model_type, task)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the result of the sweep is the error
            return every_head.failure(every_head.NO_MODEL, error)
        try:
            return exported(model, task, folder)
        except (Exception, SystemExit, AssertionError) as error:  # noqa: BLE001
            kind = every_head.REFUSED if isinstance(error, every_head.REFUSALS) else every_head.FAILED
            return every_head.failure(kind, error)
