"""Modes of a thread while torch traces: silence, the lock, and functions called in place of torch's."""

import functools
import logging
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import product
from typing import Any

import psutil

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.models.patching import original, replaced
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.stored.reports import StageTimer, Tick, no_tick

LOCK = threading.RLock()
"""Held while a model is traced or run: torch.export has global state, so a process traces one model at a time."""

THREADS = threading.Lock()
"""Held by the export that has set how many threads PyTorch has. One beside it leaves the number as it is."""

POLL = 0.2
"""Seconds between two looks at a lock that another thread holds."""


@contextmanager
def tracing_alone(timed: StageTimer, part: str) -> Iterator[None]:
    """Holds `LOCK`. While another thread holds it, the stage `wait` runs."""
    if not LOCK.acquire(blocking=False):
        with timed("wait", part) as tick:
            while not LOCK.acquire(timeout=POLL):
                tick()
    try:
        yield
    finally:
        LOCK.release()


@contextmanager
def shapes_alone() -> Iterator[Any]:
    """A mode of torch whose tensors have shapes alone, as in a trace: models keep no table in `lru_cache` meanwhile."""
    with torch_name("as_in_a_trace")(), torch_name("FakeTensorMode")(allow_non_fake_inputs=True) as mode:
        yield mode


@contextmanager
def quiet() -> Iterator[None]:
    """Drops warnings and the logs of the tracing libraries in this thread, which holds `LOCK`."""
    thread, ended, handle = threading.get_ident(), threading.Event(), original(logging.Logger, "handle")
    # The pattern of a filter that fits every text in this thread, until it is heard again: another thread may have
    # saved the list of filters meanwhile, and restore it later, with this pattern in it.
    pattern = types.SimpleNamespace(match=lambda _: threading.get_ident() == thread and not ended.is_set())
    ignored: Any = ("ignore", None, Warning, pattern, 0)  # no other form of a filter looks at the thread

    def handled(logger: logging.Logger, record: logging.LogRecord) -> None:
        if logger.name.partition(".")[0] not in ("torch", "transformers", "onnxscript", "onnx_ir", "onnx"):
            handle(logger, record)

    with traces_awaited(), replaced(logging.Logger, "handle", handled):
        warnings.filters.insert(0, ignored)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            ended.set()
            if ignored in warnings.filters:  # no `catch_warnings` of another thread removed it
                warnings.filters.remove(ignored)  # type: ignore[attr-defined]


@contextmanager
def traces_awaited() -> Iterator[None]:
    """Holds `LOCK`; while it waits it runs operators, so that the tick of `ticking_operators` may stop it."""
    torch = sys.modules.get("torch")
    run: Any = int if torch is None else torch.empty
    run(0)
    while not LOCK.acquire(timeout=POLL):
        run(0)
    try:
        yield
    finally:
        LOCK.release()


TorchCall = Callable[..., Any]
"""From a function or an operator of torch, its arguments, and those with a name, to its result."""


def torch_functions(call: TorchCall) -> AbstractContextManager[None]:
    """A context in which `call` replaces each call of a torch function in this thread."""
    from torch.overrides import TorchFunctionMode

    return _calling(TorchFunctionMode(), "__torch_function__", call)


def torch_operators(call: TorchCall) -> AbstractContextManager[None]:
    """A context in which `call` replaces each torch operator in this thread."""
    mode = torch_name("DispatchMode")()
    mode.supports_higher_order_operators = True
    return _calling(mode, "__torch_dispatch__", call)


@contextmanager
def _calling(mode: Any, method: str, call: TorchCall) -> Iterator[None]:
    """Enters a mode of torch with this method. The mode and its method refer to each other until the end."""

    def called(_: Any, function: Any, __: Any, arguments: Any = (), named: Any = None) -> Any:
        return call(function, arguments, named or {})

    setattr(mode, method, types.MethodType(called, mode))
    try:
        with mode:
            yield
    finally:
        delattr(mode, method)  # without the cycle, what `call` holds is released at once


def ticking_operators(tick: Tick) -> AbstractContextManager[None]:
    """A context that calls `tick` before each torch operator: hooks of the model would turn off its fast path."""

    def run(operator: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        tick()
        return operator(*arguments, **named)

    return nullcontext() if tick is no_tick else torch_operators(run)


@contextmanager
def idle_threads(threads: int | None) -> Iterator[None]:
    """Gives PyTorch this many threads; None: as many as cores are idle. Threads that wait would keep cores busy."""
    import torch

    if threads is not None and threads < 1:
        raise InvalidSpec(f"threads is {threads}; write 1 or more, or None for as many as cores are idle")
    busy = psutil.cpu_percent(0.05, percpu=True)
    with ExitStack() as undo:
        if THREADS.acquire(blocking=False):
            undo.callback(THREADS.release)
            undo.callback(torch.set_num_threads, before := torch.get_num_threads())  # no longer that of another export
            torch.set_num_threads(threads or max(1, min(before, round(sum(1 - each / 100 for each in busy)))))
        yield


@contextmanager
def stable_sorts() -> Iterator[None]:
    """Makes `sort` and `argsort` keep the order of equal values in this thread: from 17 values on, torch does not."""
    import torch

    with ExitStack() as undo:
        for owner, name in product((torch, torch.Tensor), ("sort", "argsort")):
            undo.enter_context(replaced(owner, name, _stable(getattr(owner, name))))
        yield


def _stable(sort: Callable[..., Any]) -> Callable[..., Any]:
    """A function that sorts as `sort` does, and keeps the order of equal values."""

    @functools.wraps(sort)  # modes of torch tell functions by their names
    def keep_order(values: Any, *options: Any, **named: Any) -> Any:
        return sort(values, **{**dict(zip(("dim", "descending"), options, strict=False)), **named, "stable": True})

    return keep_order


def eager_branches() -> AbstractContextManager[None]:
    """A context that runs `torch.cond` and `while_loop` without torch.compile, which fails in `torch_operators`."""

    def call(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any] | None = None) -> Any:
        return function(*arguments, **named or {})

    return replaced(torch_name("control_flow"), "_hop_compile_and_call", call)
