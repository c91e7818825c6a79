"""Patterns of the names of layers, as PEFT writes them: regular expressions, matched without backtracking.

A pattern comes with an adapter, so from anybody. Python's `re` may need hours for `(a|a)*b`. Here all places of a name
that a pattern can reach are followed at a time, so that the time is linear in the lengths of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from onnxfn.specs.errors import InvalidSpec, shortened

ATOM = r"\\[.dw]|\[[\w.-]+\]|[\w.-]"
UNIT = re.compile(rf"(?P<group>\((?:\?:)?(?:{ATOM}|\|)*\)|{ATOM})(?P<repeat>[*+?]?)")
"""A part of a pattern: a character, a class of characters, or names in parentheses; and how often it comes."""

LONGEST = 1000
"""The most characters of a pattern."""

KNOWN = "names, ., \\d, \\w, [0-9], (a|b), *, + and ?"


def is_match(pattern: str, name: str) -> bool:
    r"""Whether a pattern fits a name, or its end after a dot, as PEFT says. InvalidSpec for a pattern of another kind.

    >>> [is_match(pattern, "layers.10.q_proj") for pattern in ("q_proj", r"layers\.\d+\.(q|k)_proj", "^q_proj")]
    [True, True, False]
    """
    if name == pattern or name.endswith(f".{pattern}"):
        return True
    if "|" in pattern and "(" not in pattern:
        return any(is_match(form, name) for form in pattern.split("|"))
    places = {0} | ({match.end() for match in re.finditer(r"\.", name)} if not pattern.startswith("^") else set())
    for group, repeat in _units(pattern):
        after = _ends(group, name, places)
        new = after if repeat in ("*", "+") else set()
        while new := _ends(group, name, new) - after:
            after |= new
        places = places | after if repeat in ("*", "?") else after
    return len(name) in places


def _units(pattern: str) -> Iterator[tuple[str, str]]:
    """The parts of a pattern, each with its sign of repetition."""
    start, inner = 0, pattern.removeprefix("^").removesuffix("$")
    while start < len(inner):
        match = UNIT.match(inner, start) if len(inner) <= LONGEST else None
        if match is None:
            raise InvalidSpec(
                f"the pattern {shortened(pattern)} is of a kind that onnxfn does not know; known: {KNOWN}"
            )
        yield match["group"], match["repeat"]
        start = match.end()


def _ends(group: str, name: str, places: Iterable[int]) -> set[int]:
    """The places of a name that follow a part without repetition at any of some places."""
    forms = [re.compile(form) for form in group.removeprefix("(").removeprefix("?:").removesuffix(")").split("|")]
    return {match.end() for form in forms for start in places if (match := form.match(name, start))}
