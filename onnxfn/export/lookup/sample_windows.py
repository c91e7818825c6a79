"""The sliding windows of the transformers models inside a module, and a case of the check that is longer than them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import known_sizes, sized
from onnxfn.specs.facts import case
from onnxfn.specs.plan.check_cases import CASE_STEPS, batch_symbol
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.plan.text_cases import LONG_TEXT, LONGEST
from onnxfn.specs.spec import ExportSpec

WINDOWS = ("sliding_window", "attention_chunk_size", "window_size", "local_attention")
"""What configurations call the number of tokens that attention reaches."""

BEYOND = 3
"""By how much the long case is longer than the window."""


def inner_models(model: Any) -> tuple[Any, ...]:
    """The modules of transformers inside a module that have a configuration."""
    return tuple(
        module
        for module in model.modules()
        if type(module).__module__.startswith("transformers.") and hasattr(module, "config")
    )


def with_windows(model: Any, spec: ExportSpec) -> ExportSpec:
    """The spec of a module with a case that is longer than the windows inside, if one is longer than the other cases.

    A window of more than 512 tokens costs too much.
    """
    planned = resolved(spec, {})
    batch, sizes = batch_symbol(planned), known_sizes(planned, {})
    lengths = {name: size for name, size in sizes.items() if name != batch}
    affordable = [window for window in windows(model) if window + BEYOND <= LONGEST]
    longest = max(affordable, default=0) + BEYOND
    if not affordable or all(longest <= size + min(CASE_STEPS) for size in lengths.values()):
        return spec
    usual = (sized(**{name: size + step for name, size in lengths.items()}) for step in CASE_STEPS)
    long = sized(**{name: max(longest, size + max(CASE_STEPS)) for name, size in lengths.items()})
    names = ("one", "several", LONG_TEXT)
    return compose(spec, *(case(name, more) for name, more in zip(names, (*usual, long), strict=True)))


def windows(model: Any) -> Iterator[int]:
    """The sliding windows of the models of transformers inside a module."""
    for module in inner_models(model):
        values = (getattr(module.config, name, None) for name in WINDOWS)
        yield from (value for value in values if type(value) is int)
