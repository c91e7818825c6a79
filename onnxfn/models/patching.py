"""Patches: functions of other packages, replaced in one thread while a model is traced."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from onnxfn.architectures.functions import function_named, is_short
from onnxfn.architectures.private.renamed import called_by_any_name
from onnxfn.models.thread_attributes import original, replaced
from onnxfn.specs.converters import resolve
from onnxfn.specs.errors import InvalidSpec, PatchFailed, UnknownName, first_line
from onnxfn.specs.records import Patch


@contextmanager
def applied(patches: Iterable[Patch]) -> Iterator[set[str]]:
    """Replaces the functions that the patches name, and restores them on leaving, the last one first.

    Only this thread calls the replacements; other threads call the originals. An inherited or missing attribute is set
    on the class and deleted on leaving. Yields the targets of a user's patches whose replacement was called. A
    replacement that is not a function counts as called.
    """
    called: set[str] = set()
    with ExitStack() as undo:
        for patch in patches:
            owner, name = _owner(patch.name)
            replacement = function_named(patch.by, "patches", kind="patch")
            noted = replacement if is_short(patch.by) else _noted(replacement, patch.name, called)
            if inspect.isfunction(noted):
                noted = _checked(called_by_any_name(noted), patch, owner, name)
            undo.enter_context(replaced(owner, name, noted))
        yield called


def _checked(function: Callable[..., Any], patch: Patch, owner: Any, name: str) -> Callable[..., Any]:
    """The replacement; TypeErrors of its call and of its own code become PatchFailed.

    A call that the original also refuses is the caller's fault. TypeErrors of special methods, such as `__len__`, are
    left alone: Python handles them itself.
    """
    if name.endswith("__"):
        return function
    before = original(owner, name)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except PatchFailed:
            raise
        except TypeError as error:
            if not _is_own(error, patch) or not _takes(before, arguments, named):
                raise
            raise PatchFailed(f"the patch {patch.by} of {patch.name} does not fit: {first_line(error)}") from error

    return call


def _is_own(error: TypeError, patch: Patch) -> bool:
    """Whether an error comes from the call or the code of a replacement, and not from a function that it called."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    own = function_named(patch.by, "patches", kind="patch").__module__ if is_short(patch.by) else __name__
    return frame.f_globals.get("__name__") in (own, __name__, called_by_any_name.__module__)


def _takes(function: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Whether a replaced function accepts these arguments; true if Python knows no signature of it."""
    is_static = isinstance(function, staticmethod)  # its replacement gets the instance too
    try:
        signature = inspect.signature(function.__func__ if is_static else function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments[is_static:], **named)
    except TypeError:
        return False
    return True


def _noted(replacement: Any, target: str, called: set[str]) -> Any:
    """A function that adds the target to `called` and calls the replacement; any other replacement as it is."""
    if not inspect.isfunction(replacement):
        called.add(target)
        return replacement
    function: Callable[..., Any] = replacement

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        called.add(target)
        return function(*arguments, **named)

    return call


def unused_patches(patches: Iterable[Patch], called: set[str]) -> tuple[str, ...]:
    """The targets of a user's patches that were not called. A row's patch may be for another task of its model."""
    return tuple(patch.name for patch in patches if not is_short(patch.by) and patch.name not in called)


def _owner(target: str) -> tuple[Any, str]:
    """The module or class that holds the target of a patch, and the name of the attribute.

    InvalidSpec if it belongs to another package than the target names: `transformers.utils:os.path.exists`.
    UnknownName if there is no such module or class.
    """
    *_, name = target.replace(":", ".").split(".")
    path = target[: -len(name) - 1]
    owner = resolve(path, {}, kind="target of a patch") if ":" in path else _module(path, target)
    module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    if module.split(".")[0] != path.split(".")[0].split(":")[0]:
        raise InvalidSpec(f"the target of the patch {target!r} lies in {module}: name it there")
    return owner, name


def _module(path: str, target: str) -> ModuleType:
    try:
        return import_module(path)
    except (ImportError, ValueError) as error:
        raise UnknownName(f"target of a patch {target!r}: module {path!r} cannot be imported: {error}") from error
