"""Stacks: layers of a model that are all alike, of which a few tell all; found, and cut for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from onnxfn.graphs.capture.module_equality import same_but_parameters


@frozen
class LayerStack:
    """Layers after one another: where they are, how many, how many come before they repeat, and how many repeat.

    `LayerStack("model.layers", layers=30, head=1, period=2)` says that layer 3 is like layer 1, layer 4 like layer 2.
    """

    path: str
    layers: int
    head: int
    period: int

    @property
    def traced_layers(self) -> int:
        """How many layers tell all: the head, two periods to compare, and an end that is in step with the whole."""
        least = self.head + 2 * self.period + 1
        return least + (self.layers - least) % self.period

    def layer_index(self, parameter: str) -> int | None:
        """Which of the layers a parameter belongs to."""
        number, _, _ = parameter.removeprefix(f"{self.path}.").partition(".")
        return int(number) if parameter.startswith(f"{self.path}.") and number.isdecimal() else None

    def shifted(self, parameter: str, by: int) -> str:
        """What a parameter of one of the layers is called some layers further."""
        number, _, rest = parameter.removeprefix(f"{self.path}.").partition(".")
        return f"{self.path}.{int(number) + by}.{rest}"


def repeated_layers(model: Any) -> tuple[LayerStack, ...]:
    """The stacks of a model that are deeper than what tells all of them, the outermost only."""
    import torch

    found: list[LayerStack] = []
    for path, module in model.named_modules():
        if type(module) not in (torch.nn.ModuleList, torch.nn.Sequential) or _inside(path, found):
            continue
        one = _stack(path, list(module.children()), _tables(model, len(module)))
        if one is not None and _apart(model, module):
            found.append(one)
    return tuple(found)


@contextmanager
def truncated(model: Any, found: Sequence[LayerStack]) -> Iterator[None]:
    """The model with no more of each stack than tells all; on leaving, as it was."""
    containers = [(model.get_submodule(one.path), one.traced_layers) for one in found]
    whole = [container._modules for container, _ in containers]
    try:
        for container, traced in containers:
            container._modules = dict(list(container._modules.items())[:traced])
        yield
    finally:
        for (container, _), modules in zip(containers, whole, strict=True):
            container._modules = modules


def _inside(path: str, found: Sequence[LayerStack]) -> bool:
    return any(path.startswith(f"{one.path}.") for one in found)


def _stack(path: str, layers: Sequence[Any], tables: Sequence[Sequence[Any]]) -> LayerStack | None:
    """The stack that takes the fewest layers to tell, if that is fewer than there are."""
    kinds = _kinds(layers, tables)
    known = [
        LayerStack(path, len(layers), _head(kinds, period) + 1, period) for period in range(1, max(1, len(layers) // 2))
    ]
    best = min(known, key=lambda one: one.traced_layers, default=None)
    return best if best is not None and best.traced_layers < len(layers) else None


def _head(kinds: Sequence[Any], period: int) -> int:
    """How many layers come before each is like the one a period later."""
    unlike = [index for index in range(len(kinds) - period) if kinds[index] != kinds[index + period]]
    return unlike[-1] + 1 if unlike else 0


def _kinds(layers: Sequence[Any], tables: Sequence[Sequence[Any]]) -> list[Any]:
    """A number for each layer, the same for layers that are alike, and what the configuration says of it."""
    firsts: list[int] = []
    kinds: list[Any] = []
    for index, layer in enumerate(layers):
        first = next((one for one in firsts if same_but_parameters(layers[one], layer, index - one)), index)
        if first == index:
            firsts.append(index)
        kinds.append((first, *(repr(table[index]) for table in tables)))
    return kinds


def _tables(model: Any, length: int) -> list[Sequence[Any]]:
    """What the configurations say of each layer of a stack so long: `layer_types` and the like."""
    configs = [config for module in model.modules() if (config := getattr(module, "config", None)) is not None]
    values = [value for config in {id(one): one for one in configs}.values() for value in vars(config).values()]
    return [value for value in values if isinstance(value, (list, tuple)) and len(value) == length]


def _apart(model: Any, stack: Any) -> bool:
    """Whether no layer shares a parameter with another, or with what is outside."""
    layers = [{id(one) for one in layer.parameters()} for layer in stack.children()]
    within = set().union(*layers)
    outside = {id(one) for one in model.parameters()} - within
    every = sum(len(list(_all_parameters(module))) for module in stack.children())
    everywhere = sum(1 for one in _all_parameters(model) if id(one) in within)
    return sum(map(len, layers)) == len(within) and not within & outside and every == everywhere


def _all_parameters(module: Any) -> Iterator[Any]:
    """The parameters, as often as they are there."""
    return (one for _, one in module.named_parameters(remove_duplicate=False))
