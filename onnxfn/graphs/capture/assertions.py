"""Assertions about values of tensors, which a trace leaves out: `assert` and an `if` that only raises an error."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import islice
from typing import Any

from onnxfn.graphs.capture.trace_errors import DATA_DEPENDENT
from onnxfn.models.patching import replaced

GOES_ON = (ast.Return, ast.Break, ast.Continue, ast.Yield)
"""Statements in an `if` after which it goes on without an error."""


@contextmanager
def assertions_hold() -> Iterator[None]:
    """Takes assertions about values of tensors for true in a trace, in this thread: they hold where the module runs."""
    import torch

    with ExitStack() as undo:
        for owner in (torch.Tensor, torch.SymBool):
            undo.enter_context(replaced(owner, "__bool__", _held(owner.__bool__)))
        yield


def _held(truth: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The truth of a condition; where it depends on values, the one with which the running assertion holds."""

    def held(condition: Any) -> bool:
        try:
            return truth(condition)
        except RuntimeError as error:
            code, condition_end = sys._getframe(1).f_code, sys._getframe(1).f_lasti // 2 - 1
            place = next(islice(code.co_positions(), condition_end, None), None)
            holds = _truths_of(code.co_filename).get(place) if DATA_DEPENDENT in str(error) else None
            if holds is None and (holds := _of_counts(condition)) is None:
                raise
            return holds

    return held


def _of_counts(condition: Any) -> bool | None:
    """The truth of a condition on sizes that depend on values, such as counts of boxes, if these are 2, as in torch."""
    node = getattr(condition, "node", None)
    counts = node.expr.free_symbols & node.shape_env.size_like if node else set()
    return bool(node.shape_env.evaluate_expr(node.expr.subs(dict.fromkeys(counts, 2)))) if counts else None


@cache
def _truths_of(file: str) -> Mapping[Any, bool]:
    """Place of a condition in an assertion -> the truth with which it holds; not where its error is handled."""
    nodes = list(ast.walk(ast.parse("".join(linecache.getlines(file)))))
    tries = [node for node in nodes if isinstance(node, ast.Try) and node.handlers]
    handled = {id(node) for each in tries for statement in each.body for node in ast.walk(statement)}
    asserting = [node for node in nodes if isinstance(node, ast.Assert) or (isinstance(node, ast.If) and _raises(node))]
    tests = [(node.test, isinstance(node, ast.Assert)) for node in asserting if id(node) not in handled]
    return dict(pair for test, truth in tests for pair in _truths(test, truth))


def _raises(branch: ast.If) -> bool:
    inside = (node for statement in branch.body for node in ast.walk(statement))
    return isinstance(branch.body[-1], ast.Raise) and not any(isinstance(node, GOES_ON) for node in inside)


def _truths(test: Any, truth: bool) -> Iterator[tuple[Any, bool]]:  # noqa: FBT001
    """The places of the conditions in a test, and the truths of each with which the test has this one."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            yield from _truths(operand, not truth)
        case ast.BoolOp(_, values):
            for each in values:
                yield from _truths(each, truth)
        case _:
            yield (test.lineno, test.end_lineno, test.col_offset, test.end_col_offset), truth
