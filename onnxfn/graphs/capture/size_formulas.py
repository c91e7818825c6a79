"""Formulas of dynamic sizes, read without a search through each formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fast_size_formulas() -> Iterator[None]:
    """Lets torch return the formula of a size that it returned before, and restores what torch does.

    A trace reads formulas a million times. Each time, torch first searches the whole formula for symbols, to tell
    whether it is a number, and only then looks up whether it knows the answer.
    """
    from torch.fx.experimental.sym_node import SymNode

    formula = SymNode.expr
    SymNode.expr = property(_known_or(formula.fget))
    try:
        yield
    finally:
        SymNode.expr = formula


def _known_or(search: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that returns the formula of a size: the last one, while no symbol was replaced, else torch's."""

    def formula(size: Any) -> Any:
        sizes = size.shape_env
        if sizes is None:
            return search(size)
        version = sizes._replacements_version_counter
        if version == 0:
            return size._expr
        if size._expr_ver == version and size._expr_cache is not None:
            return size._expr_cache
        return search(size)

    return formula
