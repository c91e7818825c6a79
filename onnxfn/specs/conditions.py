"""Conditions on the sizes of axes: comparisons of formulas, which files state, so that a text is parsed, never run."""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.specs.errors import InvalidSpec, shortened
from onnxfn.specs.record import record

SEPARATOR = "; "
"""Between two conditions in the metadata of a file."""

COUNT = "count"
"""The name of a size that depends on values of a tensor."""

DENSE = 4096
DENSE_AND_FAR = (*range(1, DENSE + 1), *(2**power for power in range(13, 31)))
"""The sizes at which a condition is computed to find the range in which it is true."""

LONGEST_CONDITION, LARGEST_EXPONENT = 10_000, 8
"""Characters of the longest condition, and the largest exponent: a stranger may have written it. Swin v2 needs 700."""

OPERATORS: Mapping[type, Callable[..., Any]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.Pow: operator.pow,
        ast.BitAnd: operator.and_,
        ast.BitOr: operator.or_,
        ast.BitXor: operator.xor,
        ast.USub: operator.neg,
        ast.Not: operator.not_,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
    }
)

FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **{function.__name__: function for function in (max, min, abs, int, float, round)},
        **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc", "sqrt", "log2")},
    }
)
"""The functions that a condition may call."""


@record
class Condition:
    """A condition on the sizes of axes.

    Attributes:
        text: A comparison of formulas: `height % 32 == 0`.
        line: The line of the model's source that asks for it, as `file.py:12`; `torch` if torch assumed it; empty if
            neither.
    """

    text: str
    line: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.line})" if self.line else self.text


def is_true(text: str, sizes: Mapping[str, int]) -> bool:
    """Whether a condition is true for these sizes; one that is not defined for them, as it divides by 0, is not."""
    try:
        return bool(formula_value(text, sizes))
    except ArithmeticError:
        return False


def formula_value(text: str, sizes: Mapping[str, int]) -> Any:
    """The value of a formula or a condition for these sizes, which may be anything that adds, also torch's SymInt."""
    try:
        return _computed(_tree(text))(sizes)
    except KeyError as error:
        raise InvalidSpec(f"no size for {error.args[0]}; known: {', '.join(sizes)}") from None


def symbols_of(text: str) -> tuple[str, ...]:
    """The names of the axes in a condition, in order, without duplicates."""
    names = [node for node in ast.walk(_tree(text)) if isinstance(node, ast.Name)]
    ordered = dict.fromkeys(node.id for node in sorted(names, key=lambda node: node.col_offset))
    return tuple(name for name in ordered if name not in FUNCTIONS and name != "math")


def alternatives(text: str) -> list[str]:
    """The conditions of which one has to be true; the condition itself if it has no `or`.

    >>> alternatives("height != 8 or width != 8")
    ['height != 8', 'width != 8']
    """
    tree = _tree(text)
    return list(map(ast.unparse, tree.values)) if isinstance(getattr(tree, "op", None), ast.Or) else [text]


def numbers_in(text: str) -> frozenset[int]:
    """The whole numbers in a condition."""
    values = (getattr(node, "value", None) for node in ast.walk(_tree(text)))
    return frozenset(value for value in values if isinstance(value, int))


def with_names(condition: Condition, new: Mapping[str, str]) -> Condition:
    """A condition with other names, or formulas, for axes."""
    text = re.sub(r"[^\W\d]\w*", lambda word: f"({new[word[0]]})" if word[0] in new else word[0], condition.text)
    return evolve(condition, text=ast.unparse(ast.parse(text.strip(), mode="eval")))


def range_conditions(name: str, low: int | None, high: int | None) -> tuple[Condition, ...]:
    """The conditions for a size between two numbers; None is no end."""
    if low == high:
        return () if low is None else (Condition(f"{name} == {low}"),)
    return tuple(Condition(f"{name} {sign} {end}") for sign, end in ((">=", low), ("<=", high)) if end is not None)


def as_ranges(condition: Condition) -> tuple[Condition, ...]:
    """The ends of the range, up to `DENSE` and powers of 2, in which a condition on one axis is true; else itself."""
    names = symbols_of(condition.text)
    if len(names) != 1 or is_range(condition):
        return (condition,)
    true = [size for size in DENSE_AND_FAR if is_true(condition.text, {names[0]: size})]
    inside = [size for size in DENSE_AND_FAR if true and true[0] <= size <= true[-1]]
    ends_far = bool(true) and true[-1] == DENSE_AND_FAR[-1]
    if not true or true != inside or not (ends_far or true[-1] < DENSE):
        return (condition,)
    ends = range_conditions(names[0], true[0] if true[0] > 1 else None, None if ends_far else true[-1])
    return tuple(evolve(end, line=condition.line) for end in ends)


