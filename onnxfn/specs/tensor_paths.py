"""Where a tensor sits in the arguments or the result of `forward`: a path such as `("past_key_values", 0, 1)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnxfn.specs.errors import InvalidSpec, UnknownName, closest, listed

Path = tuple[str | int, ...]


def nested(leaves: Iterable[tuple[Path, Any]]) -> Any:
    """The tree that has each value at its path. Names become the keys of a dict, numbers the positions of a tuple.

    Raises:
        InvalidSpec: Two values have the same path, one path goes through another, or the positions have a gap.

    >>> nested([(("input_ids",), 1), (("past", 0, 0), 2), (("past", 0, 1), 3)])
    {'input_ids': 1, 'past': ((2, 3),)}
    """
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
    """The value at a path in nested mappings, sequences and objects with attributes; UnknownName if there is none.

    >>> at(("past", 0, 1), {"past": ((2, 3),)})
    3
    """
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
    known = [str(key) for key in tree] if isinstance(tree, Mapping) else [type(tree).__name__]
    dotted = ".".join(map(str, path))
    raise UnknownName(f"nothing at {dotted!r}; there is: {listed(known)}{closest(str(step), known)}")
