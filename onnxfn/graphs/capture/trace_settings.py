"""Settings of torch in a trace: what nobody reads is not computed, other threads are left alone, assertions hold."""

import ast
import linecache
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from inspect import currentframe
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import frozen

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.sizes.size_factors import fast_sizes
from onnxfn.models import forward
from onnxfn.models.patching import replaced
from onnxfn.specs.stored.reports import Tick

CAPTURE = (f"{Path(__file__).parents[1]}/", f"{Path(forward.__file__).parent}/")
"""The folders whose functions call `forward`."""

CALLERS = (CAPTURE[1], str(Path(__file__).with_name("capture.py")))
"""Those that call `forward` themselves; other files of capture are also called inside it."""

DATA_DEPENDENT = "data-dependent"
"""In torch's message about a branch on values of tensors. torch prints the graph so far when it sees such an error."""


@contextmanager
def fast_export(tick: Tick) -> Iterator[None]:
    """Turns off torch's cache of fake tensors and its stack traces, which take a third of the time of one export.

    The cache computes each result a second time to see whether it can be stored, and again at every hit. A stack trace
    tells where a node comes from, which its module path tells too. Nothing reads the memory format of tensors. torch
    asks for it for each operator that it traces, so `tick` is called there, and where torch has changed a graph.
    """
    import torch.fx.config

    from onnxfn.graphs.sizes.fake_outputs import fast_fake_outputs

    metadata, setting = torch_name("tensor_metadata"), torch.fx.config.do_not_emit_stack_traces
    recompile, to_list = torch.fx.GraphModule.recompile, torch_name("FakeTensor").tolist
    torch.fx.config.do_not_emit_stack_traces = True

    def ticking_metadata(tensor: Any) -> Any:
        tick()
        return metadata(tensor, include_contiguity=False)

    def ticking_recompile(module: Any) -> Any:
        tick()
        return recompile(module)

    def checked_list(tensor: Any) -> Any:
        if tensor.is_floating_point() and tensor.constant is None:
            raise RuntimeError(".tolist() is not supported for floats in a trace")  # it would take minutes
        return to_list(tensor)

    without_cache = torch_name("dynamo_settings").patch(fake_tensor_cache_enabled=False)
    ticking = replaced(torch_name("proxy_tensor"), "_extract_tensor_metadata", ticking_metadata)
    between = replaced(torch.fx.GraphModule, "recompile", ticking_recompile)
    without_lists = replaced(torch_name("FakeTensor"), "tolist", checked_list)
    try:
        with without_cache, ticking, between, without_lists, fast_fake_outputs(), fast_sizes():
            yield
    finally:
        torch.fx.config.do_not_emit_stack_traces = setting


@contextmanager
def annotations_of_this_thread() -> Iterator[None]:
    """Keeps torch from noting functions of other threads in a trace: those with a custom operator would fail."""
    import torch.fx.traceback

    annotate, thread = torch.fx.traceback.annotate, threading.get_ident()
    torch.fx.traceback.annotate = lambda facts: annotate(facts) if threading.get_ident() == thread else nullcontext()
    try:
        yield
    finally:
        torch.fx.traceback.annotate = annotate


@contextmanager
def modules_left_by_errors() -> Iterator[None]:
    """Lets a module call another in `try`: torch notes the modules that run, and does not take off one that failed."""
    import torch.fx

    call_module = torch.fx.Tracer.call_module

    def called(tracer: Any, *arguments: Any) -> Any:
        running = dict(tracer.module_stack)
        try:
            return call_module(tracer, *arguments)
        except Exception:
            tracer.module_stack.clear()
            tracer.module_stack.update(running)
            raise

    with replaced(torch.fx.Tracer, "call_module", called):
        yield


@contextmanager
def source_lines() -> Iterator[None]:
    """Lets torch record the source lines of all functions, not only `forward`; `fast_export` restores its setting."""
    import torch.fx.config

    torch.fx.config.do_not_emit_stack_traces = False
    with replaced(torch.fx.proxy.TracerBase, "_filter_traceback_frames", lambda _, frames: frames):
        yield


@frozen(eq=False)
class Evaluated:
    """A formula that the model's code has evaluated at a line, `file.py:12`, and its answer, a bool or a number."""

    formula: Any
    answer: Any
    line: str


Noted = dict[Any, Evaluated]
"""What was evaluated in a trace; the keys are a formula and the file that asks for it."""


def note(noted: Noted, frame: Any, formula: Any, answer: Any) -> None:
    """Notes the answer to a formula of sizes, if a line of a model asks for it."""
    file = frame.f_code.co_filename
    if formula.free_symbols and not file.startswith(tracing_packages()):
        noted.setdefault((formula, file), Evaluated(formula, answer, f"{Path(file).name}:{frame.f_lineno}"))


@cache
def tracing_packages() -> tuple[str, ...]:
    """The folders of the code that traces, which is not the source of a model."""
    import sympy
    import torch

    return *(f"{Path(package.__file__ or '').parent}/" for package in (torch, sympy)), *CAPTURE


class BranchOnValues(BaseException):
    """Hides an error of torch, its cause, from handlers in the model, and from torch.export, which would print much."""


@contextmanager
def assertions_hold(noted: Noted) -> Iterator[None]:
    """Takes assertions about values for true in a trace, and notes branches on sizes that depend on values."""
    import torch

    with ExitStack() as undo:
        for owner in (torch.Tensor, torch.SymBool):
            undo.enter_context(replaced(owner, "__bool__", _held(owner.__bool__, noted)))
        yield


def _held(truth: Callable[[Any], bool], noted: Noted) -> Callable[[Any], bool]:
    """The truth of a condition; where it depends on values, the one with which the running assertion holds."""

    def held(condition: Any) -> bool:
        try:
            return truth(condition)
        except RuntimeError as error:
            caller: Any = currentframe().f_back  # type: ignore[union-attr]
            code, condition_end = caller.f_code, caller.f_lasti // 2 - 1
            holds = _truths_of(code.co_filename).get(next(islice(code.co_positions(), condition_end, None), None))
            of_counts = _of_counts(condition) if holds is None else None
            if of_counts is not None:
                note(noted, caller, condition.node.expr, of_counts)
            is_open = holds is of_counts is None
            if DATA_DEPENDENT not in str(error) or (is_open and code.co_filename.startswith(tracing_packages())):
                raise
            if is_open:
                raise BranchOnValues from error
            return bool(holds or of_counts)

    return held


def _of_counts(condition: Any) -> bool | None:
    """The truth of a condition on sizes that depend on values, such as counts of boxes, if these are 2, as in torch."""
    node: Any = getattr(condition, "node", None)
    counts = node.expr.free_symbols & node.shape_env.size_like if node else ()
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
    goes_on = (ast.Return, ast.Break, ast.Continue, ast.Yield)
    inside = (node for statement in branch.body for node in ast.walk(statement))
    return isinstance(branch.body[-1], ast.Raise) and not any(isinstance(node, goes_on) for node in inside)


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
