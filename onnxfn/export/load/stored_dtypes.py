"""Models whose weights stay in the dtype of the checkpoint: mapped from its files, not copied into memory.

An export converts such weights while it writes them. Tables that a model computes when it is loaded, such as of
positions, would be rounded to that dtype. So a model with such tables is loaded in float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.specs.algebra.config_values import config_of
from onnxfn.specs.errors import ModelNotFound
from onnxfn.weights.checkpoint_links import entries

HALF = MappingProxyType({"BFLOAT16": "bfloat16", "FLOAT16": "float16"})
"""Dtypes of ONNX with 16 bits -> their names in torch."""

FLOATS = frozenset((*HALF, "FLOAT", "DOUBLE", "FLOAT8E4M3FN", "FLOAT8E5M2"))

OTHER_WEIGHTS = ("adapter_config.json", "*.bin", "*.gguf")
"""Files in a folder whose weights are not those of its safetensors files alone."""


def stored_dtype(folder: Path, config: Any) -> str | None:
    """The torch dtype, of 16 bits, of all floating-point weights of a checkpoint; None if they have another or several.

    None also for a name on the hub, for quantized weights, and for weights in files that are not safetensors.
    """
    values = config_of(config) or config
    is_quantized = getattr(values, "quantization_config", None) is not None
    if is_quantized or not folder.is_dir() or any(any(folder.glob(pattern)) for pattern in OTHER_WEIGHTS):
        return None
    try:
        dtypes = {entry.dtype for entry in entries(folder)} & FLOATS
    except (ModelNotFound, OSError, KeyError):
        return None
    return HALF.get(dtypes.pop()) if len(dtypes) == 1 else None


def has_rounded_tables(model: Any, missing: Iterable[str]) -> bool:
    """Whether a model has 16-bit buffers that it computed itself: they are not in its checkpoint."""
    stored = model.state_dict(keep_vars=True).keys() - {*missing}
    return any(
        buffer.is_floating_point() and buffer.dtype.itemsize == 2 and name not in stored  # noqa: PLR2004 - bytes
        for name, buffer in model.named_buffers()
    )


def declare_float32(config: Any) -> None:
    """Sets the dtype of a configuration and its inner configurations to float32, in which the model computes."""
    import torch

    config.dtype = torch.float32
    for name in getattr(config, "sub_configs", ()):
        inner = getattr(config, name, None)
        if inner is not None:
            declare_float32(inner)
