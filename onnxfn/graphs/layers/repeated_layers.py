"""Repeated layers of a model, found by the states of their modules, and truncated."""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pickle import Pickler
from typing import Any

from attrs import frozen

from onnxfn.specs.errors import raise_no_memory

LEAST_SAVED_SHARE = 0.2
"""The least share of a model's modules that a trace must skip, because a failed proof costs a second, whole trace."""


@frozen
class LayerStack:
    """A list of layers in a model that repeats with a period, after a few layers at its head.

    `LayerStack("model.layers", layers=30, head=1, period=2)` has 30 layers: layer 3 equals layer 1 but for parameters,
    layer 4 equals layer 2, and so on. Layer 0 may differ from all others.
    """

    path: str
    layers: int
    head: int
    period: int

    @property
    def traced_layers(self) -> int:
        """The number of traced layers: the head, two periods, and 1 to `period` more; the rest are whole periods."""
        least = self.head + 2 * self.period + 1
        return least + (self.layers - least) % self.period

    @property
    def prefix(self) -> str:
        """The prefix of the names of the layers' parameters; empty if the model itself is the list."""
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
        is_inside = path.startswith(tuple(stack.prefix for stack in stacks))
        if is_inside or type(module) not in (torch.nn.ModuleList, torch.nn.Sequential):
            continue
        stack = _shortest_stack(path, list(module.children()), _values_of_layers(model, len(module)))
        if stack is not None and _has_own_parameters(model, stack):
            stacks.append(stack)
    return tuple(stacks)


def stacks_worth_a_proof(model: Any) -> tuple[LayerStack, ...]:
    """The repeated layers of a model, if a trace without most of them saves more time than their proof takes."""
    stacks = repeated_layers(model)
    return stacks if saved_share(model, stacks) >= LEAST_SAVED_SHARE else ()


def saved_share(model: Any, stacks: Sequence[LayerStack]) -> float:
    """The share of a model's modules that lie in layers a trace can skip."""
    skipped = [list(model.get_submodule(stack.path).children())[stack.traced_layers :] for stack in stacks]
    return sum(len(list(layer.modules())) for layers in skipped for layer in layers) / len(list(model.modules()))


@contextmanager
def truncated(model: Any, stacks: Sequence[LayerStack]) -> Iterator[None]:
    """Removes the layers of each stack that a trace can skip; on leaving, restores them."""
    containers = [(model.get_submodule(stack.path), stack.traced_layers) for stack in stacks]
    all_layers = [container._modules for container, _ in containers]
    try:
        for container, traced_layers in containers:
            container._modules = dict(list(container._modules.items())[:traced_layers])
        yield
    finally:
        for (container, _), layers in zip(containers, all_layers, strict=True):
            container._modules = layers


