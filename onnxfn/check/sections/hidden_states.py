"""PyTorch's hidden states between the layers in a run, and the result of each layer in a wider dtype."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from attrs import frozen

from onnxfn.check.cuts.recorded_tensors import real_tensors
from onnxfn.check.verdict.verdict import NoReference, no_casts_below, no_reference
from onnxfn.models.casting import cast_on_use
from onnxfn.models.model_state import copied
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import InvalidSpec


@frozen(eq=False)
class HiddenStates:
    """The hidden states of a run: the input of each layer, and the result of the last; `exact`: in the wider dtype."""

    states: tuple[Array, ...]
    exact: tuple[Array | None, ...]


@contextmanager
def recorded_hidden_states(
    model: Any, layers: Sequence[str], wider: Sequence[str] = ()
) -> Iterator[Callable[[], HiddenStates]]:
    """A context that records the runs of a model; yields a function that returns the hidden states of the last run."""
    # It raises InvalidSpec if the run did not call each layer once, in order. `wider`: dtypes to try for `exact`.
    calls = list[int]()
    before, after, exact = dict[int, Array](), dict[int, Array](), dict[int, Array]()

    def enter(index: int, module: Any, arguments: Any, named: Any) -> None:
        if index == 0:
            for each in (calls, before, after, exact):
                each.clear()
        calls.append(index)
        before[index] = first_array((arguments, named))
        for dtype in wider:
            if index not in exact:
                with suppress(NoReference), no_reference(dtype):
                    exact[index] = _in_wider_dtype(module, arguments, named, dtype)

    def leave(index: int, _: Any, __: Any, result: Any) -> None:
        after[index] = first_array(result)

    def last_run() -> HiddenStates:
        if calls != [*range(len(layers))]:
            every = f"each of {layers[0]} to {layers[-1]}"
            raise InvalidSpec(f"{type(model).__name__} does not call {every} once, in order")
        end = len(layers)
        states = (*(before[index] for index in range(end)), after[end - 1])
        passed_on = [np.array_equal(after[index], states[index + 1]) for index in range(end)]
        return HiddenStates(states, tuple(exact.get(index) if same else None for index, same in enumerate(passed_on)))

    with ExitStack() as hooks:
        for index, path in enumerate(layers):
            module = model.get_submodule(path)
            hooks.callback(module.register_forward_pre_hook(partial(enter, index), with_kwargs=True).remove)
            hooks.callback(module.register_forward_hook(partial(leave, index)).remove)
        yield last_run


def _in_wider_dtype(module: Any, arguments: Any, named: Any, wider: str) -> Array:
    """The result of a layer in a wider dtype, on copies of its arguments: it may change a cache."""
    dtype = getattr(torch, wider)
    arguments, named = copied(
        (arguments, named), lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor.clone()
    )
    with cast_on_use(module, dtype), no_casts_below(dtype):
        return first_array(module.forward(*arguments, **named))


def first_array(value: Any) -> Array:
    """A copy of the first tensor of real numbers in arguments or a result as an array: float64, or float32."""
    tensor = next(real_tensors(value), None)
    if tensor is None:
        raise InvalidSpec("a layer takes or returns no hidden states")
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return np.asarray(tensor.detach().to(wide).cpu().numpy().copy())
