"""Where a tensor sits in the arguments or the results of `forward`: flat names <-> nested values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnxfn.specs.errors import InvalidSpec, UnknownName, closest, listed

Path = tuple[str | int, ...]


def nested(leaves: Iterable[tuple[Path, Any]]) -> Any:
    """The tree that holds each value at its path: names make a dict, numbers a tuple.

    >>> nested([(("input_ids",), 1), (("past", 0, 0), 2), (("past", 0, 1), 3)])
    {'input_ids': 1, 'past': ((2, 3),)}
    """
    every = [(path, leaf) for path, leaf in leaves]
    if len(every) == 1 and every[0][0] == ():
        return every[0][1]
    branches: dict[str | int, list[tuple[Path, Any]]] = {}
    for path, leaf in every:
        if not path:
            raise InvalidSpec("two values share one path, or one path runs through another")
        branches.setdefault(path[0], []).append((path[1:], leaf))
    grown = {step: nested(branch) for step, branch in branches.items()}
    if any(isinstance(step, str) for step in grown):
        return grown
    if sorted(grown, key=int) != list(range(len(grown))):
        raise InvalidSpec(f"positions {sorted(grown, key=int)} of a path do not run from 0 without a gap")
    return tuple(grown[position] for position in range(len(grown)))


def flat(paths: Iterable[Path], tree: Any) -> tuple[Any, ...]:
    """The values at these paths; `flat(paths, nested(zip(paths, values))) == tuple(values)`."""
    return tuple(at(path, tree) for path in paths)


def at(path: Path, tree: Any) -> Any:
    """The value at a path of nested mappings, sequences and objects with attributes.

    >>> at(("past", 0, 1), {"past": ((2, 3),)})
    3
    """
    found = tree
    for index, step in enumerate(path):
        found = _step(found, step, path[: index + 1])
    return found


def _step(tree: Any, step: str | int, path: Path) -> Any:
    if isinstance(tree, Mapping):
        if step in tree:
            return tree[step]
    elif isinstance(step, int) and isinstance(tree, Sequence) and -len(tree) <= step < len(tree):
        return tree[step]
    elif isinstance(step, str) and hasattr(tree, step):
        return getattr(tree, step)
    there = [str(key) for key in tree] if isinstance(tree, Mapping) else [type(tree).__name__]
    where = ".".join(map(str, path))
    raise UnknownName(f"nothing at {where!r}; there is: {listed(there)}{closest(str(step), there)}")
