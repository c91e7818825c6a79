"""Formulas of values of a configuration: `"hidden_size // num_attention_heads"`, in the notation of Python.

Names are those of the configuration, or of a normalizer. Beside the four operators of axes there are:

    a ** b                   a power
    a or b                   the first that the configuration has
    not a                    whether the configuration has no such value, or one that is false, 0 or empty
    a == 'text', a >= 2      comparisons with this value
    a if condition else b    one of two; only that one is read
    sizes[0]                 an item of a list; -1 is the last
    len(sizes), max(sizes)   the length of a list, and its largest number
    2, 0.5, (1, 2)           numbers, and a tuple of them
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from onnxfn.specs.errors import InvalidSpec, shortened
from onnxfn.specs.records import Getter, Source

LONGEST_FORMULA = 500
"""Characters of the longest formula."""

OPERATORS: Mapping[type[ast.AST], str] = MappingProxyType(
    {
        ast.Add: "total",
        ast.Sub: "difference",
        ast.Mult: "product",
        ast.FloorDiv: "quotient",
        ast.Pow: "power",
        ast.Eq: "equals",
        ast.GtE: "at_least",
    }
)
FUNCTIONS: Mapping[str, str] = MappingProxyType({"len": "count", "max": "maximum"})
"""Function in a formula -> getter."""


@cache
def parsed(text: str) -> Source:
    """The getter that a formula stands for; a name or a dotted path is itself.

    Raises:
        InvalidSpec: the text is neither.

    >>> print(parsed("head_dim or hidden_size // num_attention_heads"))
    either(head_dim, quotient(hidden_size, num_attention_heads))
    >>> parsed("vision_config.image_size")
    'vision_config.image_size'
    """
    if all(part.isidentifier() for part in text.split(".")):
        return text
    try:
        if len(text) <= LONGEST_FORMULA:
            return _source(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError, KeyError):  # KeyError: another operator or function
        pass
    raise InvalidSpec(f"{shortened(text)} is no source: a source is a name, a dotted path or a formula of them")


def _source(node: ast.expr) -> Source:
    """The source that a part of a formula stands for. KeyError or ValueError if it stands for none."""
    arguments: tuple[Any, ...]
    match node:
        case ast.Name() | ast.Attribute():
            return ast.unparse(node)
        case ast.BinOp(left, operator, right):
            function, first = OPERATORS[type(operator)], _source(left)
            several = isinstance(first, Getter) and first.function == function and function in ("total", "product")
            arguments = (*(first.arguments if several else (first,)), _source(right))  # type: ignore[union-attr]
        case ast.BoolOp(ast.Or(), values):
            function, arguments = "either", tuple(map(_source, values))
        case ast.UnaryOp(ast.Not(), operand):
            function, arguments = "negated", (_source(operand),)
        case ast.Compare(left, [operator], [value]):
            function, arguments = OPERATORS[type(operator)], (_source(left), ast.literal_eval(value))
        case ast.IfExp(condition, then, otherwise):
            function, arguments = "if_else", tuple(map(_source, (condition, then, otherwise)))
        case ast.Subscript(items, index):
            function, arguments = "item", (_source(items), ast.literal_eval(index))
        case ast.Call(ast.Name(name), [argument], []):
            function, arguments = FUNCTIONS[name], (_source(argument),)
        case _:
            function, arguments = "constant", (ast.literal_eval(node),)
    return Getter(function, arguments)
