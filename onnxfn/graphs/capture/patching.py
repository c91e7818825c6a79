"""Patches: functions of other packages, replaced while a model is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from onnxfn.architectures.functions import FUNCTIONS
from onnxfn.specs.functions import resolve
from onnxfn.specs.records import Patch


@contextmanager
def applied(patches: tuple[Patch, ...]) -> Iterator[None]:
    """Replaces the functions that the patches name, and restores them on leaving, the last one first.

    A function that its class inherits, or lacks, is added to the class and removed on leaving.
    """
    with ExitStack() as undo:
        for patch in patches:
            owner, name = _owner(patch.name)
            undo.callback(
                *((setattr, owner, name, vars(owner)[name]) if name in vars(owner) else (delattr, owner, name))
            )
            setattr(owner, name, resolve(patch.by, FUNCTIONS, kind="patch"))
        yield


def _owner(target: str) -> tuple[Any, str]:
    """The module or class that holds the target of a patch, and the name of the attribute."""
    *_, name = target.replace(":", ".").split(".")
    path = target[: -len(name) - 1]
    return (resolve(path, {}, kind="target of a patch") if ":" in path else import_module(path)), name