def _shortest_stack(path: str, layers: Sequence[Any], values: Sequence[Sequence[Any]]) -> LayerStack | None:
    """The stack of these layers whose trace needs the fewest; None when a trace needs all of them."""
    kinds, periods = _kinds(layers, values), range(1, max(1, len(layers) // 2))
    # After the first layers, each layer has the kind of the layer one period later.
    unlike = {each: [at for at in range(len(kinds) - each) if kinds[at] != kinds[at + each]] for each in periods}
    stacks = [LayerStack(path, len(layers), max(unlike[period], default=-1) + 2, period) for period in periods]
    shortest = min(stacks, key=lambda stack: stack.traced_layers, default=None)
    return shortest if shortest is not None and shortest.traced_layers < len(layers) else None


def _kinds(layers: Sequence[Any], values: Sequence[Sequence[Any]]) -> list[Any]:
    """The kind of each layer: the index of the first equal layer, and its values in the configurations."""
    outlines = [[(name, weight.shape) for name, weight in layer.named_parameters()] for layer in layers]
    pairs = zip(layers, outlines, strict=True)
    described = [_description(layer) if outlines.count(outline) > 1 else (None, []) for layer, outline in pairs]
    kinds: list[Any] = []
    for index, layer in enumerate(described):
        first = next(other for other in range(index + 1) if _are_equal(described[other], layer, index - other))
        kinds.append((first, *(repr(value[index]) for value in values)))
    return kinds


def _description(layer: Any) -> tuple[bytes | None, list[int]]:
    """The state of a layer without its parameters, None if pickle fails; and the integers that may be its index."""
    attributes = (item for module in layer.modules() for item in vars(module).items())
    indices = [value for name, value in attributes if _may_be_index(name, value)]
    try:
        return module_bytes(layer, _identity, _may_be_index), indices
    except Exception as error:  # noqa: BLE001 - whatever pickle cannot write, the layer is then traced
        raise_no_memory(error)
        return None, indices


def _identity(value: Any) -> int | None:
    """A number that is equal for the same class, function or configuration alone; None for other values."""
    is_shared = isinstance(value, type) or inspect.isroutine(value) or hasattr(value, "to_dict")
    return id(value) if is_shared and not inspect.ismethod(value) else None


def _may_be_index(name: str, value: Any) -> bool:
    return type(value) is int and any(word in name for word in ("idx", "index", "layer", "number"))


def _are_equal(first: tuple[bytes | None, list[int]], second: tuple[bytes | None, list[int]], offset: int) -> bool:
    """Whether two layers, `offset` layers apart, are equal."""
    (state, indices), (other_state, other_indices) = first, second
    if offset == 0 or state is None or state != other_state:
        return offset == 0
    return all(b in (a, a + offset) for a, b in zip(indices, other_indices, strict=True))


def _values_of_layers(model: Any, length: int) -> list[Sequence[Any]]:
    """The lists in the configurations that have one item per layer of a stack of this length, such as `layer_types`."""
    configs = {id(each): each for module in model.modules() if (each := getattr(module, "config", None)) is not None}
    values = (value for config in configs.values() for value in getattr(config, "__dict__", {}).values())
    return [value for value in values if isinstance(value, (list, tuple)) and len(value) == length]


def _has_own_parameters(model: Any, stack: LayerStack) -> bool:
    """Whether the layers have parameters, and none is shared with another layer or a module outside the stack."""
    # The nodes of a layer are recognized by its parameters.
    layers: dict[int, set[int | None]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        layers.setdefault(id(parameter), set()).add(stack.layer_index(name))
    inside = [of_parameter for of_parameter in layers.values() if of_parameter != {None}]
    return bool(inside) and all(len(of_parameter) == 1 for of_parameter in inside)


INTERNAL = (
    *("_parameters", "_buffers", "_modules", "training"),
    *("_weight_conversions", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    *("_flat_weights", "_flat_weight_refs", "name_or_path", "onnxfn_weights_from"),
)
"""Attributes of a module that are read elsewhere, or only state where its weights come from."""


def module_bytes(module: Any, stand_in: Callable[[Any], Any], ignored: Callable[[str, Any], bool]) -> bytes:
    """Bytes that are equal for two modules only if they compute the same but for the values of their parameters.

    They hold the submodules, their classes and attributes, the shapes and dtypes of parameters and stored buffers, and
    the elements of all other tensors. Attributes that are `ignored`, by their names and values, are left out. An error
    of any type for a value that cannot be pickled, and for a parameter or a module that is not registered.
    """
    import torch

    paths = {id(inner): path for path, inner in module.named_modules()}

    def persistent_id(value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return paths[id(value)]
        if isinstance(value, torch.nn.Parameter):
            raise TypeError("a parameter that is not registered")
        if isinstance(value, torch.Tensor):
            return tensor_type(value), elements_digest(value)
        if isinstance(value, (torch.dtype, torch.device)):
            return str(value)
        return ["set", *sorted(value, key=repr)] if isinstance(value, (set, frozenset)) else stand_in(value)

    stream = BytesIO()
    pickler: Any = Pickler(stream, protocol=4)
    pickler.fast = True  # a value is written the same way whether or not it is the same object as an earlier one
    pickler.persistent_id = persistent_id
    pickler.dump([line for path, inner in module.named_modules() for line in _lines(path, inner, ignored)])
    return stream.getvalue()


def _lines(path: str, module: Any, ignored: Callable[[str, Any], bool]) -> Iterator[tuple[Any, ...]]:
    """The class, the attributes, the submodules and the tensors of a module."""
    yield path, type(module), list(module._modules)
    for name, value in vars(module).items():
        is_empty = isinstance(value, (dict, set, list, tuple)) and not value
        if name not in INTERNAL and not is_empty and not ignored(name, value):
            is_numbered = name in ("_forward_hooks", "_forward_pre_hooks")  # by how many hooks the process has
            yield path, name, list(value.values()) if is_numbered else value
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        yield path, name, tensor_type(tensor), tensor if name in module._non_persistent_buffers_set else None


def tensor_type(tensor: Any) -> str:
    """The dtype and the shape of a tensor as text."""
    return "none" if tensor is None else f"{tensor.dtype}{list(tensor.shape)}"


def elements_digest(tensor: Any) -> str:
    """A digest of a tensor's bytes, seen as integers since numpy lacks bfloat16."""
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()
