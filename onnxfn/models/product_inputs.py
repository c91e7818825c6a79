"""The inputs of linear layers and experts in runs on real inputs, as what calibration needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from itertools import accumulate
from operator import itemgetter
from typing import Any

from onnxfn.weights.calibrated import InputErrors, input_errors

MOST, BYTES = 3 << 27, 4
"""Bytes of second moments that a run gives, unless one matrix has more, and of one of them."""

FEWEST = 1 / 16
"""The fewest tokens that calibrate an expert, for each of its inputs."""

Runs = Callable[[], Iterable[Callable[[], Any]]]
"""Runs of a model, each on other inputs."""

Leave = Callable[[str, int], None]
"""Is called with the name of a weight and the index of a matrix in it whose codes stay the nearest."""

Key = tuple[int, int]
"""The identity of a weight, and the index of a matrix in it."""

Matrices = Mapping[Key, tuple[int, Callable[[Sequence[Any]], Any]]]
"""From a matrix to the number of its inputs, and a function that returns them from the arguments of its layer."""


class Enough(BaseException):
    """Ends a run of a model: what is wanted of it is known."""


def product_inputs(
    model: Any, runs: Runs, most: int = MOST, leave: Leave = lambda *_: None
) -> Callable[[Any, int], InputErrors | None]:
    """A function from a weight and the index of a matrix there to its `InputErrors`; None if few tokens reach it."""
    layers = {layer: of_layer for layer in model.modules() if (of_layer := _matrices(layer))}
    widths = {key: width for of_layer in layers.values() for key, (width, _) in of_layer.items()}
    stacks = {key[0]: layer.is_transposed for layer in layers for key in layers[layer] if hasattr(layer, "down_proj")}
    names = {id(weight): name for name, weight in model.named_parameters()}
    known, counts, errors = dict[Key, Any](), dict[Key, int](), lru_cache(1)(input_errors)

    def errors_of(weight: Any, index: int = 0) -> InputErrors | None:
        key = (id(weight), index)
        if key in widths and key not in known:
            errors.cache_clear()
            known.clear()
            keys = list(widths)[list(widths).index(key) :]
            fit = sum(size <= most for size in accumulate(BYTES * widths[each] ** 2 for each in keys))
            known.update(_moments(layers, keys[: fit or 1], runs, counts))
        is_left = key[0] in stacks and counts.get(key, 0) < FEWEST * widths[key]
        if is_left:
            leave(names[key[0]], index)
        moments = None if is_left else known.get(key)
        return None if moments is None else errors(moments, counts[key], along_rows=stacks.get(key[0], False))

    return errors_of


def _matrices(layer: Any) -> Matrices:
    """The matrices of a linear layer, or of a class of transformers that says how it stacks those of its experts."""
    import torch
    from transformers.pytorch_utils import Conv1D

    if isinstance(layer, (torch.nn.Linear, Conv1D)):
        width = getattr(layer, "in_features", len(layer.weight))  # Conv1D: [inputs, outputs]
        return {(id(layer.weight), 0): (width, itemgetter(0))}
    if not all(hasattr(layer, name) for name in ("is_transposed", "has_gate", "has_bias", "down_proj")):
        return {}
    ways = ((_first_stack(layer), _tokens), (layer.down_proj, partial(_inner_states, layer)))
    axis = -2 if layer.is_transposed else -1
    return {(id(of), at): (of.shape[axis], partial(inputs, at)) for of, inputs in ways for at in range(len(of))}


def _first_stack(experts: Any, ending: str = "") -> Any:
    return getattr(experts, f"{'gate_up_proj' if experts.has_gate else 'up_proj'}{ending}")


def _tokens(expert: int, values: Sequence[Any]) -> Any:
    """The states of the tokens that reach an expert. `values`: all states, and the indices of the experts of each."""
    states, chosen, *_ = values
    return states.reshape(-1, states.shape[-1])[(chosen.reshape(-1, chosen.shape[-1]) == expert).any(-1)]


def _inner_states(experts: Any, expert: int, values: Sequence[Any]) -> Any:
    """The inputs of the second product of an expert."""
    matrix = _first_stack(experts).select(0, expert)
    product = _tokens(expert, values) @ (matrix if experts.is_transposed else matrix.mT)
    product = product + _first_stack(experts, "_bias").select(0, expert) if experts.has_bias else product
    return experts._apply_gate(product) if experts.has_gate else experts.act_fn(product)


def _moments(layers: Mapping[Any, Matrices], keys: Sequence[Key], runs: Runs, counts: dict[Key, int]) -> dict[Key, Any]:
    """The second moments of the inputs of matrices, and their `counts`. Layers with the same tensor share theirs."""
    sums: dict[Key, Any] = dict.fromkeys(keys)
    counts |= dict.fromkeys(keys, 0)
    seen, last = set[Key](), list[tuple[Any, Any]]()

    def note(layer: Any, arguments: Any, named: Mapping[str, Any]) -> None:
        for key, (_, inputs) in layers[layer].items():
            if key not in sums and len(seen) == len(sums):
                raise Enough
            if key not in sums:
                continue
            seen.add(key)
            values = inputs((*arguments, *named.values()))
            counts[key] += values[..., 0].numel()
            if not last or last[0][0] is not values:
                rows = values.detach().reshape(-1, values.shape[-1]).float()
                moments = rows.mT @ rows if sums[key] is None else sums[key].addmm_(rows.mT, rows)
                last[:] = [(values, moments)]
            sums[key] = last[0][1]

    with ExitStack() as hooks:
        for layer in layers:
            hooks.callback(layer.register_forward_pre_hook(note, with_kwargs=True).remove)
        for run in runs():
            seen.clear()
            last.clear()
            with suppress(Enough):
                run()
    return sums
