"""Stacks: layers of a model that are all alike, of which a few tell all; found, and cut for a while."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen


@frozen
class Stack:
    """Layers after one another: where they are, how many, how many come before they repeat, and how many repeat.

    `Stack("model.layers", layers=30, head=1, period=2)` says that layer 3 is like layer 1, layer 4 like layer 2.
    """

    path: str
    layers: int
    head: int
    period: int

    @property
    def traced(self) -> int:
        """How many layers tell all: the head, two periods to compare, and an end that is in step with the whole."""
        least = self.head + 2 * self.period + 1
        return least + (self.layers - least) % self.period

    def layer(self, parameter: str) -> int | None:
        """Which of the layers a parameter belongs to."""
        number, _, _ = parameter.removeprefix(f"{self.path}.").partition(".")
        return int(number) if parameter.startswith(f"{self.path}.") and number.isdecimal() else None

    def moved(self, parameter: str, by: int) -> str:
        """What a parameter of one of the layers is called some layers further."""
        number, _, rest = parameter.removeprefix(f"{self.path}.").partition(".")
        return f"{self.path}.{int(number) + by}.{rest}"


def stacks(model: Any) -> tuple[Stack, ...]:
    """The stacks of a model that are deeper than what tells all of them, the outermost only."""
    import torch

    found: list[Stack] = []
    for path, module in model.named_modules():
        if type(module) not in (torch.nn.ModuleList, torch.nn.Sequential) or _inside(path, found):
            continue
        one = _stack(path, list(module.children()), _tables(model, len(module)))
        if one is not None and _apart(model, module):
            found.append(one)
    return tuple(found)


@contextmanager
def cut(model: Any, found: Sequence[Stack]) -> Iterator[None]:
    """The model with no more of each stack than tells all; on leaving, as it was."""
    containers = [(model.get_submodule(one.path), one.traced) for one in found]
    whole = [container._modules for container, _ in containers]
    try:
        for container, traced in containers:
            container._modules = dict(list(container._modules.items())[:traced])
        yield
    finally:
        for (container, _), modules in zip(containers, whole, strict=True):
            container._modules = modules


def _inside(path: str, found: Sequence[Stack]) -> bool:
    return any(path.startswith(f"{one.path}.") for one in found)


def _stack(path: str, layers: Sequence[Any], tables: Sequence[Sequence[Any]]) -> Stack | None:
    """The stack that takes the fewest layers to tell, if that is fewer than there are."""
    kinds = _kinds(layers, tables)
    known = [
        Stack(path, len(layers), _head(kinds, period) + 1, period) for period in range(1, max(1, len(layers) // 2))
    ]
    best = min(known, key=lambda one: one.traced, default=None)
    return best if best is not None and best.traced < len(layers) else None


def _head(kinds: Sequence[Any], period: int) -> int:
    """How many layers come before each is like the one a period later."""
    unlike = [index for index in range(len(kinds) - period) if kinds[index] != kinds[index + period]]
    return unlike[-1] + 1 if unlike else 0


def _kinds(layers: Sequence[Any], tables: Sequence[Sequence[Any]]) -> list[Any]:
    """A number for each layer, the same for layers that are alike, and what the configuration says of it."""
    firsts: list[int] = []
    kinds: list[Any] = []
    for index, layer in enumerate(layers):
        first = next((one for one in firsts if alike(layers[one], layer, index - one)), index)
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


# Alike: of two modules nothing differs but values of parameters, and the number of the layer


def alike(one: Any, other: Any, by: int) -> bool:
    """Whether two modules do the same with other parameters, `by` layers apart.

    Their types, what they hold, the shapes and types of their parameters and the values of the tables that they compute
    for themselves are the same; a whole number may be greater by as many as the layers lie apart.
    """
    if type(one) is not type(other) or one._modules.keys() != other._modules.keys():
        return False
    if not _same(_said(one), _said(other), by) or not _tensors_alike(one, other):
        return False
    return all(_children_alike(one._modules[name], other._modules[name], by) for name in one._modules)


def _children_alike(one: Any, other: Any, by: int) -> bool:
    return one is other if one is None or other is None else alike(one, other, by)


def _said(module: Any) -> Mapping[str, Any]:
    """What a module holds beside tensors and modules: its own attributes, and whether somebody hooks into it."""
    return {
        name: value
        for name, value in vars(module).items()
        if name not in ("_parameters", "_buffers", "_modules", "_forward_hooks_with_kwargs", "_is_full_backward_hook")
    }


def _tensors_alike(one: Any, other: Any) -> bool:
    import torch

    kept = set(one._buffers) - one._non_persistent_buffers_set
    ours, theirs = ({**module._parameters, **module._buffers} for module in (one, other))
    if list(ours) != list(theirs):
        return False
    for name, tensor in ours.items():
        against = theirs[name]
        if tensor is None or against is None:
            if tensor is not against:
                return False
        elif (tensor.shape, tensor.dtype) != (against.shape, against.dtype) or (
            name in one._buffers and name not in kept and not torch.equal(tensor, against)
        ):
            return False
    return True


def _same(one: Any, other: Any, by: int) -> bool:
    import torch

    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_same(*pair, by) for pair in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(_same(value, other[key], by) for key, value in one.items())
    if isinstance(one, bool | str | float | bytes | None | set | frozenset):
        return bool(one == other)
    if isinstance(one, int):
        return other - one in (0, by)
    if isinstance(one, torch.Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and bool(torch.equal(one, other))
    if isinstance(one, torch.nn.Module):
        return alike(one, other, by)
    if isinstance(one, types.MethodType):
        return one.__func__ is other.__func__ and type(one.__self__) is type(other.__self__)
    if isinstance(one, functools.partial):
        return _same((one.func, one.args, one.keywords), (other.func, other.args, other.keywords), by)
    return _equal(one, other)


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except (TypeError, ValueError, RuntimeError):
        return False
