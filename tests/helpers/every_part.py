"""Every model of transformers' tables that sees or hears and writes: its tiny model, and what its export gave."""

from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import every_head
import swept
from agreement import assert_agreement

import onnxfn
from onnxfn.architectures.wrappers.feature_methods import OF_FORWARD
from onnxfn.export.derive.auto_tables import auto_tables
from onnxfn.export.find.written_tasks import TOWERS

NAME = "parts"
"""The name of the file of results."""

SECONDS = 240
"""The limit of processor time for a pair."""

TABLES = {
    "image-text-to-text": ("MODEL_FOR_IMAGE_TEXT_TO_TEXT",),
    "audio-text-to-text": ("MODEL_FOR_MULTIMODAL_LM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM"),
    "any-to-any": ("MODEL_FOR_MULTIMODAL_LM",),
}
"""Task -> the tables of transformers whose model types are tried for it."""

SEES, HEARS = "get_image_features", "get_audio_features"
"""The methods of a model that sees, and of one that hears."""

DRAWS = ("janus",)
"""The model types that also draw."""

OF_TIMM = ("fast_vlm", "gemma3n", "perception_lm")
"""The model types whose towers are models of timm."""

LIBRARIES = ("timm", "torchvision", "pillow")
"""What those need besides the packages of all results."""


def pairs() -> tuple[tuple[str, str], ...]:
    """The model types and tasks: sight for the first table, hearing for those whose classes hear and write texts."""
    sight = auto_tables()["MODEL_FOR_IMAGE_TEXT_TO_TEXT"].classes
    listed = dict.fromkeys(
        model_type for table in TABLES["audio-text-to-text"] for model_type in auto_tables()[table].classes
    )
    hearing = [model_type for model_type in listed if has_method(model_type, HEARS)]
    both = [model_type for model_type in hearing if model_type in sight and has_method(model_type, SEES)]
    return (
        *((model_type, "image-text-to-text-with-past") for model_type in sight),
        *((model_type, "audio-text-to-text-with-past") for model_type in hearing),
        *((model_type, "any-to-any-with-past") for model_type in (*both, *DRAWS)),
    )


def has_method(model_type: str, method: str) -> bool:
    """Whether the classes of a model type see or hear; the class that writes texts may leave it to the model inside."""
    from transformers.models.auto.configuration_auto import model_type_to_module_name

    if model_type in auto_tables()["MODEL_FOR_TEXT_TO_WAVEFORM"].classes:
        return False
    folder = model_type_to_module_name(model_type)
    source = Path(find_spec("transformers").origin).parent / "models" / folder / f"modeling_{folder}.py"
    name = listed_class(model_type, "audio-text-to-text")
    return (name, method) in OF_FORWARD or (source.exists() and f"def {method}(" in source.read_text())


def listed_class(model_type: str, task: str) -> str:
    tables = (auto_tables()[table].classes for table in TABLES[task])
    (name,) = next(table[model_type] for table in tables if model_type in table)
    return name


def tiny_model(model_type: str, task: str) -> Any:
    """A tiny model of the class that transformers lists for a task; the test is skipped where it needs timm."""
    import others
    import shrunk
    from sizes import PARTS

    if model_type in OF_TIMM:
        others.library("timm")
    name = listed_class(model_type, task.removesuffix("-with-past"))
    return shrunk.model(model_type, name, **PARTS.get(model_type, {}))


def exported(model: Any, task: str, folder: Path) -> str:
    """The line of a model each of whose parts agrees with PyTorch and has the names and axes of the plan."""
    result = assert_agreement(onnxfn.export(onnxfn.spec_for(model, task), model, folder))
    towers = [part for part in result.plan.parts if part.name in TOWERS[task.removesuffix("-with-past")]]
    more = [f"{part.name} of {', '.join(part.inputs)}" for part in towers or result.plan.parts[:1]]
    is_timm = model.config.model_type in OF_TIMM
    return swept.line(result, *more, *(f"with {name} {version(name)}" for name in LIBRARIES if is_timm))


def line(model_type: str, task: str, folder: Path) -> str:
    """The line of a pair in the results: how far its export is from PyTorch, or why there is none."""
    build = partial(tiny_model, model_type, task)
    return every_head.line_of(SECONDS, build, lambda model: exported(model, task, folder))
