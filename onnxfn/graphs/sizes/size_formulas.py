"""Formulas of dynamic sizes, read without a search through each formula, and printed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name


@contextmanager
def fast_size_formulas() -> Iterator[None]:
    """Lets torch return the formula of a size that it returned before, and restores what torch does.

    A trace reads formulas a million times. Each time, torch first searches the whole formula for symbols, to tell
    whether it is a number, and only then looks up whether it knows the answer. The translation writes the formula of
    each size of each value as text.
    """
    node_type = torch_name("SymNode")

    formula, text = node_type.expr, node_type.str
    node_type.expr = property(_known_or(formula.fget))
    node_type.str = lambda size: _text(size.expr)
    try:
        yield
    finally:
        node_type.expr, node_type.str = formula, text


@lru_cache(4096)
def _text(formula: Any) -> str:
    return str(formula)


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
