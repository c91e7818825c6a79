"""The inputs of linear layers and experts in runs on real inputs, as what calibration needs to know of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache, partial
from itertools import accumulate
from operator import itemgetter
from typing import Any
from unittest.mock import patch

from onnxfn.weights.calibrated import InputErrors, input_errors

MOST, BYTES = 3 << 27, 4
"""Bytes of second moments that a run gives, unless one matrix has more, and of one of them."""

FEWEST = 1 / 16
"""The fewest tokens that calibrate an expert, for each of its inputs."""

Runs = Callable[[], Iterable[Callable[[], Any]]]
"""Runs of a model, each on other inputs."""

Key = tuple[int, int]
"""The identity of a weight, and the index of a matrix in it."""

Moments = tuple[Any, int]
"""The second moments of the inputs of a matrix, None before the first run, and the number of the inputs."""

Matrices = Mapping[Key, tuple[int, Callable[[Sequence[Any]], Any]]]
"""From a matrix to the number of its inputs, and a function that returns them from the arguments of its layer."""

Returned = dict[str, Any]
"""From the name of a layer that has run to what it returned; a layer whose result the next one took has that one's."""


class Enough(BaseException):
    """Ends a run of a model: what is wanted of it is known."""


def product_inputs(
    model: Any, runs: Runs, most: int = MOST, leave: Callable[[str, int], None] = lambda *_: None
) -> Callable[[Any, int], InputErrors | None]:
    """A function from a weight and the index of a matrix there to its `InputErrors`; None if few tokens reach it."""
    # `leave` is called with the name of a weight and the index of a matrix in it whose codes stay the nearest.
    layers = {layer: of_layer for layer in model.modules() if (of_layer := _matrices(layer))}
    widths = {key: width for of_layer in layers.values() for key, (width, _) in of_layer.items()}
    stacks = {key[0]: layer.is_transposed for layer in layers for key in layers[layer] if hasattr(layer, "down_proj")}
    names = {id(weight): name for name, weight in model.named_parameters()}
    known, ended, errors = dict[Key, Moments](), list[Returned](), lru_cache(1)(input_errors)

    def errors_of(weight: Any, index: int = 0) -> InputErrors | None:
        key = (id(weight), index)
        if key in widths and key not in known:
            errors.cache_clear()
            known.clear()
            keys = list(widths)[list(widths).index(key) :]
            fit = sum(size <= most for size in accumulate(BYTES * widths[each] ** 2 for each in keys))
            known.update(_moments(model, layers, keys[: fit or 1], runs, ended))
        moments, count = known.get(key, (None, 0))
        if key[0] in stacks and count < FEWEST * widths[key]:
            leave(names[key[0]], index)
            moments = None
        return None if moments is None else errors(moments, count, along_rows=stacks.get(key[0], False))

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


def _moments(
    model: Any, layers: Mapping[Any, Matrices], keys: Sequence[Key], runs: Runs, ended: list[Returned]
) -> dict[Key, Moments]:
    """The second moments of the inputs of matrices, and how many there are. Layers with the same tensor share theirs.

    A run begins where it `ended` before if the first one has the same inputs there as a whole run.
    """
    sums: dict[Key, Moments] = dict.fromkeys(keys, (None, 0))
    is_same = False
    for index, run in enumerate(runs()):
        earlier, known = ended[index] if ended[index:] else {}, Returned()
        if index == 0:
            noted = _noted(model, layers, sums, run, known)
            is_same = bool(earlier) and _noted(model, layers, sums, run, earlier, adds=False) == noted
        else:
            known = earlier if is_same else known
            _noted(model, layers, sums, run, known)
        ended[index : index + 1] = [known]
    return sums


def _noted(
    model: Any,
    layers: Mapping[Any, Matrices],
    sums: dict[Key, Moments],
    run: Callable[[], Any],
    known: Returned,
    *,
    adds: bool = True,
) -> list[float]:
    """The sum of the inputs of each matrix of `sums` in a run from what is known; `adds` their moments to `sums`."""
    seen, last, noted = set[Key](), list[tuple[Any, Any]](), list[float]()

    def note(layer: Any, arguments: Any, named: Mapping[str, Any]) -> None:
        for key, (_, inputs) in layers[layer].items():
            if key not in sums and len(seen) == len(sums):
                raise Enough
            if key not in sums:
                continue
            seen.add(key)
            values, (moments, count) = inputs((*arguments, *named.values())), sums[key]
            noted.append(float(values.sum()))
            if adds and (not last or last[0][0] is not values):
                rows = values.detach().reshape(-1, values.shape[-1]).float()
                last[:] = [(values, rows.mT @ rows if moments is None else moments.addmm_(rows.mT, rows))]
            sums[key] = (last[0][1], count + values[..., 0].numel()) if adds else sums[key]

    with ExitStack() as hooks, resumed(model, known), suppress(Enough):
        for layer in layers:
            hooks.callback(layer.register_forward_pre_hook(note, with_kwargs=True).remove)
        run()
    return noted


@contextmanager
def resumed(model: Any, known: Returned) -> Iterator[None]:
    """Layers return what is known of them and do not run; `known` gets what the others return, of each stack the last.

    That is what a whole run computes where each layer of a stack reads the one before it, and nothing else does.
    """
    import torch

    def returned(name: str, _: Any, arguments: Any, named: Any, result: Any) -> None:
        stack, taken = name.rpartition(".")[0], {id(each) for each in (*arguments, *named.values())}
        for other in [each for each in known if each.startswith(f"{name}.")]:
            del known[other]
        states = {each: of[0] if isinstance(of, tuple) else of for each, of in known.items()}
        read = [each for each, of in states.items() if each.rpartition(".")[0] == stack and id(of) in taken]
        known.update(dict.fromkeys((*read, name), result))

    lists = {name: each for name, each in model.named_modules() if isinstance(each, torch.nn.ModuleList)}
    layers = {f"{name}.{index}": layer for name, each in lists.items() for index, layer in enumerate(each)}
    with ExitStack() as changes:
        for name, layer in layers.items():
            if name in known:
                changes.enter_context(patch.object(layer, "forward", lambda *_, of=known[name], **__: of))
            else:
                hook = layer.register_forward_hook(partial(returned, name), with_kwargs=True)
                changes.callback(hook.remove)
        yield
