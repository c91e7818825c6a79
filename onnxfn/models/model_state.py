"""The state of a model while it is run: evaluation mode, an attention implementation, and everything restored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

NESTED = "use_nested_tensor"
"""Attribute of torch's TransformerEncoder: whether it drops padding, so that its output is 0 there and maybe shorter.

torch.export ignores it, and computes what the layers give for padding.
"""

AUTOCAST_DEVICES = ("cpu", "cuda", "mps", "xpu")
"""The types of devices that have autocast."""

DICTS = (dict, OrderedDict)
"""Types of the dicts that a module stores its parts in: torch keeps hooks in ordered dicts."""


@contextmanager
def unchanged_eval(model: Any) -> Iterator[None]:
    """Sets a model to evaluation mode; on leaving, restores every attribute of its modules and configurations.

    The modes of single modules are restored too, and what `forward` added is removed: attributes, buffers and hooks.
    A model that several parts and cases use is the same for each. While it lasts, no other thread may call the model:
    callers pass a `model_copy`. The caller's autocast is off meanwhile, so that the model computes in its own dtypes.
    """
    modules = list(model.modules())
    owners = {id(owner): owner for owner in (*modules, *_configs(modules)) if hasattr(owner, "__dict__")}
    saved = [(vars(owner), dict(vars(owner)), _dicts(owner)) for owner in owners.values()]
    for module in modules:
        module.training = False
        if NESTED in vars(module):
            vars(module)[NESTED] = False
    try:
        with _without_autocast():
            yield
    finally:
        for attributes, contents, dicts in saved:
            _restore(attributes, contents)
            for value, items in dicts:
                _restore(value, items)


@contextmanager
def _without_autocast() -> Iterator[None]:
    """Turns off autocast in this thread, for the types of devices for which it is on."""
    import torch

    with ExitStack() as undo:
        for device in AUTOCAST_DEVICES:
            if torch.is_autocast_enabled(device):
                undo.enter_context(torch.autocast(device, enabled=False))
        yield


@contextmanager
def with_attention(model: Any, implementation: str | None) -> Iterator[None]:
    """Sets the attention implementation of transformers, such as `"eager"`; None leaves that of the model.

    To be entered inside `unchanged_eval`, which restores it.
    """
    for config in _configs(model.modules()) if implementation is not None else ():
        config._attn_implementation_internal = implementation
    yield


def _configs(modules: Iterable[Any]) -> list[Any]:
    return [module.config for module in modules if hasattr(module, "config")]


def _dicts(owner: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The dicts of an object (parameters, buffers, modules, hooks), each with a shallow copy.

    transformers registers hooks that collect hidden states, and sets an attribute that says so. Restoring one without
    the other would register the hooks again at each call.
    """
    return [(value, dict(value)) for value in vars(owner).values() if type(value) in DICTS]


def _restore(items: dict[str, Any], saved: dict[str, Any]) -> None:
    """Gives a dict the items that it had, in their order."""
    if [*items] != [*saved]:
        items.clear()
    items.update(saved)
