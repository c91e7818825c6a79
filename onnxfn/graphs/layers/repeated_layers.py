"""Repeated layers of a model, found and truncated, and whether two modules differ in parameters alone."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from attrs import frozen

INTERNAL = ("_parameters", "_buffers", "_modules")
"""Attributes of a module that are compared apart from the others."""

INDEX_WORDS = ("idx", "index", "layer", "number")
"""Words in the names of attributes that are the index of a layer."""

PLAIN = (int, float, str)
"""Types of values that are compared with `==`."""

Comparison = Callable[[Any, Any, int], bool]
"""Function from two values and a layer offset to whether they are equal up to parameters."""


def same_but_parameters(a: Any, b: Any, layer_offset: int) -> bool:
    """Whether module `b` computes what module `a` does, but with its own parameters, `layer_offset` layers later.

    Equal are their types, attributes and submodules, the shapes and dtypes of their parameters, and the values of the
    buffers that they compute themselves. An attribute that is the index of the layer may be larger by the offset.
    """
    if type(a) is not type(b) or a._modules.keys() != b._modules.keys():
        return False
    if not _same_value(_attributes(a), _attributes(b), layer_offset) or not _same_tensors(a, b):
        return False
    return all(_same_child(a._modules[name], b._modules[name], layer_offset) for name in a._modules)


def _same_child(a: Any, b: Any, layer_offset: int) -> bool:
    return a is b if a is None or b is None else same_but_parameters(a, b, layer_offset)


def _attributes(module: Any) -> Mapping[str, Any]:
    """The attributes of a module other than tensors and submodules; hooks are among them."""
    return {name: value for name, value in vars(module).items() if name not in INTERNAL}


def _same_tensors(a: Any, b: Any) -> bool:
    """Whether parameters and stored buffers have the same shapes and dtypes, and computed buffers the same values."""
    computed = a._non_persistent_buffers_set
    tensors, others = ({**module._parameters, **module._buffers} for module in (a, b))
    return list(tensors) == list(others) and all(
        _same_tensor(tensor, others[name], values=name in computed) for name, tensor in tensors.items()
    )


def _same_tensor(a: Any, b: Any, *, values: bool) -> bool:
    """Whether two tensors have the same shape and dtype, and the same values if these are to be compared."""
    import torch

    if a is None or b is None:
        return a is b
    same_type = (a.shape, a.dtype) == (b.shape, b.dtype)
    return same_type and (not values or bool(torch.equal(a, b)))


def _same_value(a: Any, b: Any, layer_offset: int) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, PLAIN):
        return bool(a == b)
    comparison = next((comparison for kinds, comparison in _comparisons().items() if isinstance(a, kinds)), _equal)
    return comparison(a, b, layer_offset)


def _equal(a: Any, b: Any, _: int) -> bool:
    try:
        return bool(a == b)
    except (TypeError, ValueError, RuntimeError):  # values that cannot be compared, such as arrays
        return False


def _same_sequence(a: Any, b: Any, layer_offset: int) -> bool:
    return len(a) == len(b) and all(_same_value(*pair, layer_offset) for pair in zip(a, b, strict=True))


def _same_mapping(a: Any, b: Any, layer_offset: int) -> bool:
    return list(a) == list(b) and all(
        _same_value(value, b[key], layer_offset) or _shifted_index(key, value, b[key], layer_offset)
        for key, value in a.items()
    )


def _shifted_index(name: Any, a: Any, b: Any, layer_offset: int) -> bool:
    """Whether an attribute is the index of a layer, and that of `b` is `layer_offset` larger."""
    is_index = type(a) is int and type(b) is int and any(word in str(name) for word in INDEX_WORDS)
    return is_index and b - a == layer_offset


def _same_method(a: Any, b: Any, _: int) -> bool:
    return a.__func__ is b.__func__ and type(a.__self__) is type(b.__self__)


def _same_partial(a: Any, b: Any, layer_offset: int) -> bool:
    return _same_value((a.func, a.args, a.keywords), (b.func, b.args, b.keywords), layer_offset)


def _comparisons() -> Mapping[Any, Comparison]:
    """Types -> how two values of these types are compared; values of other types are compared with `==`."""
    import torch

    return MappingProxyType(
        {
            (list, tuple): _same_sequence,
            Mapping: _same_mapping,
            torch.nn.Module: same_but_parameters,
            torch.Tensor: lambda a, b, _: _same_tensor(a, b, values=True),
            types.MethodType: _same_method,
            functools.partial: _same_partial,
        }
    )


LEAST_SAVED_SHARE = 0.2
"""The least share of a model's modules that a trace must leave out: a proof that fails is followed by a whole trace."""


@frozen
class LayerStack:
    """A list of layers that repeats with a period, after a few layers at its head.

    `LayerStack("model.layers", layers=30, head=1, period=2)` has 30 layers: layer 3 equals layer 1 but for parameters,
    layer 4 equals layer 2, and so on. Layer 0 may differ from all others.

    Attributes:
        path: The path of the list in the model.
        layers: The number of layers.
        head: The number of layers before the first period.
        period: The number of layers after which they repeat.
    """

    path: str
    layers: int
    head: int
    period: int

    @property
    def traced_layers(self) -> int:
        """How many layers a trace needs: the head, two periods to compare, and an end of 1 to `period` layers.

        The end has as many layers as makes the rest a multiple of the period: the rest is a number of periods.
        """
        least = self.head + 2 * self.period + 1
        return least + (self.layers - least) % self.period

    @property
    def prefix(self) -> str:
        """How the names of the layers' parameters begin; empty if the model itself is the list."""
        return f"{self.path}." if self.path else ""

    def layer_index(self, parameter: str) -> int | None:
        """The index of the layer that a parameter belongs to; None if it belongs to none."""
        index, _, _ = parameter.removeprefix(self.prefix).partition(".")
        return int(index) if parameter.startswith(self.prefix) and index.isdecimal() else None

    def shifted(self, parameter: str, by: int) -> str:
        """The name of the same parameter `by` layers later."""
        index, _, rest = parameter.removeprefix(self.prefix).partition(".")
        return f"{self.prefix}{int(index) + by}.{rest}"


