"""How PyTorch calls the layers of a model in a run, and runs of the model without some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from attrs import frozen

from onnxfn.check.sections.hidden_states import first_real_tensor

LEAST_LAYERS = 2
"""A list of fewer layers has no equal ones."""


@frozen
class LayerChain:
    """Layers of a list that a run called one after the other, each once.

    Attributes:
        paths: The paths of the layers.
        shapes: The shapes of the hidden states before each layer, and after the last.
        returned: The items of the tuple that each layer returns: the hidden states, and else None; 0 for the hidden
            states alone. None if the model does not run without the layer: the next one does not take its result as it
            is, or that is not like what the layer takes.
    """

    paths: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    returned: tuple[int | None, ...]


@frozen
class _Call:
    """A call of a layer.

    Attributes:
        index: The index of the layer.
        taken: The shape of the hidden states that it takes; None without any.
        result: The shape of those that it returns; None without any.
        returned: The items of the tuple that it returns, see `LayerChain`; None if they are not like what it takes.
        takes_last: Whether it takes what the call before returned.
    """

    index: int
    taken: tuple[int, ...] | None
    result: tuple[int, ...] | None
    returned: int | None
    takes_last: bool


@contextmanager
def recorded_chains(model: Any) -> Iterator[Callable[[], tuple[LayerChain, ...]]]:
    """A context in which the calls of layers are recorded; a function that returns the chains of the last run.

    A list of layers that a run does not call in its order, each once, is no chain. Of the tensors only the last one of
    each list is held.
    """
    lists = _lists(model)
    calls: dict[str, list[_Call]] = {path: [] for path in lists}
    last: dict[str, Any] = {}

    def leave(path: str, index: int, _: Any, arguments: Any, named: Any, result: Any) -> None:
        if index == 0:
            calls[path].clear()
        taken, first = first_real_tensor((arguments, named)), first_real_tensor(result)
        takes_last = taken is not None and taken is last.get(path)
        calls[path].append(_Call(index, _shape(taken), _shape(first), _returned(taken, result), takes_last))
        last[path] = first

    def chains() -> tuple[LayerChain, ...]:
        return tuple(chain for path, layers in lists.items() for chain in _chains(path, calls[path], len(layers)))

    with ExitStack() as hooks:
        for path, layers in lists.items():
            for index, layer in enumerate(layers):
                hook = layer.register_forward_hook(partial(leave, path, index), with_kwargs=True)
                hooks.callback(hook.remove)
        yield chains


def _lists(model: Any) -> dict[str, list[Any]]:
    """The lists of layers of a model by path, an outer one before those in its layers."""
    import torch

    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    return {
        path: [*module]
        for path, module in model.named_modules()
        if type(module) in lists and len(module) >= LEAST_LAYERS
    }


def listed_layers(model: Any) -> dict[str, Any]:
    """The layers of the lists of a model by path; of lists inside one another, those of the outermost."""
    layers: dict[str, Any] = {}
    for path, listed in _lists(model).items():
        if not any(path == outer or path.startswith(f"{outer}.") for outer in layers):
            layers |= {f"{path}.{index}".removeprefix("."): layer for index, layer in enumerate(listed)}
    return layers


def _chains(path: str, calls: Sequence[_Call], layers: int) -> Iterator[LayerChain]:
    """The chain of a list of so many layers; none if the calls are not those of its layers, in their order."""
    shapes = [call.taken for call in calls] + [call.result for call in calls[-1:]]
    known = [shape for shape in shapes if shape is not None]
    if [call.index for call in calls] == [*range(layers)] and len(known) == len(shapes):
        paths = tuple(f"{path}.{call.index}".removeprefix(".") for call in calls)
        is_taken = (*(call.takes_last for call in calls[1:]), False)
        returned = (call.returned if taken else None for call, taken in zip(calls, is_taken, strict=True))
        yield LayerChain(paths, tuple(known), tuple(returned))


def _shape(tensor: Any) -> tuple[int, ...] | None:
    return None if tensor is None else tuple(tensor.shape)


def _returned(taken: Any, result: Any) -> int | None:
    """The items of the tuple that a layer returns, see `LayerChain`; None if they are not like what it takes."""
    is_tuple = isinstance(result, tuple)
    first, *others = result if is_tuple else (result,)
    is_tensor = taken is not None and first is not None and first is first_real_tensor(first)
    is_like_taken = is_tensor and (first.shape, first.dtype) == (taken.shape, taken.dtype)
    return (1 + len(others) if is_tuple else 0) if is_like_taken and all(each is None for each in others) else None


@contextmanager
def without_layers(model: Any, left_out: Mapping[str, int]) -> Iterator[None]:
    """A context in which layers of a model return the hidden states that they take.

    `left_out` is from the paths of the layers to the items of the tuples that they return: see `LayerChain`.
    """
    with ExitStack() as restored:
        for path, items in left_out.items():
            own = restored.enter_context(restored_forward(model, path))
            own["forward"] = partial(_taken, items)
        yield


@contextmanager
def restored_forward(model: Any, path: str) -> Iterator[dict[str, Any]]:
    """A context that yields the attributes of a module, and gives it its own `forward` again on leaving."""
    own = vars(model.get_submodule(path))
    forward = own.get("forward")
    try:
        yield own
    finally:
        own.pop("forward", None)
        if forward is not None:
            own["forward"] = forward


def _taken(items: int, *arguments: Any, **named: Any) -> Any:
    """The hidden states among the arguments of a layer, in the form in which the layer returns its own."""
    taken = first_real_tensor((arguments, named))
    return (taken, *[None] * (items - 1)) if items else taken
