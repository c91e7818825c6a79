"""Compares the weights in an ONNX file with the model's as bytes: outputs show only those that inputs reach."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import torch

from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.checkpoint_links import TensorEntry, numpy_dtype
from onnxfn.weights.chunks import first_difference
from onnxfn.weights.onnx_files import stored_tensors


def weight_findings(model: Any, part: Part, file: Path, tick: Tick = no_tick) -> tuple[str, ...]:
    """One line for each weight of a file that differs from the model's, or has NaN or infinite elements."""
    # Infinite elements of buffers mask scores.
    tensors = model.state_dict(keep_vars=True)
    named = [(stored, tensors[stored.name]) for stored in stored_tensors(file) if stored.name in tensors]
    read = cache(lambda path: np.asarray(np.memmap(path, np.uint8, "r")))
    parameters = {name for name, tensor in tensors.items() if isinstance(tensor, torch.nn.Parameter)}
    findings: list[str] = []
    for stored, tensor in named:
        tick()
        findings += [_not_finite(stored.name, tensor)] if stored.name in parameters else []
        findings.append(_difference(stored, tensor, read))
    return tuple(f"{part.name}: {finding}" for finding in findings if finding)


def _not_finite(name: str, tensor: Any) -> str:
    """The finding for a parameter with NaN or infinite elements; empty if all are finite."""
    tensor = tensor.detach()
    if not tensor.is_floating_point() or torch.isfinite(tensor.sum()):
        return ""
    count = int((~torch.isfinite(tensor)).sum())
    return f"{name} has {count} elements that are NaN or infinite, in the model itself" if count else ""


def _difference(stored: TensorEntry, tensor: Any, read: Callable[[Path], Array]) -> str:
    """The finding for a weight whose bytes in the file are not those of the tensor, as it is or transposed."""
    converted = _in_dtype(tensor, stored.dtype)
    forms = [] if converted is None else [converted, *([converted.mT] if tensor.dim() == 2 else [])]  # noqa: PLR2004
    rows = [_first_different_row(stored, form, read) for form in forms if tuple(form.shape) == stored.shape]
    different = [row for row in rows if row is not None]
    if not rows or len(different) < len(rows):
        return ""
    return f"{stored.name} in the file is not the model's, first in row {max(different)} of {(*stored.shape, 1)[0]}"


def _first_different_row(stored: TensorEntry, tensor: Any, read: Callable[[Path], Array]) -> int | None:
    """The first row, along the first axis, that differs between the file and a tensor; None if there is none."""
    if not stored.length:
        return None
    data = read(stored.file)[stored.offset : stored.offset + stored.length]
    byte = first_difference(onnx_ir.tensor_adapters.TorchTensor(tensor), data)
    return None if byte is None else byte // max(1, stored.length // (stored.shape or (1,))[0])


def _in_dtype(tensor: Any, dtype: str) -> Any:
    """The tensor in a dtype of ONNX; None if the tensor has numbers of another kind, as a quantized weight does."""
    wanted = getattr(torch, numpy_dtype(dtype).name, None)
    if wanted is None or wanted.is_floating_point != tensor.is_floating_point():
        return None
    return tensor.detach().to(wanted).cpu()
