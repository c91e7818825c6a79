"""The state of a model while it is run: evaluation mode, an attention implementation, and everything restored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DICTS = (dict, OrderedDict)
"""Types of the dicts that a module stores its parts in: torch keeps hooks in ordered dicts."""


@contextmanager
def unchanged_eval(model: Any) -> Iterator[None]:
    """Sets a model to evaluation mode; on leaving, restores every attribute of its modules and configurations.

    The modes of single modules are restored too, and what `forward` added is removed: attributes, buffers and hooks.
    A model that several parts and cases use is the same for each. While it lasts, no other thread may call the model:
    callers pass a `model_copy`.
    """
    saved = [(vars(owner), _contents(owner)) for owner in _owners(model)]
    for module in model.modules():
        module.training = False
    try:
        yield
    finally:
        for attributes, contents in saved:
            _restore(attributes, contents)


@contextmanager
def with_attention(model: Any, implementation: str | None) -> Iterator[None]:
    """Sets the attention implementation of transformers, such as `"eager"`; None leaves that of the model.

    To be entered inside `unchanged_eval`, which restores it.
    """
    for config in _configs(model) if implementation is not None else ():
        config._attn_implementation_internal = implementation
    yield


def _owners(model: Any) -> list[Any]:
    """The modules and configurations of a model, each once."""
    owners = (*model.modules(), *_configs(model))
    return list({id(owner): owner for owner in owners if hasattr(owner, "__dict__")}.values())


def _configs(model: Any) -> list[Any]:
    return [module.config for module in model.modules() if hasattr(module, "config")]


def _contents(owner: Any) -> dict[str, Any]:
    """The attributes of an object, each with a shallow copy if it is a dict (parameters, buffers, modules, hooks).

    transformers registers hooks that collect hidden states, and sets an attribute that says so. Restoring one without
    the other would register the hooks again at each call.
    """
    return {name: (value, dict(value) if type(value) in DICTS else None) for name, value in vars(owner).items()}


def _restore(attributes: dict[str, Any], contents: dict[str, Any]) -> None:
    """Restores the attributes of an object, and the items of its dicts."""
    for name in [name for name in attributes if name not in contents]:
        del attributes[name]
    for name, (value, items) in contents.items():
        if items is not None and value != items:
            value.clear()
            value.update(items)
        attributes[name] = value
