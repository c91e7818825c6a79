"""The progress of transformers while it loads weights, as ticks; its own bars are off meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onnxfn.specs.stored.reports import Tick, no_tick

LOADING = "Loading weights"
"""The description of the bar of transformers over the weights of a model."""


@contextmanager
def weights_ticked(tick: Tick = no_tick) -> Iterator[None]:
    """Calls `tick` with the number of weights so far and in all while transformers loads a model."""
    from transformers.utils import logging

    def hook(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        bar = factory(*args, **options)
        return _ticked([*args[0]], tick) if options.get("desc") == LOADING and args else bar

    with no_bars():
        before = logging.set_tqdm_hook(hook)
        try:
            yield
        finally:
            logging.set_tqdm_hook(before)


def _ticked(weights: Sequence[Any], tick: Tick) -> Iterator[Any]:
    for number, weight in enumerate(weights, start=1):
        yield weight
        tick(number, len(weights))


@contextmanager
def no_bars() -> Iterator[None]:
    """Switches off the progress bars of transformers and of the client of the hub, which are on the error stream."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
