"""A tensor's axes, written once: pattern string <-> AxisMap.

The notation follows einops and jaxtyping. Each word of a pattern is one axis:

    batch_size                            dynamic; the name is the symbol in the ONNX file
    past_sequence_length+sequence_length  dynamic; a formula of other names (operators + - * // and parentheses)
    head_dim=                             fixed at a value that the model's configuration has
    4                                     fixed at this number
    _                                     fixed at a size that the spec does not know (outputs only)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal

from attrs import evolve

from onnxfn.specs.conditions import formula_value
from onnxfn.specs.errors import InvalidSpec, UnknownName, closest, listed, shortened
from onnxfn.specs.record import record
from onnxfn.specs.short_repr import shortened_call

LARGEST_SIZE = (1 << 63) - 1
"""ONNX stores sizes as int64."""

LONGEST_WORD = 500
"""Characters of the longest word of a pattern. The formulas of the tables have at most 63."""


@record
class Axis:
    """One axis of a tensor.

    Attributes:
        symbol: A name or a formula as ONNX shows it (`past + now`), a number, or `_`.
        kind: `dynamic` (the size may differ from call to call), `configured` (the configuration fixes it), `literal`
            (the symbol is a number) or `unspecified` (`_`).
    """

    symbol: str
    kind: Literal["dynamic", "configured", "literal", "unspecified"]


@record
class AxisMap:
    """The axes of one tensor, in order. `axis_map` reads one from a pattern.

    Attributes:
        axes: One `Axis` for each dimension.

    >>> print(axis_map("batch_size 3 height width"))
    [batch_size, 3, height, width]
    """

    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return f"[{', '.join(axis.symbol + '=' * (axis.kind == 'configured') for axis in self.axes)}]"

    def __repr__(self) -> str:
        return shortened_call("axis_map", [repr(pattern(self))])


@cache
def axis(word: str) -> Axis:
    """The axis of one word of a pattern; InvalidSpec if the word has none of the five forms."""
    if word == "_":
        return Axis("_", "unspecified")
    if word.isascii() and word.isdecimal():
        if len(word) > len(str(LARGEST_SIZE)) or int(word) > LARGEST_SIZE:
            raise InvalidSpec(f"axis {shortened(word)} is above {LARGEST_SIZE}, the largest size of an axis")
        return Axis(word, "literal")
    if word.endswith("="):
        if not word[:-1].isidentifier():
            raise InvalidSpec(f"axis {word!r} is fixed by the configuration: write one name before '='")
        return Axis(word[:-1], "configured")
    return Axis(_canonical_formula(word, word), "dynamic")


def axis_map(pattern: str | AxisMap) -> AxisMap:
    """The axes that a pattern describes.

    Args:
        pattern: Words separated by spaces, one for each axis: a name, a formula of names (`past+now`), `name=` for a
            size that the configuration fixes, a number, or `_`. An AxisMap is returned unchanged.

    Returns:
        The AxisMap; `axis_map(pattern(axes)) == axes`.

    Raises:
        InvalidSpec: A word has none of these forms, or the pattern is not a text.

    >>> symbols(axis_map("batch_size 4 past_sequence_length+sequence_length head_dim="))
    {0: 'batch_size', 2: 'past_sequence_length + sequence_length'}
    """
    if isinstance(pattern, AxisMap):
        return pattern
    if not isinstance(pattern, str):
        raise InvalidSpec(f"axes are a pattern, a text such as 'batch_size 4', not {shortened(pattern)}")
    try:
        return AxisMap(tuple(axis(word) for word in pattern.split()))
    except InvalidSpec as problem:
        raise problem.with_traceback(None) from None  # a record with such axes is refused in two frames


def pattern(axes: AxisMap) -> str:
    """The pattern that describes these axes; `axis_map(pattern(axes)) == axes`."""
    return " ".join(axis.symbol.replace(" ", "") + "=" * (axis.kind == "configured") for axis in axes.axes)


def symbols(axes: AxisMap) -> dict[int, str]:
    """`{index: symbol}` of the dynamic axes, as ONNX and Optimum write them."""
    return {index: axis.symbol for index, axis in enumerate(axes.axes) if axis.kind == "dynamic"}


def names(axes: AxisMap) -> tuple[str, ...]:
    """The names in the symbols of the dynamic axes, without duplicates, in order."""
    return tuple(dict.fromkeys(name for axis in axes.axes if axis.kind == "dynamic" for name in terms(axis.symbol)))


@cache
def terms(symbol: str) -> tuple[str, ...]:
    """The names in a symbol, without duplicates, in order."""
    nodes = (node for node in ast.walk(ast.parse(symbol, mode="eval")) if isinstance(node, ast.Name))
    return tuple(dict.fromkeys(node.id for node in sorted(nodes, key=lambda node: node.col_offset)))


def shape(axes: AxisMap, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a tensor with these axes; UnknownName when a size is missing, InvalidSpec for an axis `_`."""
    return tuple(_size(axis, sizes) for axis in axes.axes)


