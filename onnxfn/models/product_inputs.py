"""The inputs of a model's linear layers in runs on real inputs, as what calibration needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from itertools import accumulate
from typing import Any

from onnxfn.weights.calibrated import InputErrors, input_errors

MOST, BYTES = 3 << 27, 4
"""Bytes of second moments that are in memory at once, and of one of them."""

Runs = Callable[[], Iterable[Callable[[], Any]]]
"""Runs of a model, each on other inputs."""


class Enough(BaseException):
    """Ends a run of a model: what is wanted of it is known."""


def product_inputs(model: Any, runs: Runs, most: int = MOST) -> Callable[[Any], Any]:
    """A function from a weight of a model to the `InputErrors` of its layer; None for a weight of no linear layer.

    A run also gives those of the layers after it: moments of at most `most` bytes, or of one layer.
    """
    import torch
    from transformers.pytorch_utils import Conv1D

    layers = [each for each in model.modules() if isinstance(each, (torch.nn.Linear, Conv1D))]
    known, errors = dict[int, Any](), lru_cache(1)(input_errors)

    def errors_of(weight: Any) -> InputErrors | None:
        places = [index for index, layer in enumerate(layers) if layer.weight is weight]
        if places and id(weight) not in known:
            errors.cache_clear()
            known.clear()
            known.update(_moments(layers[places[0] :], most, runs))
        moments = known.get(id(weight))
        return None if moments is None else errors(moments)

    return errors_of


def _moments(layers: Sequence[Any], most: int, runs: Runs) -> dict[int, Any]:
    """The second moments of the inputs of the first layers. Layers that get the same tensor share theirs."""
    widths = (getattr(layer, "in_features", len(layer.weight)) for layer in layers)  # Conv1D: [inputs, outputs]
    count = sum(size <= most for size in accumulate(BYTES * width * width for width in widths))
    sums: dict[int, Any] = dict.fromkeys(id(layer.weight) for layer in layers[: count or 1])
    seen, last = set[int](), list[tuple[Any, Any]]()

    def note(layer: Any, arguments: Any) -> None:
        key, values = id(layer.weight), next(iter(arguments), None)
        if key not in sums and len(seen) == len(sums):
            raise Enough
        if key not in sums or values is None:
            return
        seen.add(key)
        if not last or last[0][0] is not values:
            rows = values.detach().reshape(-1, values.shape[-1]).float()
            moments = rows.mT @ rows if sums[key] is None else sums[key].addmm_(rows.mT, rows)
            last[:] = [(values, moments)]
        sums[key] = last[0][1]

    with ExitStack() as hooks:
        for layer in layers:
            hooks.callback(layer.register_forward_pre_hook(note).remove)
        for run in runs():
            seen.clear()
            last.clear()
            with suppress(Enough):
                run()
    return sums
