"""Settings of torch during a trace: what nobody reads is not computed, and other threads are left alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
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
