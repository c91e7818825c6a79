"""The arguments of `export` and `validate`: what they must be, checked before anything runs."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from onnxfn.export.model_states import check_readable
from onnxfn.graphs.build import BuildOptions
from onnxfn.specs.errors import InvalidSpec, ModelNotFound
from onnxfn.specs.spec import ExportSpec
from onnxfn.weights.write import WriteOptions


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
