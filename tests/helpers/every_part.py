"""Every model of transformers' tables that sees or hears and writes: its tiny model, and what its export gave."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import every_head
import swept
from agreement import assert_agreement
from time_limits import limited

import onnxfn
from onnxfn.architectures.wrappers.feature_methods import OF_FORWARD
from onnxfn.export.lookup.auto_tables import auto_tables

NAME = "parts"
"""The name of the file of results."""

SECONDS = 240
"""The limit of processor time for a pair."""

TABLES = {
    "image-text-to-text": ("MODEL_FOR_IMAGE_TEXT_TO_TEXT",),
    "audio-text-to-text": ("MODEL_FOR_MULTIMODAL_LM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM"),
}
"""Task -> the tables of transformers whose model types are tried for it."""

HEARS = "get_audio_features"
"""The method of a model that hears."""

SPEAKS = "MODEL_FOR_TEXT_TO_WAVEFORM"
"""The table of models that write sounds; the part of each that writes texts has a model type of its own."""


def pairs() -> tuple[tuple[str, str], ...]:
    """The model types and tasks: sight for the first table, hearing for those whose classes hear and write texts."""
    sight = auto_tables()["MODEL_FOR_IMAGE_TEXT_TO_TEXT"].classes
    listed = dict.fromkeys(
        model_type for table in TABLES["audio-text-to-text"] for model_type in auto_tables()[table].classes
    )
    return (
        *((model_type, "image-text-to-text-with-past") for model_type in sight),
        *((model_type, "audio-text-to-text-with-past") for model_type in filter(hears, listed)),
    )


def hears(model_type: str) -> bool:
    """Whether the classes of a model type hear; the class that writes texts may leave that to the model inside it."""
    from transformers.models.auto.configuration_auto import model_type_to_module_name

    if model_type in auto_tables()[SPEAKS].classes:
        return False
    folder = model_type_to_module_name(model_type)
    source = Path(find_spec("transformers").origin).parent / "models" / folder / f"modeling_{folder}.py"
    name = listed_class(model_type, "audio-text-to-text")
    return (name, HEARS) in OF_FORWARD or (source.exists() and f"def {HEARS}(" in source.read_text())


def listed_class(model_type: str, task: str) -> str:
    """The class that transformers lists for a model type and a task."""
    tables = (auto_tables()[table].classes for table in TABLES[task])
    (name,) = next(table[model_type] for table in tables if model_type in table)
    return name


def tiny_model(model_type: str, task: str) -> Any:
    """A tiny model of the class that transformers lists for a task."""
    import shrunk
    from sizes.parts import OVERRIDES

    name = listed_class(model_type, task.removesuffix("-with-past"))
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
