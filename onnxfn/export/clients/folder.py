"""The sources of side files: the plan, and the text files in the folder of the export."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from onnxfn.specs.algebra.planned import Part, Plan

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"

FILE_ORDER = (None, *["float32", "float16", "bfloat16", "q4", "q4f16", "q8", "int8", "uint8", "bnb4", "float64"])
"""The dtypes of variants, in the order of choice for a program that loads a single file. None: no suffix."""


@frozen
class Folder:
    """The folder of an export before it is published.

    Attributes:
        plan: The plan of the export.
        texts: The path of each configuration file in the folder, and its text.
        names: The paths of all files in the folder.
        subfolder: The folder in it that holds the graphs; empty for the folder itself.
        sidecars: The names of the graphs that have external data.
    """

    plan: Plan
    texts: Mapping[str, str] = field(factory=dict, converter=lambda texts: MappingProxyType({**texts}))
    names: frozenset[str] = frozenset()
    subfolder: str = ""
    sidecars: tuple[str, ...] = ()


SideFile = Callable[[Folder], dict[str, str]]
"""From a folder to the paths and the texts of the files that are new or changed."""


def json_object(folder: Folder, name: str) -> dict[str, Any] | None:
    """The object in a JSON file of a folder; None if there is no such file, or if it holds something else.

    >>> from onnxfn import EMPTY, compose, plan, takes, gives
    >>> small = plan(compose(EMPTY, takes("x", "n", "token_ids"), gives("y", "n")), {})
    >>> json_object(Folder(small, {"config.json": '{"a": 1}'}), "config.json")
    {'a': 1}
    """
    try:
        value = json.loads(folder.texts[name])
    except (KeyError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_text(value: Any) -> str:
    """A value as the text of a JSON file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def changed(folder: Folder, name: str, new: Mapping[str, Any] | None) -> dict[str, str]:
    """The file with a new object, if that differs from the present one; else nothing."""
    return {} if new is None or new == json_object(folder, name) else {name: json_text(new)}


def first_parts(plan: Plan) -> tuple[Part, ...]:
    """The parts of a plan in the dtype that a program loads first: float32, else float16, ..."""
    order = {dtype: number for number, dtype in enumerate(FILE_ORDER)}
    first = min((part.dtype for part in plan.parts), key=lambda dtype: order.get(dtype, len(order)), default=None)
    return tuple(part for part in plan.parts if part.dtype == first)
