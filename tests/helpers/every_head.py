"""Every pair of a model type and a task that transformers' tables list: its tiny model, and what its export gave."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import swept
from agreement import assert_agreement
from time_limits import limited

import onnxfn
from onnxfn.export.derive.auto_tables import auto_tables, listed_classes, listed_tasks
from onnxfn.export.find.written_tasks import TOWERS
from onnxfn.specs.results.output_types import MAIN_INPUTS
from onnxfn.specs.tasks.tasks import for_task, task_names

NAME = "heads"
"""The name of the file of results."""

SECONDS = 120
"""The limit of processor time for a pair."""

LARGEST = 30_000_000
"""The largest number of parameters of a model that is tried."""

NO_MODEL, REFUSED, FAILED, NARROW = (
    f"{swept.NOT}{word}: " for word in ("no tiny model", "refused", "failed", "of texts alone")
)
"""How a line starts when no small model can be made that runs, when onnxfn says that it cannot export the pair, when
the export ends in an error or does not agree with PyTorch, and when it takes no images or sounds that the model reads.
"""

OF_TEXTS = frozenset(
    {
        *("fill-mask", "multiple-choice", "question-answering", "text-classification", "text-encoding"),
        *("text-generation", "token-classification"),
    }
)
"""Tasks of texts: their graphs need no images or sounds, whatever else a model reads."""

OVERRIDES: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("blip", "visual-question-answering"): {
        "vision_config": {
            "hidden_size": 32,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 24,
            "patch_size": 8,
            "initializer_range": 0.15,
        }
    },
    ("beit", "semantic-segmentation"): {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    ("jetmoe", "text-classification"): {"pad_token_id": 0},
    ("t5gemma", "text-encoding"): {"is_encoder_decoder": False},
    ("data2vec-vision", "semantic-segmentation"): {"num_hidden_layers": 4, "out_indices": [0, 1, 2, 3]},
}
"""What the tiny configuration of a pair needs beyond that of its model type."""

SEEN_OR_HEARD = frozenset({*MAIN_INPUTS["image"], *MAIN_INPUTS["audio"]})
"""The arguments that hold images or sounds. Videos are not among them: a model that sees takes its images."""

REFUSALS = (onnxfn.InvalidSpec, onnxfn.UnknownName, onnxfn.MissingValue)


def pairs() -> tuple[tuple[str, str], ...]:
    """The model types and tasks of the tables of transformers, without those that every_part.py tries."""
    model_types = sorted({model_type for table in auto_tables().values() for model_type in table.classes})
    listed = ((model_type, task) for model_type in model_types for task in listed_tasks(model_type))
    return tuple((model_type, task) for model_type, task in listed if task not in TOWERS)


def line(model_type: str, task: str, folder: Path) -> str:
    """The line of a pair in the results: how far its export is from PyTorch, or why there is none."""
    return line_of(SECONDS, partial(tiny_model, model_type, task), lambda model: exported(model, task, folder))


def line_of(seconds: float, build: Callable[[], Any], export: Callable[[Any], str]) -> str:
    """The line of the export of a model, or why there is none: where it is built, refused, or fails."""
    with limited(seconds):
        try:
            model = build()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the result of the sweep is the error
            return failure(NO_MODEL, error)
        try:
            return export(model)
        except (Exception, SystemExit, AssertionError) as error:  # noqa: BLE001
            return failure(REFUSED if isinstance(error, REFUSALS) else FAILED, error)


def exported(model: Any, task: str, folder: Path) -> str:
    """The line of a model whose export agrees with PyTorch and has the names and axes of the plan."""
    result = assert_agreement(onnxfn.export(onnxfn.spec_for(model, task), model, folder))
    inputs = dict.fromkeys(name for part in result.plan.parts for name in part.inputs)
    unread = [] if task in OF_TEXTS else unread_arguments(inputs, [each.name for each in result.plan.left_out])
    return f"{NARROW}no {', '.join(unread)}" if unread else swept.line(result, f"of {', '.join(inputs)}")


def unread_arguments(inputs: Collection[str], left_out: Iterable[str]) -> list[str]:
    """The arguments with images or sounds that no graph takes, where no graph takes any of that kind.

    >>> unread_arguments(["input_values"], ["input_features"]), unread_arguments(["input_ids"], ["input_features"])
    ([], ['input_features'])
    """
    kinds = [MAIN_INPUTS[kind] for kind in ("image", "audio") if not set(MAIN_INPUTS[kind]) & set(inputs)]
    return [name for name in left_out if any(name in kind for kind in kinds)]


def tiny_model(model_type: str, task: str) -> Any:
    """A tiny model of the class that a row or transformers' tables name for a task."""
    import shrunk
    import tiny
    import torch
    import transformers
    from sizes import PARTS

    row = onnxfn.ARCHITECTURES.get(model_type)
    name = next(iter(listed_classes(model_type, task)), None)
    if row is not None and task in task_names(row):
        name = for_task(row, task).call.loader or name
    kind = getattr(transformers, name)
    if getattr(kind, "forward", None) is torch.nn.Module.forward:
        raise ValueError(f"{name} has no forward, so it does not run")
    sizes = OVERRIDES.get((model_type, task), {})
    source, overrides = (tiny, sizes) if row is not None else (shrunk, {**PARTS.get(model_type, {}), **sizes})
    configuration = own_config(kind, source.config(model_type, **overrides))
    with torch.device("meta"):
        shapes = getattr(kind, "from_config", kind)(configuration)
    size = sum(tensor.numel() for tensor in shapes.parameters())
    if size > LARGEST:
        raise ValueError(f"no small configuration is known, this one has {size / 1e6:.0f} million parameters")
    return source.model(model_type, name, change=partial(own_config, kind), **overrides)


def own_config(kind: Any, configuration: Any) -> Any:
    """The configuration that a class takes: the one inside a configuration that has its type, or this one itself."""
    wanted = getattr(kind, "config_class", None)
    if wanted is None or isinstance(configuration, wanted):
        return configuration
    return next((part for part in vars(configuration).values() if isinstance(part, wanted)), configuration)


def failure(start: str, error: BaseException) -> str:
    first = next((text.strip() for text in str(error).splitlines() if text.strip()), "")
    return f"{start}{type(error).__name__}: {first}"[:300]
