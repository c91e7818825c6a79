"""Converters of fields; from the name of a function to the function, from the path of a tensor to it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from numbers import Integral, Real
from operator import attrgetter
from typing import Any

from onnxfn.specs.errors import InvalidSpec, UnknownName, closest, listed, shortened, unknown

Arguments = tuple[tuple[str, Any], ...]
"""Keyword arguments as pairs."""


def sorted_arguments(arguments: Mapping[str, Any] | Arguments) -> Arguments:
    """Keyword arguments as sorted pairs, which compare and hash. InvalidSpec if they are not keyword arguments."""
    try:
        return tuple(sorted(dict(arguments).items()))
    except (TypeError, ValueError):
        raise InvalidSpec(f"the arguments of a function are a dict, not {shortened(arguments)}") from None


def plain_number(value: Any) -> Any:
    """A number of another library, such as numpy, as a Python number; any other value unchanged."""
    if isinstance(value, (bool, int, float)) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def as_tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values as a tuple. InvalidSpec if they are no collection, or a text, whose letters are not meant."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        kind, shown = "text" if isinstance(values, str) else "value", shortened(values)
        raise InvalidSpec(f"a sequence is expected, not the {kind} {shown}; of one item write [{shown}]")
    return tuple(values)


def unique_names(_: Any, attribute: Any, records: Collection[Any]) -> None:
    """A validator: no two records of one field have the same name. Values without a name are of another type."""
    if len(records) < 2:  # noqa: PLR2004 - two records that have one name
        return
    names = [name for name in (getattr(record, "name", None) for record in records) if name is not None]
    if len({*names}) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InvalidSpec(
            f"{attribute.name} has {duplicate!r} twice; keep one of them, or compose two specs: the right one wins"
        )


def resolve(name: str, known: Mapping[str, Any], *, kind: str) -> Any:
    """The function of a name: a key of `known`, or `package.module:Class.method`. UnknownName if there is none."""
    function = known.get(name, name)
    if not isinstance(function, str):
        return function
    if ":" not in function:
        raise UnknownName(f"{unknown(kind, name, known)}; any other function is written 'package.module:function'")
    module, _, attributes = function.partition(":")
    try:
        value: Any = import_module(module)
    except (ImportError, TypeError, ValueError) as problem:  # the last two for ".module:f" and ":f"
        raise UnknownName(f"{kind} {name!r}: module {module!r} cannot be imported: {problem}") from problem
    for attribute in attributes.split("."):
        if not hasattr(value, attribute):
            public = [public_name for public_name in dir(value) if not public_name.startswith("_")]
            raise unknown(kind, attribute, public, of=repr(name))
        value = getattr(value, attribute)
    return value


Path = tuple[str | int, ...]


def nested(leaves: Iterable[tuple[Path, Any]]) -> Any:
    """The tree that has each value at its path: dicts by names, tuples by numbers. InvalidSpec for a clash or a gap."""
    items = list(leaves)
    if len(items) == 1 and items[0][0] == ():
        return items[0][1]
    branches: dict[str | int, list[tuple[Path, Any]]] = {}
    for path, leaf in items:
        if not path:
            raise InvalidSpec("two values have the same path, or the path of one goes through another")
        branches.setdefault(path[0], []).append((path[1:], leaf))
    trees = {step: nested(branch) for step, branch in branches.items()}
    if any(isinstance(step, str) for step in trees):
        return trees
    positions = sorted(map(int, trees))
    if positions != list(range(len(trees))):
        raise InvalidSpec(f"the positions of a path are {positions}; they must be 0, 1, 2, ... without a gap")
    return tuple(trees[position] for position in positions)


def at(path: Path, tree: Any) -> Any:
    """The value at a path in nested mappings, sequences and objects with attributes; UnknownName if there is none."""
    value = tree
    for index, step in enumerate(path):
        value = _child(value, step, path[: index + 1])
    return value


def _child(tree: Any, step: str | int, path: Path) -> Any:
    if isinstance(tree, Mapping):
        if step in tree:
            return tree[step]
    elif isinstance(step, int) and isinstance(tree, Sequence) and -len(tree) <= step < len(tree):
        return tree[step]
    elif isinstance(step, str) and hasattr(tree, step):
        return getattr(tree, step)
    known, dotted = [str(key) for key in tree] if isinstance(tree, Mapping) else [], ".".join(map(str, path))
    where = f"; there is: {listed(known)}" if known else f" of an object of the type {type(tree).__name__}"
    raise UnknownName(f"nothing at {dotted!r}{where}{closest(str(step), known)}")


def at_path(path: str) -> Any:
    """The object named by `package.module` or `package.module:name`, looked up anew: a patch may stand there."""
    module, _, name = path.partition(":")
    return attrgetter(name)(import_module(module)) if name else import_module(module)
