"""A tensor's axes, said once: pattern string <-> AxisMap.

The notation follows einops and jaxtyping, one word an axis:

    batch_size                            moves from call to call, and is called so in the ONNX file
    past_sequence_length+sequence_length  moves, and is the sum of two others
    head_dim=                             fixed by the model's configuration
    4                                     fixed
    _                                     fixed, and its size is the model's own business (outputs only)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

from attrs import evolve, frozen

from onnxfn.specs.errors import InvalidSpec, UnknownName, closest, listed

AxisKind = Literal["dynamic", "configured", "literal", "unsaid"]

_SPACED = re.compile(r"\s*(//|[-+*()])\s*")
_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = MappingProxyType(
    {
        ast.Add: lambda a, b: a + b,
        ast.Sub: lambda a, b: a - b,
        ast.Mult: lambda a, b: a * b,
        ast.FloorDiv: lambda a, b: a // b,
    }
)


@frozen
class Axis:
    """One axis: what it is called, and whether it moves, the configuration fixes it, or it is a number."""

    symbol: str
    kind: AxisKind


@frozen
class AxisMap:
    """The axes of one tensor, in order."""

    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return f"[{', '.join(axis.symbol for axis in self.axes)}]"


def axis(word: str) -> Axis:
    """One word of a pattern as an axis; InvalidSpec when the word is none of the five forms."""
    if word == "_":
        return Axis("_", "unsaid")
    if word.isdecimal():
        return Axis(word, "literal")
    if word.endswith("="):
        if not word[:-1].isidentifier():
            raise InvalidSpec(f"axis {word!r} is fixed by the configuration, so one name stands before the '='")
        return Axis(word[:-1], "configured")
    return Axis(_canonical(word, word), "dynamic")


def axis_map(pattern: str | AxisMap) -> AxisMap:
    """The axes that a pattern says; an AxisMap is given back as it is.

    >>> symbols(axis_map("batch_size 4 past_sequence_length+sequence_length head_dim="))
    {0: 'batch_size', 2: 'past_sequence_length + sequence_length'}
    """
    return pattern if isinstance(pattern, AxisMap) else AxisMap(tuple(axis(word) for word in pattern.split()))


def pattern(axes: AxisMap) -> str:
    """The pattern that says these axes; `axis_map(pattern(axes)) == axes`.

    >>> pattern(axis_map("batch_size past_sequence_length+sequence_length head_dim="))
    'batch_size past_sequence_length+sequence_length head_dim='
    """
    return " ".join(_word(one) for one in axes.axes)


def symbols(axes: AxisMap) -> dict[int, str]:
    """`{axis: symbol}` of the axes that move, as ONNX and Optimum write them."""
    return {index: one.symbol for index, one in enumerate(axes.axes) if one.kind == "dynamic"}


def names(axes: AxisMap) -> tuple[str, ...]:
    """The names of the sizes that the moving axes are made of, each once, in order.

    >>> names(axis_map("batch_size past_sequence_length+sequence_length head_dim="))
    ('batch_size', 'past_sequence_length', 'sequence_length')
    """
    return tuple(dict.fromkeys(name for one in axes.axes if one.kind == "dynamic" for name in terms(one.symbol)))


@cache
def terms(symbol: str) -> tuple[str, ...]:
    """The names in an axis symbol, each once, in order."""
    found = (node for node in ast.walk(ast.parse(symbol, mode="eval")) if isinstance(node, ast.Name))
    return tuple(dict.fromkeys(node.id for node in sorted(found, key=lambda node: node.col_offset)))


def shape(axes: AxisMap, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a tensor with these axes; UnknownName when a size is missing, InvalidSpec for an unsaid axis.

    >>> shape(axis_map("batch_size past+now 4"), {"batch_size": 2, "past": 3, "now": 1})
    (2, 4, 4)
    """
    return tuple(_size(one, sizes) for one in axes.axes)


def value(symbol: str, sizes: Mapping[str, int]) -> int:
    """What an axis symbol comes to; the sizes may be anything that adds and multiplies, torch's SymInt too."""
    return _evaluated(ast.parse(symbol, mode="eval").body, sizes, symbol)


