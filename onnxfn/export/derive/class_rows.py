"""The row of a model type: its own, or the row of the model type whose classes it uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from attrs import evolve

from onnxfn.export.derive.auto_tables import TABLES, auto_tables, listed_classes, listed_tasks
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.tasks.tasks import WITH_PAST


def row_of(model_type: str, rows: Mapping[str, ExportSpec], model: Any = None) -> ExportSpec | None:
    """The row of a model type; None if neither the type nor its class has one.

    Some model types use the classes of another type: `exaone` uses `LlamaForCausalLM`. Their row is that of the other
    type, for the tasks in the tables of transformers. A type without tables has the row of the configuration type of
    the class of `model`.

    >>> from onnxfn import ARCHITECTURES
    >>> row_of("bert", ARCHITECTURES) is ARCHITECTURES["bert"], row_of("no type", ARCHITECTURES)
    (True, None)
    """
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
    """The model type that a class is named after, if transformers lists the class for that type; else None.

    >>> class_type("LlamaForCausalLM"), class_type("MyModel")
    ('llama', None)
    """
    types = {kind for table in auto_tables().values() for kind, names in table.classes.items() if name in names}
    named = [kind for kind in types if _plain(name).startswith(_plain(kind))]
    return max(named, key=len, default=None)


def _owners(model_type: str, model: Any) -> set[str | None]:
    """The model types after which the classes of a type are named; without classes, the type of the model's class."""
    listed = {name for task in TABLES for name in listed_classes(model_type, task)}
    if listed or not type(model).__module__.startswith("transformers.models."):
        return {class_type(name) for name in listed}
    return {getattr(getattr(model, "config_class", None), "model_type", None)}


def _plain(name: str) -> str:
    """A name in small letters and digits alone."""
    return re.sub("[^a-z0-9]", "", name.lower())
