"""A model held still: in evaluation mode while it is looked at, and afterwards exactly as it was found."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DICTS = (dict, OrderedDict)
"""What holds the insides of a module: torch keeps hooks in ordered dicts."""


@contextmanager
def unchanged_eval(model: Any) -> Iterator[None]:
    """The model in evaluation mode; on leaving, every attribute of its modules and configurations is put back."""
    kept = [(vars(owner), _contents(owner)) for owner in _owners(model)]
    for module in model.modules():
        module.training = False
    try:
        yield
    finally:
        for attributes, contents in kept:
            _restore(attributes, contents)


@contextmanager
def with_attention(model: Any, implementation: str | None) -> Iterator[None]:
    """The model with an implementation of attention of transformers, `eager` or another; None leaves it its own.

    Inside `unchanged_eval`, which puts it back.
    """
    for config in _configs(model) if implementation is not None else ():
        config._attn_implementation_internal = implementation
    yield


def _owners(model: Any) -> list[Any]:
    owners = (*model.modules(), *_configs(model))
    return list({id(owner): owner for owner in owners if hasattr(owner, "__dict__")}.values())


def _configs(model: Any) -> list[Any]:
    return [module.config for module in model.modules() if hasattr(module, "config")]


def _contents(owner: Any) -> dict[str, Any]:
    """The attributes, with the dicts among them (parameters, buffers, modules, hooks) copied one level down.

    transformers hooks into modules what collects hidden states, and notes in an attribute that it did: one that is put
    back without the other makes each call collect once more.
    """
    return {name: (value, dict(value) if type(value) in DICTS else None) for name, value in vars(owner).items()}


def _restore(attributes: dict[str, Any], contents: dict[str, Any]) -> None:
    for name in [name for name in attributes if name not in contents]:
        del attributes[name]
    for name, (value, inside) in contents.items():
        if inside is not None and value != inside:
            value.clear()
            value.update(inside)
        attributes[name] = value
