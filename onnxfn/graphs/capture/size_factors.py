"""Sizes as products of factors: whether two are equal, and what is left of a product, without a search by sympy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

from attrs import field, frozen

from onnxfn.architectures.private.torch_names import torch_name


@frozen
class Factors:
    """A product of an integer and of formulas.

    Attributes:
        number: The integer.
        powers: From each formula to how often it is a factor. No formula is a multiple of an integer.
    """

    number: int
    powers: Mapping[Any, int] = field(factory=dict)

    def __mul__(self, other: Factors) -> Factors:
        return Factors(self.number * other.number, dict(Counter(self.powers) + Counter(other.powers)))

    def without(self, other: Factors) -> Factors | None:
        """The factors that are left without those of `other`; None if `other` has others, or if one may be 0."""
        left = Counter(self.powers)
        left.subtract(other.powers)
        if not other.number or self.number % other.number or min(left.values(), default=0) < 0:
            return None
        return Factors(self.number // other.number, dict(+left))


ONE = Factors(1)


def factors(size: Any) -> Factors:
    """The factors of a size, which is a number or a formula."""
    return _factors_of(size.node.expr) if hasattr(size, "node") else Factors(size)


def stride_factors(stride: Any) -> Factors:
    """The factors of a stride. Of an axis of size x torch writes Max(1, x), for empty tensors; here x is the factor."""
    return _factors_of(_without_max(stride.node.expr)) if hasattr(stride, "node") else Factors(stride)


def product(sizes: Iterable[Any]) -> Factors:
    """The factors of a product of sizes."""
    return reduce(Factors.__mul__, map(factors, sizes), ONE)


def equal(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether sizes are equal by their factors."""
    return len(first) == len(second) and all(factors(a) == factors(b) for a, b in zip(first, second, strict=True))


@lru_cache(4096)
def _factors_of(formula: Any) -> Factors:
    """The factors of a formula. sympy keeps 2*(x + 1) as 2*x + 2, so the number is taken out of each sum.

    >>> import sympy
    >>> x = sympy.Symbol("x", integer=True)
    >>> _factors_of((2 * x + 2) * 3) == _factors_of(6 * (x + 1))
    True
    """
    number, powers = 1, Counter[Any]()
    for factor in formula.as_ordered_factors() if formula.is_Mul else (formula,):
        base, power = factor.as_base_exp() if factor.is_Pow and factor.exp.is_Integer else (factor, 1)
        content, rest = base.primitive() if base.is_Add and power > 0 else (base, 1) if base.is_Integer else (1, base)
        number *= int(content) ** int(power)
        powers.update({rest: int(power)} if rest != 1 else {})
    return Factors(number, dict(powers))


@lru_cache(4096)
def _without_max(formula: Any) -> Any:
    pairs = [atom for atom in formula.atoms(torch_name("Max")) if len(atom.args) == 2 and 1 in atom.args]  # noqa: PLR2004
    return formula.xreplace({atom: next(arg for arg in atom.args if arg != 1) for atom in pairs}) if pairs else formula
