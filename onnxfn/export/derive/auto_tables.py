"""The tables of transformers' auto classes: for which tasks a model type has a class."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from attrs import evolve, frozen

from onnxfn.export.load.class_tasks import loader_of, projected_class
from onnxfn.models.pretrained import pretrained
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, TASKS, WITH_PAST, canonical


def _tables(*names: str) -> tuple[str, ...]:
    return tuple(f"MODEL_FOR_{name}" for name in names)


OTHER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "feature-extraction": ("MODEL", *_tables("MASK_GENERATION", "AUDIO_TOKENIZATION")),
        "fill-mask": _tables("MASKED_LM"),
        "text-generation": _tables("CAUSAL_LM"),
        "text2text-generation": _tables("SEQ_TO_SEQ_CAUSAL_LM"),
        "text-classification": _tables("SEQUENCE_CLASSIFICATION"),
        "masked-im": _tables("MASKED_IMAGE_MODELING"),
        "image-segmentation": _tables("IMAGE_SEGMENTATION", "INSTANCE_SEGMENTATION", "UNIVERSAL_SEGMENTATION"),
        "keypoint-detection": _tables("KEYPOINT_DETECTION", "POSE_ESTIMATION"),
        "automatic-speech-recognition": _tables("SPEECH_SEQ_2_SEQ", "CTC", "RNNT", "TDT"),
        **dict.fromkeys(("audio-text-to-text", "any-to-any"), _tables("MULTIMODAL_LM")),
        "text-to-audio": _tables("TEXT_TO_WAVEFORM", "TEXT_TO_SPECTROGRAM"),
        "time-series-forecasting": _tables("TIME_SERIES_PREDICTION"),
    }
)
"""Task -> the tables of its classes by precedence, for tasks without a table of the same name."""

TABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {task: OTHER_NAMES.get(task, _tables(task.upper().replace("-", "_"))) for task in TASKS}
)
"""Task -> its tables in transformers: `MODEL_FOR_CTC` stands for `MODEL_FOR_CTC_MAPPING_NAMES`. Some have none."""


@frozen
class AutoTable:
    """A table of transformers: model type -> the names of its classes; and the auto class that reads it, if any."""

    classes: Mapping[str, tuple[str, ...]]
    loader: str | None = None


def listed_tasks(model_type: str) -> tuple[str, ...]:
    """The tasks for which transformers lists a class; the encoder of a text only where it is not the whole model."""
    classes = {task: listed_classes(model_type, task) for task in TABLES}
    whole_model = classes["text-encoding"] == classes[DEFAULT_TASK]
    return tuple(task for task, names in classes.items() if names and not (whole_model and task == "text-encoding"))


def listed_classes(model_type: str, task: str) -> tuple[str, ...]:
    """The classes that the tables of transformers list for a model type and a task; the first table counts."""
    return next((table.classes[model_type] for table in _tables_of(task) if model_type in table.classes), ())


def listed_loader(model_type: str, task: str) -> str | None:
    """The class that loads a type for a task: an auto class, else the model's own; None if none is listed."""
    table = next((table for table in _tables_of(task) if model_type in table.classes), None)
    return None if table is None else table.loader or table.classes[model_type][0]


def loaded_classes(model_type: str, loader: str | None) -> tuple[str, ...]:
    """The classes of a model type that a loader chooses from: those of its table, or the loader itself."""
    table = next((table for table in auto_tables().values() if loader and table.loader == loader), None)
    return table.classes.get(model_type, ()) if table else (loader or "",)


def is_listed(class_name: str, task: str) -> bool:
    """Whether the tables of transformers list a class for a task, for any type: Llama 4's decoder has another one."""
    return any(class_name in classes for table in _tables_of(task) for classes in table.classes.values())


def _tables_of(task: str) -> Iterator[AutoTable]:
    return (auto_tables().get(name, AutoTable({})) for name in TABLES.get(task, ()))


@cache
def auto_tables() -> Mapping[str, AutoTable]:
    """The tables of transformers by the names that TABLES has."""
    from transformers.models.auto import modeling_auto

    named = vars(modeling_auto)
    mappings = {name: loader._model_mapping for name, loader in named.items() if name.startswith("Auto")}
    loaders = {id(mapping._model_mapping): name for name, mapping in mappings.items()}
    return MappingProxyType(
        {
            name.removesuffix("_NAMES").removesuffix("_MAPPING"): AutoTable(
                # A table has a text where it lists a single class.
                MappingProxyType({key: (of,) if isinstance(of, str) else tuple(of) for key, of in table.items()}),
                loaders.get(id(table)),
            )
            for name, table in named.items()
            if name.startswith("MODEL_") and name.endswith("_NAMES")
        }
    )


def listed_model(config: Any, task: str) -> Any:
    """The model of a configuration by the class that is listed for a task, or projects, with random weights."""
    import transformers

    name = projected_class(config) or listed_loader(config.model_type, canonical(task)) or loader_of(task)
    loader = getattr(transformers, name)
    is_auto = hasattr(loader, "from_config")
    return pretrained(loader.from_config, config, trust_remote_code=False) if is_auto else loader(config)


def row_of(model_type: str, rows: Mapping[str, ExportSpec], model: Any = None) -> ExportSpec | None:
    """The row of a model type, or that of the type whose classes it uses, for the tasks in transformers; else None."""
    if model_type in rows:
        return rows[model_type]
    owners = _owners(model_type, model)
    owner = owners.pop() if len(owners) == 1 else None
    if owner is None or owner not in rows:
        return None
    row, listed = rows[owner], listed_tasks(model_type)
    tasks = tuple(task for task in row.tasks if not listed or task.name.removesuffix(WITH_PAST) in listed)
    return evolve(row, name=model_type, tasks=tasks, derived=f"the row of {owner}, whose classes {model_type} has")


@cache
def class_type(name: str) -> str | None:
    """The model type that a class is named after, if transformers lists the class for that type; else None."""
    types = {kind for table in auto_tables().values() for kind, names in table.classes.items() if name in names}
    return max((kind for kind in types if _plain(name).startswith(_plain(kind))), key=len, default=None)


def _owners(model_type: str, model: Any) -> set[str | None]:
    """The model types after which the classes of a type are named; without classes, the type of the model's class."""
    listed = {name for task in TABLES for name in listed_classes(model_type, task)}
    if listed or not type(model).__module__.startswith("transformers.models."):
        return {class_type(name) for name in listed}
    return {getattr(getattr(model, "config_class", None), "model_type", None)}


def _plain(name: str) -> str:
    """A name in small letters and digits alone."""
    return re.sub("[^a-z0-9]", "", name.lower())
