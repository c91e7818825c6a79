"""Settings of torch during a trace: nothing that nobody reads is computed, assertions hold, threads are left alone."""

from __future__ import annotations

import ast
import linecache
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import islice
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.capture.trace_errors import DATA_DEPENDENT
from onnxfn.graphs.sizes.fake_outputs import fast_fake_outputs
from onnxfn.graphs.sizes.size_factors import fast_sizes
from onnxfn.models.patching import replaced
from onnxfn.specs.stored.reports import Tick


@contextmanager
def fast_export(tick: Tick) -> Iterator[None]:
    """Turns off torch's cache of fake tensors and its stack traces, which take a third of the time of one export.

    Some operators on fake tensors are replaced by faster ones, see `fake_outputs.py`.

    The cache computes each result a second time to see whether it can be stored, and again at every hit. A stack trace
    tells where a node comes from, which its module path tells too. The memory format of each tensor is not searched,
    since nothing reads it. torch asks for it for each operator that it traces, so `tick` is called there.
    """
    import torch.fx.config

    metadata, setting = torch_name("tensor_metadata"), torch.fx.config.do_not_emit_stack_traces
    torch.fx.config.do_not_emit_stack_traces = True

    def ticking_metadata(tensor: Any) -> Any:
        tick()
        return metadata(tensor, include_contiguity=False)

    without_cache = torch_name("dynamo_settings").patch(fake_tensor_cache_enabled=False)
    ticking = replaced(torch_name("proxy_tensor"), "_extract_tensor_metadata", ticking_metadata)
    try:
        with without_cache, ticking, fast_fake_outputs(), fast_sizes():
            yield
    finally:
        torch.fx.config.do_not_emit_stack_traces = setting


@contextmanager
def annotations_of_this_thread() -> Iterator[None]:
    """Keeps other threads from annotating the trace.

    During a trace, torch notes the running function of any thread in a variable of the process. This causes a KeyError
    in another thread that runs a model with a custom operator, such as a mixture of experts.
    """
    import torch.fx.traceback

    annotate, thread = torch.fx.traceback.annotate, threading.get_ident()
    torch.fx.traceback.annotate = lambda facts: annotate(facts) if threading.get_ident() == thread else nullcontext()
    try:
        yield
    finally:
        torch.fx.traceback.annotate = annotate


@contextmanager
def source_lines() -> Iterator[None]:
    """Lets torch record the source lines of all functions, inside of `fast_export`, which restores its setting.

    By default torch keeps only the lines of functions named `forward`.
    """
    import torch.fx.config

    torch.fx.config.do_not_emit_stack_traces = False
    with replaced(torch.fx.proxy.TracerBase, "_filter_traceback_frames", lambda _, frames: frames):
        yield


def asserted(truth: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A `__bool__` of conditions that depend on values: the truth with which the running assertion holds.

    A condition on the number of elements that were chosen by values is that of 2 elements, as for torch's own code.
    """

    def holds(condition: Any) -> bool:
        try:
            return truth(condition)
        except RuntimeError as error:
            code, condition_end = sys._getframe(1).f_code, sys._getframe(1).f_lasti // 2 - 1
            known = _truths(code.co_filename).get(next(islice(code.co_positions(), condition_end, None), None))
            if known is None and (node := getattr(condition, "node", None)):
                counts = dict.fromkeys(node.expr.free_symbols & node.shape_env.size_like, 2)
                known = bool(node.shape_env.evaluate_expr(node.expr.subs(counts))) if counts else None
            if DATA_DEPENDENT not in str(error) or known is None:
                raise
            return known

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
