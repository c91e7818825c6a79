"""The progress of transformers while it loads weights, as ticks; its own bars are off meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnxfn.specs.errors import ModelNotFound
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.checkpoint_links import entries


@contextmanager
def weights_ticked(name: str, tick: Tick = no_tick) -> Iterator[None]:
    """Calls `tick` with the bytes so far and in all while transformers loads the weights of a checkpoint.

    A tensor that the model names in another way than the files has the mean of those bytes that no name explains. For
    a name on the hub nothing is known, and `tick` is called without numbers.
    """
    from transformers.utils import logging

    sizes = stored_sizes(Path(name))

    def hook(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        bar = factory(*args, **options)
        items = args[0] if args else None
        return counted_weights(items, sizes, tick) if options.get("desc") == LOADING and items is not None else bar

    with no_bars():
        before = logging.set_tqdm_hook(hook)
        try:
            yield
        finally:
            logging.set_tqdm_hook(before)


LOADING = "Loading weights"
"""The description of the bar of transformers over the weights of a model, by their names in the model."""


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


def stored_sizes(folder: Path) -> Mapping[str, int]:
    """The bytes of each tensor in the safetensors files of a folder; nothing if there are none."""
    try:
        return {entry.name: entry.length for entry in entries(folder)}
    except (ModelNotFound, OSError, KeyError):
        return {}


def counted_weights(items: Iterable[tuple[str, Any]], sizes: Mapping[str, int], tick: Tick) -> Iterator[Any]:
    """The items; after each, `tick` is called with the bytes of the weights so far and of all.

    >>> ticks = []
    >>> names = [("embeddings", 0), ("layers.0.q", 0), ("layers.0.k", 0)]
    >>> list(counted_weights(names, {"embeddings": 8, "q": 3, "k": 1}, lambda *counts: ticks.append(counts))) == names
    True
    >>> ticks
    [(8, 12), (10, 12), (12, 12)]
    """
    pairs = list(items)
    total = sum(sizes.values())
    known = [sizes.get(name) for name, _ in pairs]
    mean = (total - sum(filter(None, known))) / max(1, known.count(None))
    completed = 0.0
    for pair, size in zip(pairs, known, strict=True):
        yield pair
        completed += mean if size is None else size
        tick(*((round(completed), total) if total else ()))
