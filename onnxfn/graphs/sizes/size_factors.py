"""Sizes of a trace as products, their quotients, their formulas, and comparisons of them.

To divide two formulas, torch lets sympy simplify both. Where sizes are formulas of formulas, as after some stages that
pad images to windows, that takes minutes. Most divisors are factors of what they divide.

While torch finds the shape of an output, it asks of many sizes whether they are 0, 1 or negative. To answer that, it
expands the formula and searches for simplifications. Most answers follow from the least values of the symbols.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, reduce
from math import prod
from types import MappingProxyType
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
    return factors_of(size.node.expr) if hasattr(size, "node") else Factors(size)


def stride_factors(stride: Any) -> Factors:
    """The factors of a stride. Of an axis of size x torch writes Max(1, x), for empty tensors; here x is the factor."""
    return factors_of(_without_max(stride.node.expr)) if hasattr(stride, "node") else Factors(stride)


def product(sizes: Iterable[Any]) -> Factors:
    """The factors of a product of sizes."""
    return reduce(Factors.__mul__, map(factors, sizes), ONE)


def formula_of(factors: Factors) -> Any:
    """The formula of a product.

    >>> import sympy
    >>> formula_of(Factors(2, {sympy.Symbol("x"): 3}))
    2*x**3
    """
    import sympy

    return prod((base**power for base, power in factors.powers.items()), start=sympy.Integer(factors.number))


def equal(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether sizes are equal by their factors."""
    return len(first) == len(second) and all(factors(a) == factors(b) for a, b in zip(first, second, strict=True))


@lru_cache(4096)
def factors_of(formula: Any) -> Factors:
    """The factors of a formula. sympy keeps 2*(x + 1) as 2*x + 2, so the number is taken out of each sum.

    >>> import sympy
    >>> x = sympy.Symbol("x", integer=True)
    >>> factors_of((2 * x + 2) * 3) == factors_of(6 * (x + 1))
    True
    """
    number, powers = 1, Counter[Any]()
    for factor in formula.as_ordered_factors() if formula.is_Mul else (formula,):
        base, power = factor.as_base_exp() if factor.is_Pow and factor.exp.is_Integer else (factor, 1)
        content, rest = _content(base) if base.is_Add and power > 0 else (base, 1) if base.is_Integer else (1, base)
        number *= int(content) ** int(power)
        powers.update({rest: int(power)} if rest != 1 else {})
    return Factors(number, dict(powers))


def _content(total: Any) -> tuple[int, Any]:
    """The number that divides a sum for all values of its parts, and the sum divided by it.

    A size that is padded to windows of n elements, `x + (n - x % n) % n`, is n times the number of windows.

    >>> import sympy
    >>> from torch.utils._sympy.functions import FloorDiv, Mod
    >>> x = sympy.Symbol("x", integer=True, nonnegative=True)
    >>> padded = x + Mod(7 - Mod(x, 7), 7)
    >>> _content(padded) == (7, FloorDiv(padded, 7))
    True
    """
    content, rest = total.primitive()
    if not content.is_Integer:
        return 1, total
    for number in sorted(_divisors(rest), reverse=True):
        if _is_multiple(rest, number):
            return int(content) * number, torch_name("FloorDiv")(rest, number)
    return int(content), rest


def _divisors(total: Any) -> set[int]:
    """The numbers by which the remainders that are terms of a sum are taken."""
    terms = [term.as_coeff_Mul()[1] for term in total.args]
    return {int(term.args[1]) for term in terms if _is_remainder(term) and term.args[1].is_Integer and term.args[1] > 1}


def _is_multiple(formula: Any, number: int) -> bool:
    """Whether a formula of integers is seen to be a multiple of a number for all values of its parts."""
    same = _of_same_remainder(formula, number)
    return bool(same.primitive()[0] % number == 0) if same.is_Add else bool(same.as_coeff_Mul()[0] % number == 0)


def _of_same_remainder(formula: Any, number: int) -> Any:
    """A formula of the same remainder by a number, without those by it that are parts of sums and products."""
    if _is_remainder(formula) and formula.args[1] == number:
        return _of_same_remainder(formula.args[0], number)
    if (formula.is_Add or formula.is_Mul) and all(part.is_integer for part in formula.args):
        return formula.func(*(_of_same_remainder(part, number) for part in formula.args))
    return formula


def _is_remainder(formula: Any) -> bool:
    return isinstance(formula, (torch_name("Mod"), torch_name("PythonMod")))


@lru_cache(4096)
def _without_max(formula: Any) -> Any:
    pairs = [atom for atom in formula.atoms(torch_name("Max")) if len(atom.args) == 2 and 1 in atom.args]  # noqa: PLR2004
    return formula.xreplace({atom: next(arg for arg in atom.args if arg != 1) for atom in pairs}) if pairs else formula


@contextmanager
def fast_quotients() -> Iterator[None]:
    """Lets torch divide sizes by their factors first, and restores what torch does."""
    node_type = torch_name("SymNode")

    divide, remainder = node_type.int_floordiv, node_type.mod
    node_type.int_floordiv = _divided_or(divide, operator.floordiv, formula_of)
    node_type.mod = _divided_or(remainder, operator.mod, lambda _: formula_of(Factors(0)))
    try:
        yield
    finally:
        node_type.int_floordiv, node_type.mod = divide, remainder


def _divided_or(
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