def range_of(conditions: Iterable[Condition], name: str) -> tuple[int, int | None]:
    """The smallest and the largest size of an axis that conditions state as `range_conditions` does; None for none."""
    own = [_tree(each.text) for each in conditions if is_range(each) and symbols_of(each.text) == (name,)]
    lows = [each.comparators[0].value for each in own if isinstance(each.ops[0], ast.GtE | ast.Eq)]
    highs = [each.comparators[0].value for each in own if isinstance(each.ops[0], ast.LtE | ast.Eq)]
    return max(lows, default=0), min(highs, default=None)


def is_range(condition: Condition) -> bool:
    """Whether a condition is an end of the range of one axis: `width >= 7`, `width <= 24`, `width == 64`."""
    match _tree(condition.text):
        case ast.Compare(ast.Name(), [ast.GtE() | ast.LtE() | ast.Eq()], [ast.Constant(int())]):
            return True
    return False


def stated(conditions: Iterable[Condition]) -> str:
    """The text of conditions in the metadata of a file."""
    return SEPARATOR.join(dict.fromkeys(map(str, conditions)))


def is_equality(text: str) -> bool:
    """Whether a condition compares a formula with one number or size, and not to see that a size is a multiple."""
    return "%" not in text and re.search(r"^\w+ [!=]= | [!=]= \w+$", text) is not None


def read_conditions(text: str) -> tuple[Condition, ...]:
    """The conditions in a text of `stated`. What is no condition is left out: a stranger may have written it."""
    read = (
        Condition(formula, line.removesuffix(")")) if is_condition(formula) else Condition(part)
        for part, formula, line in ((part, *part.rpartition(" (")[::2]) for part in text.split(SEPARATOR))
    )
    return tuple(condition for condition in read if is_condition(condition.text))


def is_condition(text: str) -> bool:
    """Whether a text is a condition: a comparison, or several, of formulas that this module can compute."""
    try:
        return _is_comparison(_tree(text))
    except InvalidSpec:
        return False


@cache
def _tree(text: str) -> Any:
    """The syntax tree of a condition. InvalidSpec for another text."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body if len(text) <= LONGEST_CONDITION else None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        tree = None
    if tree is None or not all(map(_is_known, ast.walk(tree))):
        raise InvalidSpec(f"{shortened(text)} is no condition on sizes; write a comparison such as 'height % 32 == 0'")
    return tree


def _is_comparison(tree: ast.expr) -> bool:
    parts = tree.values if isinstance(tree, ast.BoolOp) else [tree.operand] if isinstance(tree, ast.UnaryOp) else []
    return isinstance(tree, ast.Compare) or (bool(parts) and all(map(_is_comparison, parts)))


def _is_known(node: ast.AST) -> bool:
    """Whether `_computed` can compute a node of a syntax tree. A power of a power could be larger than memory."""
    match node:
        case ast.BinOp(base, ast.Pow(), exponent):
            is_small = isinstance(exponent, ast.Constant) and exponent.value in range(LARGEST_EXPONENT + 1)
            return is_small and not any(isinstance(each, ast.Pow) for each in ast.walk(base))
        case ast.Call(function, _, keywords):
            return ast.unparse(function) in FUNCTIONS and not keywords
        case ast.Attribute():
            return ast.unparse(node) in FUNCTIONS
        case ast.Constant(number):
            return type(number) in (int, float)
        case ast.Name() | ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare():
            return True
    return type(node) in OPERATORS or isinstance(node, ast.Load | ast.And | ast.Or)


@cache
def _computed(node: Any) -> Callable[[Mapping[str, int]], Any]:
    """The function from sizes to the value of a node of a syntax tree; KeyError for a name without a size."""
    match node:
        case ast.Constant(number):
            return lambda _: number
        case ast.Name(name):
            return operator.itemgetter(name)
        case ast.BoolOp(sign, parts):
            joined, values = all if isinstance(sign, ast.And) else any, list(map(_computed, parts))
            return lambda sizes: joined(value(sizes) for value in values)
        case ast.Compare(left, [*before, sign], [*between, right]) if before:
            first = ast.Compare(left, before, between)
            return _computed(ast.BoolOp(ast.And(), [first, ast.Compare(between[-1], [sign], [right])]))
        case ast.Call(called, operands):
            function = FUNCTIONS[ast.unparse(called)]
        case ast.UnaryOp(sign, operand):
            function, operands = OPERATORS[type(sign)], [operand]
        case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
            function, operands = OPERATORS[type(sign)], [left, right]
    values = list(map(_computed, operands))
    return lambda sizes: function(*[value(sizes) for value in values])
