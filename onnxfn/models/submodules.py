"""Submodules: which callable inside a model a part of the plan runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.architectures.functions import function_named
from onnxfn.architectures.wrappers.modules import module, module_at


def token_embeddings(model: Any) -> Any:
    """A module that looks up token embeddings in the model's table: `input_ids` -> `inputs_embeds`."""
    return module(lambda input_ids: {"inputs_embeds": model.get_input_embeddings()(input_ids)})


SUBMODULES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"encoder": lambda model: model.get_encoder(), "token_embeddings": token_embeddings}
)
"""Name -> function from the model to the callable. Other names are those of functions in architectures/wrappers."""


def submodule_of(model: Any, name: str | None) -> Any:
    """The callable that `name` stands for: the model itself when it is None, and `self.encoder` is `model.encoder`.

    Raises:
        UnknownName: no function has this name.
        InvalidSpec: The model has no such attribute.
    """
    if name is None:
        return model
    if name.startswith("self."):
        return module_at(model, name.removeprefix("self."))
    of_model = SUBMODULES.get(name) or function_named(name, "wrappers", kind="submodule", known=tuple(SUBMODULES))
    return of_model(model)