def repeated_layers(model: Any) -> tuple[LayerStack, ...]:
    """The outermost stacks of a model that have more layers than a trace of them needs."""
    import torch

    stacks: list[LayerStack] = []
    for path, module in model.named_modules():
        if type(module) not in (torch.nn.ModuleList, torch.nn.Sequential) or _is_inside(path, stacks):
            continue
        stack = _shortest_stack(path, list(module.children()), _values_of_layers(model, len(module)))
        if stack is not None and _has_own_parameters(model, module):
            stacks.append(stack)
    return tuple(stacks)


def stacks_worth_a_proof(model: Any) -> tuple[LayerStack, ...]:
    """The repeated layers of a model, if a trace without most of them saves more time than their proof takes."""
    stacks = repeated_layers(model)
    return stacks if saved_share(model, stacks) >= LEAST_SAVED_SHARE else ()


def saved_share(model: Any, stacks: Sequence[LayerStack]) -> float:
    """The share of the modules of a model that are in layers that a trace does not need."""
    layers = [
        layer for stack in stacks for layer in list(model.get_submodule(stack.path).children())[stack.traced_layers :]
    ]
    return sum(len(list(layer.modules())) for layer in layers) / len(list(model.modules()))


@contextmanager
def truncated(model: Any, stacks: Sequence[LayerStack]) -> Iterator[None]:
    """Removes the layers of each stack that a trace does not need; on leaving, restores them."""
    containers = [(model.get_submodule(stack.path), stack.traced_layers) for stack in stacks]
    all_layers = [container._modules for container, _ in containers]
    try:
        for container, traced_layers in containers:
            container._modules = dict(list(container._modules.items())[:traced_layers])
        yield
    finally:
        for (container, _), layers in zip(containers, all_layers, strict=True):
            container._modules = layers


def _is_inside(path: str, stacks: Sequence[LayerStack]) -> bool:
    return any(path.startswith(stack.prefix) for stack in stacks)


def _shortest_stack(path: str, layers: Sequence[Any], values: Sequence[Sequence[Any]]) -> LayerStack | None:
    """The stack of these layers whose trace needs the fewest; None when a trace needs all of them."""
    kinds = _kinds(layers, values)
    stacks = [
        LayerStack(path, len(layers), _layers_before(kinds, period) + 1, period)
        for period in range(1, max(1, len(layers) // 2))
    ]
    shortest = min(stacks, key=lambda stack: stack.traced_layers, default=None)
    return shortest if shortest is not None and shortest.traced_layers < len(layers) else None


def _layers_before(kinds: Sequence[Any], period: int) -> int:
    """How many layers come before all that have the kind of the layer one period later."""
    different = [index for index in range(len(kinds) - period) if kinds[index] != kinds[index + period]]
    return different[-1] + 1 if different else 0


def _kinds(layers: Sequence[Any], values: Sequence[Sequence[Any]]) -> list[Any]:
    """The kind of each layer: the index of the first layer that equals it, and what the configurations say of it."""
    firsts: list[int] = []
    kinds: list[Any] = []
    for index, layer in enumerate(layers):
        equal = (first for first in firsts if same_but_parameters(layers[first], layer, index - first))
        first = next(equal, index)
        if first == index:
            firsts.append(index)
        kinds.append((first, *(repr(value[index]) for value in values)))
    return kinds


def _values_of_layers(model: Any, length: int) -> list[Sequence[Any]]:
    """The lists in the configurations that have one item per layer of a stack of this length, such as `layer_types`."""
    configs = [config for module in model.modules() if (config := getattr(module, "config", None)) is not None]
    values = [
        value
        for config in {id(config): config for config in configs}.values()
        for value in getattr(config, "__dict__", {}).values()
    ]
    return [value for value in values if isinstance(value, (list, tuple)) and len(value) == length]


def _has_own_parameters(model: Any, stack: Any) -> bool:
    """Whether the layers have parameters, and share none with another layer or with a module outside the stack.

    The nodes of a layer are recognized by its parameters.
    """
    layers = [{id(parameter) for parameter in layer.parameters()} for layer in stack.children()]
    inside = set().union(*layers)
    outside = {id(parameter) for parameter in model.parameters()} - inside
    uses_in_stack = sum(len(list(_parameter_uses(layer))) for layer in stack.children())
    uses_in_model = sum(1 for parameter in _parameter_uses(model) if id(parameter) in inside)
    are_separate = sum(map(len, layers)) == len(inside) and not inside & outside and uses_in_stack == uses_in_model
    return bool(inside) and are_separate


def _parameter_uses(module: Any) -> Iterator[Any]:
    """The parameters of a module, one that is shared as often as it is registered."""
    return (parameter for _, parameter in module.named_parameters(remove_duplicate=False))
