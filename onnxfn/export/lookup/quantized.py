"""Quantized checkpoints: refused in one sentence, or loaded as a model with float weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from onnxfn.export.lookup.load_errors import load_errors
from onnxfn.specs.config_values import config_of
from onnxfn.specs.errors import LoadFailed, OnnxfnError
from onnxfn.specs.os_errors import write_errors
from onnxfn.weights.float_checkpoint import write_float_checkpoint
from onnxfn.weights.quantized_checkpoint import (
    CONFIG_KEY,
    QuantizedCheckpoint,
    format_names,
    quantized_checkpoint,
)

WEIGHTS_FROM = "onnxfn_weights_from"
"""The attribute of a model that says from what its weights were dequantized."""

FLOAT32_BYTES = 4


def checked_quantization(name: str, config: Any = None, *, dequantize: bool) -> QuantizedCheckpoint | None:
    """The quantized checkpoint in a folder; None if it is not quantized. No weight is read.

    LoadFailed if it is quantized and is not to be dequantized, if its format is not known, or if it is no folder.
    """
    if not Path(name).is_dir():
        if getattr(config_of(config) or config, CONFIG_KEY, None):
            raise LoadFailed(f"{name} is quantized; download it and pass its folder: hf download {name} --local-dir X")
        return None
    with load_errors(name, f"{name} could not be read"):
        checkpoint = quantized_checkpoint(Path(name))
    if checkpoint is not None and not dequantize:
        raise LoadFailed(
            f"{name} is quantized: {described(checkpoint)}; dequantize it (--dequantize, dequantize=True) to export a "
            f"float model of {gigabytes(float_bytes(checkpoint))} in float32, half of that in float16, or export the "
            "checkpoint that it was made from"
        )
    return checkpoint


def load_dequantized(checkpoint: QuantizedCheckpoint, load: Callable[[Path], Any]) -> Any:
    """The model of a quantized checkpoint with float weights, which `load` loads from a folder.

    The weights lie in a file for temporary files that the model maps; it has no name any more.
    """
    with TemporaryDirectory(prefix="onnxfn-", ignore_cleanup_errors=True) as name:
        with write_errors(Path(name), float_bytes(checkpoint)):
            write_float_checkpoint(checkpoint, Path(name))
        try:
            model = load(Path(name))
        except OnnxfnError as error:
            error.args = (str(error).replace(name, str(checkpoint.folder)),)
            raise
    model.name_or_path = model.config._name_or_path = str(checkpoint.folder)
    setattr(model, WEIGHTS_FROM, f"dequantized from {described(checkpoint)}")
    return model


def weights_from(model: Any) -> str:
    """From what the weights of a model were dequantized, and its size; an empty text if they were not."""
    return str(getattr(model, WEIGHTS_FROM, ""))


def described(checkpoint: QuantizedCheckpoint) -> str:
    """The formats and the size of a quantized checkpoint."""
    return f"{' and '.join(format_names(checkpoint))}, {gigabytes(checkpoint.stored_bytes)}"


def float_bytes(checkpoint: QuantizedCheckpoint) -> int:
    """The bytes of a checkpoint in float32."""
    return checkpoint.parameters * FLOAT32_BYTES


def gigabytes(count: int) -> str:
    """A number of bytes as text.

    >>> gigabytes(5_730_000_000), gigabytes(120_000)
    ('5.73 GB', '0.00012 GB')
    """
    return f"{count / 10**9:.3g} GB"
