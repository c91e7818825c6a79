"""The inputs of linear layers and experts in runs on real inputs, as what calibration needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

from onnxfn.weights.calibrated import InputErrors, input_errors

MOST, BYTES = 3 << 27, 4
"""Bytes of second moments that are in memory at once, and of one of them."""

FEWEST = 1 / 16
"""The fewest tokens that calibrate an expert, for each of its inputs."""

Runs = Callable[[], Iterable[Callable[[], Any]]]
"""Runs of a model, each on other inputs."""

Leave = Callable[[str, int], None]
"""Is called with the name of a weight and the index of a matrix in it whose codes stay the nearest."""

Key = tuple[int, int]
"""The identity of a weight, and the index of a matrix in it."""


class Enough(BaseException):
    """Ends a run of a model: what is wanted of it is known."""


def product_inputs(
    model: Any, runs: Runs, most: int = MOST, leave: Leave = lambda *_: None
) -> Callable[[Any, int], InputErrors | None]:
    """A function from a weight of a model and the index of a matrix in it to its `InputErrors`, or None without inputs.

    A run also gives those of the layers after it: moments of at most `most` bytes, or of one matrix. The matrix of an
    expert that too few tokens reach has none, and `leave` is called.
    """
    layers = [module for module in model.modules() if _is_linear(module) or _is_experts(module)]
    widths = {key: size for layer in layers for key, size in _widths(layer).items()}
    stacks = {id(weight): layer.is_transposed for layer in layers if _is_experts(layer) for weight in _stacks(layer)}
    names = {id(weight): name for name, weight in model.named_parameters()}
    known, counts, errors = dict[Key, Any](), dict[Key, int](), lru_cache(1)(input_errors)

    def errors_of(weight: Any, index: int = 0) -> InputErrors | None:
        key = (id(weight), index)
        if key in widths and key not in known:
            errors.cache_clear()
            known.clear()
            after = list(widths.items())[list(widths).index(key) :]
            fit = sum(size <= most for size in accumulate(BYTES * width * width for _, width in after))
            known.update(_moments(layers, [each for each, _ in after[: fit or 1]], runs, counts))
        if id(weight) in stacks and counts.get(key, 0) < FEWEST * widths[key]:
            leave(names[id(weight)], index)
            return None
        moments = known.get(key)
        return None if moments is None else errors(moments, counts[key], along_rows=stacks.get(id(weight), False))

    return errors_of


def _is_linear(module: Any) -> bool:
    import torch
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, (torch.nn.Linear, Conv1D))


def _is_experts(module: Any) -> bool:
    """Whether the weights of a module are stacks with a matrix for each expert, as transformers says of its classes."""
    return hasattr(module, "is_transposed") and hasattr(module, "has_gate") and hasattr(module, "down_proj")


def _stacks(experts: Any) -> tuple[Any, Any]:
    """The weights of the first and of the second products of experts."""
    return experts.gate_up_proj if experts.has_gate else experts.up_proj, experts.down_proj


def _widths(layer: Any) -> dict[Key, int]:
    """The number of inputs of each matrix of a layer."""
    if _is_linear(layer):
        return {(id(layer.weight), 0): getattr(layer, "in_features", len(layer.weight))}  # Conv1D: [inputs, outputs]
    axis = -2 if layer.is_transposed else -1
    return {(id(stack), index): stack.shape[axis] for stack in _stacks(layer) for index in range(len(stack))}


def _reads(layer: Any, values: Sequence[Any]) -> Iterator[tuple[Key, Callable[[], Any]]]:
    """The matrices of a layer that gets some values, each with a function that returns its inputs."""
    if _is_linear(layer):
        yield from [((id(layer.weight), 0), lambda: values[0])] if values else []
        return
    first, second = _stacks(layer)
    for expert in range(len(first)):
        yield (id(first), expert), partial(_tokens, expert, *values[:2])
    for expert in range(len(second)):
        yield (id(second), expert), partial(_inner_states, layer, expert, *values[:2])


def _tokens(expert: int, states: Any, chosen: Any) -> Any:
    """The states of the tokens that reach an expert. `chosen`: the indices of the experts of each token."""
    return states.reshape(-1, states.shape[-1])[(chosen.reshape(-1, chosen.shape[-1]) == expert).any(-1)]


def _inner_states(experts: Any, expert: int, states: Any, chosen: Any) -> Any:
    """The inputs of the second product of an expert."""
    matrix = _stacks(experts)[0].select(0, expert)
    product = _tokens(expert, states, chosen) @ (matrix if experts.is_transposed else matrix.mT)
    if experts.has_bias:
        product = product + (experts.gate_up_proj_bias if experts.has_gate else experts.up_proj_bias).select(0, expert)
    return experts._apply_gate(product) if experts.has_gate else experts.act_fn(product)


def _moments(layers: Sequence[Any], keys: Sequence[Key], runs: Runs, counts: dict[Key, int]) -> Mapping[Key, Any]:
    """The second moments of the inputs of matrices, and their `counts`. Layers with the same tensor share theirs."""
    sums: dict[Key, Any] = dict.fromkeys(keys)
    counts |= dict.fromkeys(keys, 0)
    seen, last = set[Key](), list[tuple[Any, Any]]()

    def note(layer: Any, arguments: Any, named: Mapping[str, Any]) -> None:
        for key, inputs in _reads(layer, (*arguments, *named.values())):
            if key not in sums and len(seen) == len(sums):
                raise Enough
            if key not in sums:
                continue
            seen.add(key)
            values = inputs()
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