def solve_for_name(symbol: str, size: int) -> dict[str, int]:
    """The size of the name that an axis is, or is so many times of; none where a size of the axis does not tell it.

    >>> solve_for_name("frames", 50), solve_for_name("80 * frames", 4000), solve_for_name("past + now", 9)
    ({'frames': 50}, {'frames': 50}, {})
    """
    if len(terms(symbol)) != 1:
        return {}
    (name,) = terms(symbol)
    once, twice, thrice = (value(symbol, {name: many}) for many in (1, 2, 3))
    return {name: size // once} if once > 0 and (twice, thrice) == (2 * once, 3 * once) else {}


def substitute(axes: AxisMap, told: Mapping[str, int | str]) -> AxisMap:
    """The same axes with names replaced, in those that move: by numbers where there are several names, or by formulas.

    >>> pattern(substitute(axis_map("frames//stride"), {"stride": 4}))
    'frames//4'
    >>> pattern(substitute(axis_map("frames 8"), {"frames": "samples//320"}))
    'samples//320 8'
    """
    return AxisMap(tuple(_substituted(one, told) if one.kind == "dynamic" else one for one in axes.axes))


def resolve_configured(axes: AxisMap, size: Callable[[str], int]) -> AxisMap:
    """The same axes with each one that the configuration fixes replaced by its number.

    >>> pattern(resolve_configured(axis_map("batch_size heads= 4"), {"heads": 12}.__getitem__))
    'batch_size 12 4'
    """
    return AxisMap(
        tuple(Axis(str(size(one.symbol)), "literal") if one.kind == "configured" else one for one in axes.axes)
    )


def fix_symbols(axes: AxisMap, sizes: Mapping[str, int]) -> AxisMap:
    """The same axes with each that is called by one of these names fixed at its size.

    >>> pattern(fix_symbols(axis_map("batch_size height width"), {"height": 224}))
    'batch_size 224 width'
    """
    return AxisMap(tuple(Axis(str(sizes[one.symbol]), "literal") if one.symbol in sizes else one for one in axes.axes))


def fix_sizes(axes: AxisMap, sizes: Mapping[str, int]) -> AxisMap:
    """The same axes with those that move for good of these sizes: an axis all of whose names have one is a number.

    >>> pattern(fix_sizes(axis_map("batch_size past+now _"), {"batch_size": 1, "now": 4}))
    '1 past+4 _'
    """
    return AxisMap(tuple(_with_sizes(one, sizes) if one.kind == "dynamic" else one for one in axes.axes))


def inserted(axes: AxisMap, at: int, word: str) -> AxisMap:
    """The same axes with one more at index `at`.

    >>> pattern(inserted(axis_map("batch_size sequence_length"), 1, "num_choices"))
    'batch_size num_choices sequence_length'
    """
    return AxisMap((*axes.axes[:at], axis(word), *axes.axes[at:]))


def _substituted(one: Axis, told: Mapping[str, int | str]) -> Axis:
    if isinstance(told.get(one.symbol), str):
        return axis(str(told[one.symbol]).replace(" ", ""))
    known = [name for name in terms(one.symbol) if name in told and name != one.symbol]
    return evolve(one, symbol=" ".join(_inner(told[word]) if word in known else word for word in one.symbol.split()))


def _inner(told: int | str) -> str:
    """A number or a formula as it stands inside another formula."""
    return f"( {_canonical(told, told)} )" if isinstance(told, str) else str(told)


def _with_sizes(one: Axis, sizes: Mapping[str, int]) -> Axis:
    if sizes.keys() >= set(terms(one.symbol)):
        return Axis(str(value(one.symbol, sizes)), "literal")
    return evolve(one, symbol=" ".join(str(sizes.get(word, word)) for word in one.symbol.split()))


def _word(one: Axis) -> str:
    packed = one.symbol.replace(" ", "")
    return f"{packed}=" if one.kind == "configured" else packed


def _canonical(text: str, word: str) -> str:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise InvalidSpec(f"axis {word!r} is not a name, a number, '_', 'name=' or a sum of names") from None
    if "#" in text:  # Python reads on to a comment, ONNX would show it
        raise InvalidSpec(f"axis {word!r} is not made of names and whole numbers")
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and type(node.op) not in _ARITHMETIC:
            raise InvalidSpec(f"axis {word!r} has an operator other than + - * //")
        if not isinstance(node, (ast.BinOp, ast.Name, ast.Load, ast.operator)) and not _whole(node):
            raise InvalidSpec(f"axis {word!r} is not made of names and whole numbers")
    if not any(isinstance(node, ast.Name) for node in ast.walk(tree)):
        raise InvalidSpec(f"axis {word!r} moves, so it has a name; write a fixed size as one number")
    return " ".join(_SPACED.sub(r" \1 ", text).split())


def _whole(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _size(one: Axis, sizes: Mapping[str, int]) -> int:
    match one.kind:
        case "literal":
            return int(one.symbol)
        case "unsaid":
            raise InvalidSpec("an axis marked '_' has no size of its own; only outputs may have one")
        case "dynamic" | "configured":
            return value(one.symbol, sizes)


def _evaluated(node: ast.AST, sizes: Mapping[str, int], symbol: str) -> int:
    match node:
        case ast.BinOp(left, operator, right):
            return _ARITHMETIC[type(operator)](_evaluated(left, sizes, symbol), _evaluated(right, sizes, symbol))
        case ast.Name(name) if name in sizes:
            return sizes[name]
        case ast.Name(name):
            raise UnknownName(f"no size for {name!r} in axis {symbol!r}; known: {listed(sizes)}{closest(name, sizes)}")
        case ast.Constant(int(number)):
            return number
        case _:
            raise InvalidSpec(f"axis {symbol!r} is not made of names and whole numbers")
