"""Comparisons of dynamic sizes with numbers, by the least value that a formula can have.

While torch finds the shape of an output, it asks of many sizes whether they are 0, 1 or negative. To answer that, it
expands the formula and searches for simplifications. Most answers follow from the least values of the symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name

ANSWERS: Mapping[str, tuple[Callable[[int, int], bool], bool]] = MappingProxyType(
    {
        "gt": (operator.gt, True),
        "ge": (operator.ge, True),
        "lt": (operator.ge, False),
        "le": (operator.gt, False),
        "eq": (operator.gt, False),
        "ne": (operator.gt, True),
    }
)
"""From a comparison of torch to its answer, and to how the least value and the number are related if it has that."""


@contextmanager
def fast_comparisons() -> Iterator[None]:
    """Lets torch compare sizes with numbers by their least values first, and restores what torch does."""
    node_type = torch_name("SymNode")

    originals = {name: getattr(node_type, name) for name in ANSWERS}
    for name, compare in originals.items():
        setattr(node_type, name, _answered_or(compare, *ANSWERS[name]))
    try:
        yield
    finally:
        for name, compare in originals.items():
            setattr(node_type, name, compare)


def least_value(formula: Any, least: Mapping[Any, int]) -> int | None:
    """A number that a formula of integers is never below, from such numbers for its symbols; None if none is seen.

    >>> import sympy
    >>> rows, columns = sympy.symbols("rows columns", integer=True)
    >>> least_value((rows + 1) * columns - 3, {rows: 2, columns: 5})
    12
    """
    floor_division, maximum = torch_name("FloorDiv"), torch_name("Max")

    if formula.is_Integer or formula.is_Symbol:
        return int(formula) if formula.is_Integer else least.get(formula)
    values = [least_value(part, least) for part in formula.args]
    known = [value for value in values if value is not None]
    if isinstance(formula, maximum):
        return max(known, default=None)
    if len(known) < len(values) or not values:
        return None
    if isinstance(formula, floor_division):
        return known[0] // int(formula.args[1]) if formula.args[1].is_Integer and known[1] > 0 else None
    return sum(known) if formula.is_Add else _least_product(formula, known)


def _least_product(formula: Any, factors: Sequence[int]) -> int | None:
    """The least value of a product or a power, whose parts have these least values."""
    if min(factors) < 0 or not (formula.is_Mul or (formula.is_Pow and formula.exp.is_Integer)):
        return None
    return prod(factors) if formula.is_Mul else factors[0] ** factors[1]


def _answered_or(compare: Callable[..., Any], holds: Callable[[int, int], bool], answer: bool) -> Callable[..., Any]:  # noqa: FBT001
    """The comparison, answered by least values where they tell. What becomes a part of a graph is left to torch."""
    proxy_mode = torch_name("proxy_mode")

    def compared(size: Any, other: Any) -> Any:
        number = other._expr
        if number.is_Integer and size.shape_env is not None and proxy_mode() is None:
            least = _least_size(size.expr, size.shape_env.var_to_range)
            if least is not None and holds(least, int(number)):
                return size.wrap_bool(answer)
        return compare(size, other)

    return compared


def _least_size(formula: Any, ranges: Mapping[Any, Any]) -> int | None:
    symbols = _symbols(formula)
    return _least_value(formula, tuple((symbol, _lower_end(ranges.get(symbol))) for symbol in symbols))


@lru_cache(4096)
def _symbols(formula: Any) -> tuple[Any, ...]:
    return tuple(formula.free_symbols)


def _lower_end(allowed: Any) -> int | None:
    """The lower end of a range of torch; None if it has none."""
    return int(allowed.lower) if getattr(getattr(allowed, "lower", None), "is_Integer", False) else None


@lru_cache(4096)
def _least_value(formula: Any, least: tuple[tuple[Any, int | None], ...]) -> int | None:
    return least_value(formula, {symbol: end for symbol, end in least if end is not None})
