"""Quotients of dynamic sizes, by their factors.

To divide two formulas, torch lets sympy simplify both. Where sizes are formulas of formulas, as after some stages that
pad images to windows, that takes minutes. Most divisors are factors of what they divide.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.sizes.size_factors import ONE, Factors, factors_of, formula_of


@contextmanager
def fast_quotients() -> Iterator[None]:
    """Lets torch divide sizes by their factors first, and restores what torch does."""
    node_type = torch_name("SymNode")

    divide, remainder = node_type.int_floordiv, node_type.mod
    node_type.int_floordiv = _answered_or(divide, operator.floordiv, formula_of)
    node_type.mod = _answered_or(remainder, operator.mod, lambda _: formula_of(Factors(0)))
    try:
        yield
    finally:
        node_type.int_floordiv, node_type.mod = divide, remainder


def _answered_or(
    compute: Callable[..., Any], of_numbers: Callable[[int, int], int], answer: Callable[[Factors], Any]
) -> Callable[..., Any]:
    """The operator, answered from the factors of the quotient. What becomes a part of a graph is left to torch."""
    node_type, proxy_mode = torch_name("SymNode"), torch_name("proxy_mode")

    def computed(size: Any, other: Any) -> Any:
        if size.shape_env is None or proxy_mode() is not None or None in (size.hint, other.hint):
            return compute(size, other)
        divisor = factors_of(other.expr)
        left = None if divisor == ONE else factors_of(size.expr).without(divisor)
        if left is None:
            return compute(size, other)
        return node_type(answer(left), size.shape_env, int, of_numbers(size.hint, other.hint))

    return computed
