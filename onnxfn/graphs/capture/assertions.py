"""Assertions about values of tensors, which a trace leaves out: `assert`, and an `if` that only raises an error."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from onnxfn.graphs.capture.trace_errors import DATA_DEPENDENT


def asserted(truth: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A `__bool__` of conditions that depend on values: the truth with which the running assertion holds.

    A condition on the number of elements that were chosen by values is that of 2 elements, as for torch's own code.
    """

    def holds(condition: Any) -> bool:
        try:
            return truth(condition)
        except RuntimeError as error:
            caller, node = sys._getframe(1), getattr(condition, "node", None)
            place = next(islice(caller.f_code.co_positions(), caller.f_lasti // 2 - 1, None), None)
            truths, counts = (
                _truths(caller.f_code.co_filename),
                node.expr.free_symbols & node.shape_env.size_like if node else (),
            )
            if DATA_DEPENDENT not in str(error) or not (place in truths or counts):
                raise
            return (
                truths[place]
                if place in truths
                else bool(node.shape_env.evaluate_expr(node.expr.subs(dict.fromkeys(counts, 2))))
            )

    return holds


@cache
def _truths(file: str) -> Mapping[Any, bool]:
    """Place of each condition in the assertions of a file -> the truth with which it holds.

    An `if` in a `try` whose errors are handled does more than raise.
    """
    nodes = list(ast.walk(ast.parse("".join(linecache.getlines(file)))))
    tries = [node for node in nodes if isinstance(node, ast.Try) and node.handlers]
    handled = {id(node) for each in tries for statement in each.body for node in ast.walk(statement)}
    raising = [node for node in nodes if isinstance(node, ast.Assert) or (isinstance(node, ast.If) and _raises(node))]
    tests = [(node.test, isinstance(node, ast.Assert)) for node in raising if id(node) not in handled]
    return dict(pair for test, truth in tests for pair in _conditions(test, truth))


def _raises(branch: ast.If) -> bool:
    *before, last = branch.body
    return isinstance(last, ast.Raise) and all(isinstance(each, ast.Assign | ast.Expr) for each in before)


def _conditions(test: Any, truth: bool) -> Iterator[tuple[Any, bool]]:  # noqa: FBT001
    """The place of each condition in a test, and its truth where the test has this one."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            yield from _conditions(operand, not truth)
        case ast.BoolOp(_, values):
            for each in values:
                yield from _conditions(each, truth)
        case _:
            yield (test.lineno, test.end_lineno, test.col_offset, test.end_col_offset), truth
