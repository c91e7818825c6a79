"""Sizes of a trace as products, their quotients and comparisons: sympy takes minutes to divide nested formulas."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache, reduce
from math import prod
from typing import Any

from attrs import field, frozen

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.models.patching import replaced


@frozen
class Factors:
    """A product of an integer and of powers of formulas, none of which is a multiple of an integer."""

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
    """The formula of a product."""
    import sympy

    return prod((base**power for base, power in factors.powers.items()), start=sympy.Integer(factors.number))


@lru_cache(4096)
def factors_of(formula: Any) -> Factors:
    """The factors of a formula. sympy keeps 2*(x + 1) as 2*x + 2, so the number is taken out of each sum."""
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
    terms = [term.as_coeff_Mul()[1] for term in rest.args]
    divisors = {term.args[1] for term in terms if _is_remainder(term) and term.args[1].is_Integer and term.args[1] > 1}
    for number in sorted(map(int, divisors), reverse=True):
        if _is_multiple(rest, number):
            return int(content) * number, torch_name("FloorDiv")(rest, number)
    return int(content), rest


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


COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne")


@contextmanager
def fast_sizes() -> Iterator[None]:
    """Lets torch divide, compare and print sizes by what is known of them, in this thread while it lasts."""
    # torch lets sympy simplify both formulas of a quotient, and each formula that is compared, and prints the formula
    # of each size of each value anew. These are a tenth of a whole export of a SegFormer.
    node_type, text, least = torch_name("SymNode"), cache(str), dict[Any, Any]()
    quotient = _divided_or(node_type.int_floordiv, operator.floordiv, formula_of)
    remainder = _divided_or(node_type.mod, operator.mod, lambda _: formula_of(Factors(0)))
    compared = {name: _compared_or(getattr(node_type, name), name, least) for name in COMPARISONS}
    new = {"int_floordiv": quotient, "mod": remainder, "str": lambda size: text(size.expr), **compared}
    with ExitStack() as stack:
        for name, function in new.items():
            stack.enter_context(replaced(node_type, name, function))
        yield


def _compared_or(compare: Callable[..., Any], name: str, least: dict[Any, Any]) -> Callable[..., Any]:
    """The comparison of a size with a number; known if the least value of the size is larger, else left to torch."""
    proxy_mode = torch_name("proxy_mode")
    is_above, is_met_at_least = getattr(operator, name)(1, 0), name in ("ge", "lt")

    def compared(size: Any, other: Any) -> Any:
        number, formula = other.expr, size.expr
        if size.shape_env is None or proxy_mode() is not None or not number.is_Integer:
            return compare(size, other)
        # The least values of formulas only rise while a model is traced.
        if formula not in least:
            least[formula] = size.shape_env.bound_sympy(formula).lower
        return size.wrap_bool(is_above) if least[formula] > number - is_met_at_least else compare(size, other)

    return compared


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