def value(symbol: str, sizes: Mapping[str, int]) -> int:
    """The value of a symbol for these sizes. A size may be anything that adds and multiplies, also torch's SymInt."""
    if missing := [name for name in terms(symbol) if name not in sizes]:
        known = f"{listed(sizes)}{closest(missing[0], sizes)}"
        raise UnknownName(f"no size for {missing[0]!r} in axis {symbol!r}; known: {known}")
    try:
        number: int = formula_value(symbol, sizes)
    except ZeroDivisionError:
        raise InvalidSpec(f"axis {symbol!r} divides by 0 for these sizes: {dict(sizes)}") from None
    except InvalidSpec:
        raise InvalidSpec(f"axis {symbol!r} is not made of names and whole numbers") from None
    return number


def solve_for_name(symbol: str, size: int) -> dict[str, int]:
    """Solves `symbol == size` for its single name when the symbol is linear in it (`80 * frames`); `{}` otherwise."""
    if len(terms(symbol)) != 1:
        return {}
    (name,) = terms(symbol)
    at_1, at_2, at_3 = (value(symbol, {name: number}) for number in (1, 2, 3))
    return {name: size // at_1} if at_1 > 0 and (at_2, at_3) == (2 * at_1, 3 * at_1) else {}


def substitute(axes: AxisMap, values: Mapping[str, int | str]) -> AxisMap:
    """Replaces names in symbols of dynamic axes by numbers or formulas; a single name by a formula only."""
    return AxisMap(tuple(_substituted(axis, values) if axis.kind == "dynamic" else axis for axis in axes.axes))


def resolve_configured(axes: AxisMap, size: Callable[[str], int]) -> AxisMap:
    """Replaces each axis that the configuration fixes (`name=`) by its size."""
    changed = (Axis(str(size(each.symbol)), "literal") if each.kind == "configured" else each for each in axes.axes)
    return AxisMap(tuple(changed))


def fix_sizes(axes: AxisMap, sizes: Mapping[str, int]) -> AxisMap:
    """Replaces these names by their sizes in the dynamic axes. An axis without a name left becomes a number."""
    return AxisMap(tuple(_with_sizes(axis, sizes) if axis.kind == "dynamic" else axis for axis in axes.axes))


def inserted(axes: AxisMap, at: int, word: str) -> AxisMap:
    """The axes with one more, which `word` describes, at index `at`."""
    return AxisMap((*axes.axes[:at], axis(word), *axes.axes[at:]))


def _substituted(axis_: Axis, values: Mapping[str, int | str]) -> Axis:
    if isinstance(values.get(axis_.symbol), str):
        return axis(str(values[axis_.symbol]).replace(" ", ""))
    operands = {
        name: f"( {_canonical_formula(each, each)} )" if isinstance(each, str) else str(each)
        for name, each in values.items()
        if name in terms(axis_.symbol) and name != axis_.symbol
    }
    return evolve(axis_, symbol=" ".join(operands.get(word, word) for word in axis_.symbol.split()))


def _with_sizes(axis: Axis, sizes: Mapping[str, int]) -> Axis:
    if sizes.keys() >= set(terms(axis.symbol)):
        return Axis(str(value(axis.symbol, sizes)), "literal")
    return evolve(axis, symbol=" ".join(str(sizes.get(word, word)) for word in axis.symbol.split()))


def _canonical_formula(text: str, word: str) -> str:
    """The formula with one space around each operator, as ONNX shows it; `word` is the axis in error messages."""
    if len(text) > LONGEST_WORD:
        raise InvalidSpec(f"axis {shortened(word)} has {len(text)} characters; it may have {LONGEST_WORD}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # ValueError: a surrogate or a null character
        raise InvalidSpec(f"axis {word!r} is not a name, a number, '_', 'name=' or a formula of names") from None
    if "#" in text:  # Python skips a comment, ONNX would show it
        raise InvalidSpec(f"axis {word!r} is not made of names and whole numbers")
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)):
            raise InvalidSpec(f"axis {word!r} has an operator other than + - * //")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and getattr(node.right, "value", 1) == 0:
            raise InvalidSpec(f"axis {word!r} divides by 0")
        is_size = isinstance(node, ast.Constant) and type(node.value) is int and node.value <= LARGEST_SIZE
        if not isinstance(node, (ast.BinOp, ast.Name, ast.Load, ast.operator)) and not is_size:
            raise InvalidSpec(f"axis {word!r} is not made of names and whole numbers")
    if not any(isinstance(node, ast.Name) for node in ast.walk(tree)):
        raise InvalidSpec(f"axis {word!r} is a formula without a name; write a fixed size as one number")
    return " ".join(re.sub(r"\s*(//|[-+*()])\s*", r" \1 ", text).split())


def _size(axis: Axis, sizes: Mapping[str, int]) -> int:
    if axis.kind == "unspecified":
        raise InvalidSpec("the size of an axis '_' is unknown, so only outputs may have such an axis")
    return int(axis.symbol) if axis.kind == "literal" else value(axis.symbol, sizes)
