"""Whether what a module returns for a sample can be the outputs of a graph, and whether the module changes itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from onnxfn.export.lookup.probe import Run, onnx_name
from onnxfn.graphs.capture.as_module import SCRIPTED
from onnxfn.graphs.capture.trace_errors import changed_buffers
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.tensor_paths import Path

QUANTIZED = "torch.ao.nn.quantized"
"""The package of torch whose layers have quantized weights."""


def check_module(model: Any) -> None:
    """Raises InvalidSpec for what has no `forward`, for TorchScript, and for weights without a shape or quantized."""
    import torch
    from torch.nn.parameter import is_lazy

    name = type(model).__name__
    if not isinstance(model, torch.nn.Module) or getattr(model.forward, "__func__", None) is torch.nn.Module.forward:
        advice = "pass model.__call__" if callable(model) else "pass a module or a function"
        raise InvalidSpec(f"{name} is no function and has no forward; {advice}")
    scripted = [path for path, module in model.named_modules() if isinstance(module, torch.jit.ScriptModule)]
    if scripted:
        raise InvalidSpec(f"{name} holds TorchScript at {listed(scripted)}; put the {SCRIPTED} there")
    if any(is_lazy(weight) for weight in model.parameters()):
        raise InvalidSpec(f"{name} has weights without a shape; run it once on the sample first: model(...)")
    quantized = {type(module).__name__ for module in model.modules() if type(module).__module__.startswith(QUANTIZED)}
    if quantized:
        raise InvalidSpec(
            f"{name} has layers that torch quantized: {listed(sorted(quantized))}; export the model before it is "
            "quantized, and quantize the ONNX file with onnxruntime.quantization"
        )


def check_results(name: str, runs: Sequence[Run], complex_paths: Sequence[Path]) -> None:
    """Raises InvalidSpec for results of a module that no graph has.

    These are results without a tensor, with complex numbers, or with another number of tensors or axes in another run.
    """
    first = runs[0]
    if not first.shapes:
        raise InvalidSpec(
            f"{name} returns no tensor; return one or more, also in tuples, lists, dicts, named tuples or dataclasses"
        )
    names = [onnx_name(path) for path in first.shapes]
    if len({*names}) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise InvalidSpec(f"two outputs of {name} have the name {twice!r}; return them under other keys")
    if complex_paths:
        raise InvalidSpec(
            f"{onnx_name(complex_paths[0])!r} of {name} is complex, which outputs of ONNX are not; return "
            "torch.view_as_real(tensor)"
        )
    for other in runs:
        if other.shapes.keys() != first.shapes.keys():
            raise InvalidSpec(
                f"{name} returns {len(first.shapes)} tensors at {_sizes(first)} and {len(other.shapes)} at "
                f"{_sizes(other)}; a graph has a fixed number of outputs: return one stacked tensor, or leave the axis "
                "static in `axes`"
            )
        for path, shape in other.shapes.items():
            if len(shape) != len(first.shapes[path]):
                raise InvalidSpec(
                    f"{onnx_name(path)!r} of {name} has the shape {list(first.shapes[path])} at {_sizes(first)} and "
                    f"{list(shape)} at {_sizes(other)}; a graph has a fixed number of axes: do not squeeze this one"
                )


def _sizes(run: Run) -> str:
    return ", ".join(f"{name}={size}" for name, size in run.sizes.items()) or "other values"


def with_own_buffers(copied: Any) -> None:
    """Gives a copy of a model copies of its buffers, so that it changes none of the model's."""
    copies: dict[int, Any] = {}
    for module in copied.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = copies.setdefault(id(buffer), buffer.clone())


@contextmanager
def unchanged_buffers(model: Any) -> Iterator[None]:
    """Raises InvalidSpec on leaving if `forward` of a module has changed the values of its buffers."""
    first = {name: buffer.clone() for name, buffer in model.named_buffers()}
    changed: dict[str, None] = {}

    def note_changes(module: Any, _: Any, __: Any) -> None:
        buffers: Mapping[str, Any] = dict(module.named_buffers())
        changed.update(
            {name: None for name, old in first.items() if name in buffers and not _equal(buffers[name], old)}
        )

    hook = model.register_forward_hook(note_changes)
    try:
        yield
    finally:
        hook.remove()
    if changed:
        raise InvalidSpec(changed_buffers(type(model).__name__, [*changed]))


def _equal(tensor: Any, other: Any) -> bool:
    """Whether two tensors have the same shape, dtype and values; NaN equals itself."""
    if tensor.shape != other.shape or tensor.dtype != other.dtype:
        return False
    return bool(((tensor == other) | ((tensor != tensor) & (other != other))).all())  # noqa: PLR0124 - NaN
