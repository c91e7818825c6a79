"""Patches: functions of other packages, replaced while a model is traced; each thread sees its own replacements."""

import builtins
import functools
import inspect
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.architectures.functions import function_named, is_short
from onnxfn.architectures.private.renamed import called_by_any_name
from onnxfn.specs.converters import resolve
from onnxfn.specs.errors import InvalidSpec, PatchFailed, UnknownName, first_line, raise_no_memory
from onnxfn.specs.records import Patch

CHANGES = threading.Lock()
"""Held while an attribute is set: never while a replacement is in use, so that no thread waits for another."""


@contextmanager
def applied(patches: Iterable[Patch]) -> Iterator[set[str]]:
    """Replaces what patches name in this thread; yields the targets of a user's that were called or are no function."""
    called: set[str] = set()
    with ExitStack() as undo:
        for patch in patches:
            owner, name = _owner(patch.name)
            replacement = function_named(patch.by, "patches", kind="patch")
            noted = set[str]() if is_short(patch.by) else called
            if inspect.isfunction(replacement):
                replacement = _checked(called_by_any_name(replacement), patch, original(owner, name), noted)
            else:
                noted.add(patch.name)
            undo.enter_context(replaced(owner, name, replacement))
        yield called


def _checked(function: Callable[..., Any], patch: Patch, before: Any, called: set[str]) -> Callable[..., Any]:
    """The replacement; it adds its target to `called`. TypeErrors that the original has not become PatchFailed."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        called.add(patch.name)
        try:
            return function(*arguments, **named)
        except PatchFailed:
            raise
        except TypeError as error:
            if patch.name.endswith("__") or not _is_own(error, patch) or not _takes(before, arguments, named):
                raise
            raise PatchFailed(f"the patch {patch.by} of {patch.name} does not fit: {first_line(error)}") from error

    return call


def _is_own(error: TypeError, patch: Patch) -> bool:
    """Whether an error comes from the call or the code of a replacement, and not from a function that it called."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    own = function_named(patch.by, "patches", kind="patch").__module__ if is_short(patch.by) else __name__
    return frame.f_globals.get("__name__") in (own, __name__, called_by_any_name.__module__)


def _takes(function: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Whether a replaced function runs on these arguments without a TypeError; true for what is not a function."""
    is_static = isinstance(function, staticmethod)  # its replacement gets the instance too
    try:
        if callable(function):
            function(*arguments[is_static:], **named)
    except Exception as error:  # noqa: BLE001 - a trace refuses some originals, which is why they are replaced
        raise_no_memory(error)
        return not isinstance(error, TypeError)
    return True


def unused_patches(patches: Iterable[Patch], called: set[str]) -> tuple[str, ...]:
    """The targets of a user's patches that were not called. A row's patch may be for another task of its model."""
    return tuple(patch.name for patch in patches if not is_short(patch.by) and patch.name not in called)


@frozen(eq=False)
class Replacement:
    """What one thread sees in place of an attribute until `ended`; then an equal identifier is another thread's."""

    value: Any
    thread: int = field(factory=threading.get_ident)
    ended: threading.Event = field(factory=threading.Event)


@frozen(eq=False)
class ThreadAttribute:
    """An attribute as threads see it: `before`, which its owner has (`is_stored`) or computes, and its replacements."""

    owner: Any
    name: str
    before: tuple[Any, ...]
    is_stored: bool
    replacements: tuple[Replacement, ...] = ()

    def own(self) -> tuple[Any, ...]:
        """The last replacement of this thread, if there is one."""
        thread = threading.get_ident()
        own = (each for each in reversed(self.replacements) if each.thread == thread and not each.ended.is_set())
        return tuple(each.value for each in own)[:1]

    def inherited(self, class_: Any) -> tuple[Any, ...]:
        """What a class has without replacements, from the owner on; a module also has Python's `len` and `int`."""
        if self.before:
            return self.before
        after = class_.__mro__[class_.__mro__.index(self.owner) + 1 :] if inspect.isclass(class_) else (builtins,)
        return tuple(vars(each)[self.name] for each in after if self.name in vars(each))[:1]

    def __get__(self, instance: Any, class_: type | None = None) -> Any:
        """What Python finds where the class has the value of this thread."""
        values = self.own() or self.inherited(class_ or type(instance))
        is_first = instance is None or any(map(inspect.isdatadescriptor, values))
        if not is_first and self.name in getattr(instance, "__dict__", ()):
            return vars(instance)[self.name]
        for value in values:
            return value.__get__(instance, class_) if hasattr(value, "__get__") else value
        raise AttributeError(f"{(class_ or type(instance)).__name__!r} has no attribute {self.name!r}")

    def __set__(self, instance: Any, value: Any) -> None:
        """Writes where the original attribute is written: into the instance, unless the class has a rule of its own."""
        for each in self.inherited(type(instance)):
            if hasattr(each, "__set__"):
                each.__set__(instance, value)
                return
        vars(instance)[self.name] = value

    def __delete__(self, instance: Any) -> None:
        """Deletes where the original attribute is deleted."""
        for each in self.inherited(type(instance)):
            if hasattr(each, "__delete__"):
                each.__delete__(instance)
                return
        if self.name not in vars(instance):
            raise AttributeError(self.name)
        del vars(instance)[self.name]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """What the function of a module returns in this thread."""
        return self.__get__(None, self.owner)(*arguments, **named)

    def __instancecheck__(self, value: Any) -> bool:
        """For `isinstance(value, int)` in a module that has another `int`."""
        return isinstance(value, self.inherited(self.owner))

    __name__ = property(attrgetter("name"))


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replaces an attribute of a module or class for this thread until its end. Threads may end in any order."""
    replacement = Replacement(value)
    _set(owner, name, (replacement,))
    try:
        yield
    finally:
        replacement.ended.set()
        _set(owner, name)


def original(owner: Any, name: str) -> Any:
    """The attribute of a module or class without replacements, as it is stored; None if there is none."""
    value = inspect.getattr_static(owner, name, None)
    return next(iter(value.inherited(owner)), None) if type(value) is ThreadAttribute else value


def _set(owner: Any, name: str, new: tuple[Replacement, ...] = ()) -> None:
    """Stores an attribute with the replacements that have not ended and with new ones, or as it was without any."""
    with CHANGES:
        is_computed = not inspect.isclass(owner) and hasattr(owner, name)  # maybe when a module is asked for it
        stored = tuple(vars(owner)[key] for key in {name} & vars(owner).keys())
        before = (getattr(owner, name),) if is_computed else stored
        here = ThreadAttribute(owner, name, before, name in vars(owner))
        attribute = next((each for each in before if type(each) is ThreadAttribute), here)
        left = tuple(each for each in attribute.replacements if not each.ended.is_set())
        if left or new:
            setattr(owner, name, evolve(attribute, replacements=(*left, *new)))
        elif attribute.is_stored:
            setattr(owner, name, attribute.before[0])
        elif here.is_stored:
            delattr(owner, name)


def _owner(target: str) -> tuple[Any, str]:
    """The module or class with the target of a patch, and the attribute. InvalidSpec if it is of another package."""
    *_, name = target.replace(":", ".").split(".")
    path = target[: -len(name) - 1]
    try:
        owner = resolve(path, {}, kind="target of a patch") if ":" in path else import_module(path)
    except (ImportError, ValueError) as error:
        raise UnknownName(f"target of a patch {target!r}: module {path!r} cannot be imported: {error}") from error
    module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    if module.split(".")[0] != path.split(".")[0].split(":")[0]:
        raise InvalidSpec(f"the target of the patch {target!r} lies in {module}: name it there")
    return owner, name
