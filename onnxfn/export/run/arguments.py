"""The arguments of `export` and `validate`, and models whose weights cannot be read, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.export.load.loading import load_weights
from onnxfn.graphs.build import BuildOptions
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec, ModelNotFound
from onnxfn.weights.write import WriteOptions

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


def check_export_arguments(
    spec: Any, model: Any, path: Any, checkpoint: Any, build: Any, write: Any, on_event: Any, timeout: Any = None
) -> None:
    """Raises InvalidSpec if an argument of `export` is of another type than it must be, or a weight cannot be read.

    ModelNotFound if `checkpoint` is not a folder.
    """
    check_spec_and_model(spec, model)
    expectations = (
        ("path", path, isinstance(path, str | PathLike | None) or _is_writable(path), "a path, a file object, or None"),
        ("checkpoint", checkpoint, isinstance(checkpoint, str | PathLike | None), "the folder of a checkpoint"),
        ("build", build, isinstance(build, BuildOptions), "BuildOptions(...)"),
        ("write", write, isinstance(write, WriteOptions), "WriteOptions(...)"),
        ("on_event", on_event, callable(on_event), "a function of an Event, or leave it out"),
        ("timeout", timeout, isinstance(timeout, int | float | None), "seconds, or None for no limit"),
    )
    for name, argument, fits, expected in expectations:
        if not fits:
            raise _wrong_type(name, argument, expected)
    if checkpoint is not None and not Path(checkpoint).is_dir():
        raise ModelNotFound(
            f"no folder {str(checkpoint)!r}; pass the folder of the model's checkpoint, or leave checkpoint out"
        )


def check_spec_and_model(spec: Any, model: Any) -> None:
    """Raises InvalidSpec if `spec` is not a spec, or `model` is not a module of PyTorch whose weights can be read."""
    import torch

    if not isinstance(spec, ExportSpec):
        raise _wrong_type("spec", spec, "an ExportSpec, such as spec_for(model)")
    if not isinstance(model, torch.nn.Module):
        raise _wrong_type("model", model, "a torch.nn.Module, such as model_for(folder)")
    check_readable(model)


def _is_writable(path: Any) -> bool:
    """Whether a path is a file object for bytes: it can be written, and is no stream of text."""
    return callable(getattr(path, "write", None)) and not hasattr(path, "encoding")


def _wrong_type(name: str, argument: Any, expected: str) -> InvalidSpec:
    return InvalidSpec(f"{name} is of the type {type(argument).__name__}; pass {expected}")
