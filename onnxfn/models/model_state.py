"""A copy of a model on the same tensors, or on tensors of the CPU; evaluation mode and attention, restored."""

import copy
import functools
import gc
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, zip_longest
from types import CellType, FunctionType, MethodType
from typing import Any

from onnxfn.models.patching import replaced
from onnxfn.models.torch_modes import torch_functions
from onnxfn.specs.errors import InvalidSpec, first_line, raise_no_memory


@contextmanager
def unchanged_eval(model: Any, attention: str | None = None) -> Iterator[None]:
    """Sets a model, which no other thread calls, to evaluation mode and an attention of transformers; restores it."""
    import torch

    modules = list(model.modules())
    owners = {id(owner): owner for owner in (*modules, *_configs(modules)) if hasattr(owner, "__dict__")}
    # transformers registers hooks that collect hidden states, and sets an attribute that says so. Restored without its
    # dicts, a module would register them again at each call. torch keeps hooks in ordered dicts.
    saved = [(vars(owner), dict(vars(owner))) for owner in owners.values()]
    weights = [(each, each.data) for each in model.parameters()]  # a module may assign others
    inside = [each for own, _ in saved for each in own.values() if type(each) in (dict, OrderedDict)]
    empty = [each for each in inside if not each]  # most of them: copies would take time of the garbage collector
    saved += [(each, dict(each)) for each in inside if each]
    for module in modules:
        module.training = False
        _forget_long_texts(module)
    for config in _configs(modules) if attention is not None else ():
        config._attn_implementation_internal = attention
    try:
        with ExitStack() as undo:
            # It gives zeros at padding, or NaN for a text of padding alone. A graph computes what training computes.
            undo.enter_context(replaced(torch.backends.mha, "get_fastpath_enabled", lambda: False))
            for device in filter(torch.is_autocast_enabled, ("cpu", "cuda", "mps", "xpu")):
                undo.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        for items, contents in (*saved, *((each, {}) for each in empty if each)):
            if [*items] != [*contents]:  # gives a dict its items in their order
                items.clear()
            items.update(contents)
        for weight, data in weights:
            if weight.device != data.device or (data.device.type == CPU and weight.data_ptr() != data.data_ptr()):
                weight.data = data


def _forget_long_texts(module: Any) -> None:
    """Gives a rotary embedding its frequencies of before it read a long text: a graph has no state to keep them."""
    original = vars(module).get("original_max_seq_len")
    lengths = [name for name in vars(module) if name.endswith("max_seq_len_cached")]
    for name in lengths:
        if original is not None and int(vars(module)[name]) != original:
            prefix = name.removesuffix("max_seq_len_cached")
            vars(module)[name] = original
            module._buffers[f"{prefix}inv_freq"] = getattr(module, f"{prefix}original_inv_freq")


def _configs(modules: Iterable[Any]) -> list[Any]:
    return [module.config for module in modules if hasattr(module, "config")]


def model_copy(model: Any) -> Any:
    """A copy of a model on its own tensors; itself if it cannot be copied, as when a hook holds one of its modules."""
    for _ in range(3):  # a copy fails while another thread adds an attribute to the model
        try:
            duplicate = copied(model, lambda tensor: tensor)
            return duplicate if _is_separate(model, duplicate) else model
        except Exception as error:  # noqa: BLE001 - an attribute of any class may raise anything
            raise_no_memory(error)
    return model


def copied(model: Any, replacement: Callable[[Any], Any]) -> Any:
    """A deep copy of a model, or of its arguments, with each tensor replaced by a function, called once: ties stay."""
    import torch

    result = functools.cache(replacement)  # a tensor is equal to itself alone: its hash is its identity
    copies = (torch.Tensor.__deepcopy__, torch.Tensor.clone)  # what `copy.deepcopy` copies a tensor with

    def call(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return result(arguments[0]) if function in copies else function(*arguments, **named)

    known = {id(tensor): result(tensor) for tensor in (tensors_of(model) if isinstance(model, torch.nn.Module) else ())}
    with torch_functions(call):
        return copy.deepcopy(model, known)


def tensors_of(model: Any) -> Iterator[Any]:
    """The weights of a model: its parameters, then its buffers."""
    return chain(model.parameters(), model.buffers())


def _is_separate(model: Any, duplicate: Any) -> bool:
    """Whether a copy has the tensors of the model and none of its modules."""
    modules = {id(module) for module in model.modules()}
    attributes = [value for module in duplicate.modules() for value in vars(module).values()]
    same_tensors = all(tensor is other for tensor, other in zip_longest(tensors_of(model), tensors_of(duplicate)))
    return same_tensors and not any(id(value) in modules for value in _inner_values(attributes))


def _inner_values(value: Any) -> Iterator[Any]:
    """A value, the items of a container, and what functions hold: variables, defaults, the objects of methods."""
    holders = (Mapping, list, tuple, set, frozenset, functools.partial, MethodType, FunctionType, CellType)
    stack, seen = [value], set()
    while stack:
        value = stack.pop()
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            if isinstance(value, holders):
                of_file = [getattr(value, name, None) for name in ("__globals__", "__builtins__")]
                stack.extend(each for each in gc.get_referents(value) if not any(each is other for other in of_file))


CPU, META = "cpu", "meta"
"""Types of devices. Tensors of the second have no values to copy."""


def with_plain_tensors(model: Any) -> Any:
    """The model with plain tensors: on the CPU, not made under `torch.inference_mode`; torch.export traces no other."""
    import torch

    if all(map(_is_plain, tensors_of(model))):
        return model
    try:
        with torch.inference_mode(mode=False):
            return copied(model, plain_tensor)
    except Exception as error:
        raise_no_memory(error)
        name = type(model).__name__
        raise InvalidSpec(
            f"{name} is on another device than the CPU, or was made in inference mode, and cannot be copied "
            f"({type(error).__name__}: {first_line(error)}); pass a {name} that was loaded on the CPU"
        ) from error


def plain_tensor(tensor: Any) -> Any:
    """A tensor with the values of another one, on the CPU; itself if it is plain. A weight stays a weight."""
    import torch

    if _is_plain(tensor):
        return tensor
    values = tensor.detach().to(CPU, copy=tensor.is_inference())
    return torch.nn.Parameter(values, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else values


def _is_plain(tensor: Any) -> bool:
    return tensor.device.type in (CPU, META) and not tensor.is_inference()
