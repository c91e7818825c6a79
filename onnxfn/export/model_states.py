"""States of a model in which its weights cannot be read, and the weights of a checkpoint in their place."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.export.lookup.loading import load_weights
from onnxfn.specs.errors import InvalidSpec

SPLIT = "splits its weights over processes; export the model as it was before that, with the whole weights loaded"
"""What FSDP does, and what to do."""

UNREADABLE: Mapping[str, str] = MappingProxyType(
    {
        "torch.distributed.fsdp": SPLIT,
        "torch.distributed._composable": SPLIT,
        "torch.ao.nn.quantized": "has layers that torch.ao quantized: their weights are no tensors; export the model "
        "as it was before that",
    }
)
"""Where a class of a module is defined -> why the module's weights cannot be read, and what to do."""

OFFLOADED = "accelerate keeps them elsewhere: load the model without device_map, or pass checkpoint=, its folder"
"""What to do with a model whose weights accelerate loads when they are used."""

ON_META = "load its weights first, or pass checkpoint=, the folder of its checkpoint"
"""What to do with a model that has no weights yet."""


def check_readable(model: Any) -> None:
    """Raises InvalidSpec if the weights of a module of PyTorch cannot be read. Weights on the meta device can be."""
    classes = dict.fromkeys(kind for module in model.modules() for kind in type(module).__mro__)
    for kind in classes:
        reason = next((reason for prefix, reason in UNREADABLE.items() if kind.__module__.startswith(prefix)), None)
        if reason is not None:
            raise InvalidSpec(f"{type(model).__name__} {reason}")


def name_without_value(model: Any) -> str | None:
    """The name of the first weight on the meta device, which has a shape and no value; None if all have values."""
    tensors = chain(model.named_parameters(), model.named_buffers())
    return next((name for name, tensor in tensors if tensor.is_meta), None)


def check_values(model: Any) -> None:
    """Raises InvalidSpec if a weight of a module of PyTorch has no value."""
    name = name_without_value(model)
    if name is not None:
        advice = OFFLOADED if any(hasattr(module, "_hf_hook") for module in model.modules()) else ON_META
        raise InvalidSpec(f"{type(model).__name__} has weights without values, on the meta device: {name}; {advice}")


def with_checkpoint_weights(model: Any, checkpoint: str | Path | None) -> Any:
    """The model; if a weight has no value, a model of its class with the weights of a checkpoint in its dtype.

    A model that no class of transformers loads stays as it is.
    """
    is_loadable = hasattr(type(model), "from_pretrained") and hasattr(model, "config")
    if checkpoint is None or not is_loadable or name_without_value(model) is None:
        return model
    return load_weights(model, str(checkpoint))
