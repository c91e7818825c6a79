"""Quantized checkpoints and GGUF files: refused in one sentence, or loaded as a model with float weights."""

from collections import Counter
from collections.abc import Callable, Collection
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from onnxfn.export.load.load_errors import load_errors, weights_ticked
from onnxfn.models.pretrained import pretrained
from onnxfn.specs.algebra.config_values import config_of
from onnxfn.specs.errors import LoadFailed, OnnxfnError, write_errors
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.checkpoint_links import names_match
from onnxfn.weights.packed.quantized_checkpoint import (
    CONFIG_KEY,
    MIN_ROWS,
    QuantizedCheckpoint,
    QuantizedWeight,
    quantized_checkpoint,
    write_float_checkpoint,
)
from onnxfn.weights.packed.stored_blocks import ATTRIBUTE, no_blocks_reason, stored_weight

WEIGHTS_FROM = "onnxfn_weights_from"
"""The attribute of a model that describes the origin of its dequantized weights."""

FLOAT32_BYTES = 4
"""Bytes of a weight in float32, the largest dtype that exports usually have."""


def checked_quantization(name: str, config: Any = None, *, dequantize: bool) -> QuantizedCheckpoint | None:
    """The quantized checkpoint in a folder; None if it is not quantized. LoadFailed if its weights cannot be held."""
    if not Path(name).is_dir():
        if getattr(config_of(config) or config, CONFIG_KEY, None):
            raise LoadFailed(f"{name} is quantized; download it and pass its folder: hf download {name} --local-dir X")
        return None
    with load_errors(name, f"{name} could not be read"):
        checkpoint = quantized_checkpoint(Path(name))
    if checkpoint is None or dequantize:
        return checkpoint
    reasons = (f"{weight.name}: {reason}" for weight in checkpoint.weights if (reason := no_blocks_reason(weight)))
    first = next(reasons, None)
    if first is not None:
        raise not_kept(name, described(checkpoint), first, checkpoint.parameters)
    return checkpoint


def not_kept(name: str, described: str, part: str, parameters: int) -> LoadFailed:
    """The error for a quantized checkpoint with a part that no graph can keep."""
    return LoadFailed(
        f"{name} is quantized: {described}; a graph cannot keep {part}; dequantize it (--dequantize, dequantize=True) "
        f"to export a float model of {gigabytes(parameters * FLOAT32_BYTES)} in float32, half of that in float16, or "
        "export the checkpoint that it was made from"
    )


def load_dequantized(checkpoint: QuantizedCheckpoint, load: Callable[[Path], Any], *, dequantize: bool) -> Any:
    """The model of a quantized checkpoint with float weights, mapped from a deleted file, and its quantized weights."""
    with TemporaryDirectory(prefix="onnxfn-", ignore_cleanup_errors=True) as name:
        with write_errors(Path(name), lambda: checkpoint.parameters * FLOAT32_BYTES):
            write_float_checkpoint(checkpoint, Path(name))
        try:
            model = load(Path(name))
        except OnnxfnError as error:
            error.args = (str(error).replace(name, str(checkpoint.folder)),)
            raise
    model.name_or_path = model.config.name_or_path = str(checkpoint.folder)
    if not dequantize:
        _add_stored_weights(model, checkpoint)
    setattr(model, WEIGHTS_FROM, f"{'dequantized' if dequantize else 'kept'} from {described(checkpoint)}")
    return model


def _add_stored_weights(model: Any, checkpoint: QuantizedCheckpoint) -> None:
    """Adds the quantized weights of a checkpoint to the parameters of a model. LoadFailed if one is not a parameter."""
    state = model.state_dict(keep_vars=True)
    for weight in checkpoint.weights:
        names = [name for name in state if names_match(weight.name, name)]
        if len(names) != 1 or not _has_rows(state[names[0]], weight):
            raise LoadFailed(
                f"{weight.name} of {checkpoint.folder} is not a parameter of {type(model).__name__} as it is stored; "
                "dequantize the checkpoint: --dequantize, dequantize=True"
            )
        setattr(state[names[0]], ATTRIBUTE, weight)


def _has_rows(parameter: Any, weight: QuantizedWeight) -> bool:
    """Whether a parameter has the first, some middle, and the last rows of a quantized weight."""
    if tuple(parameter.shape) != weight.shape:
        return False
    rows = weight.shape[0]
    middle, last = (start // MIN_ROWS * MIN_ROWS for start in (rows // 2, max(0, rows - MIN_ROWS)))
    return all(
        np.array_equal(
            parameter[start : start + MIN_ROWS].detach().numpy(), weight.rows(start, min(start + MIN_ROWS, rows))
        )
        for start in (0, middle, last)
    )


def weights_from(model: Any) -> str:
    """From what the weights of a model were dequantized, and its size; an empty text if they were not."""
    return str(getattr(model, WEIGHTS_FROM, ""))


def weights_text(model: Any, stored: Collection[str]) -> str:
    """From what quantized checkpoint the weights of graphs come, `stored` as it has them; empty for float weights."""
    may_keep = any(stored_weight(parameter) is not None for parameter in model.parameters())
    return f"{weights_from(model)}; {len(stored)} matrices as they are stored" if may_keep else weights_from(model)


def described(checkpoint: QuantizedCheckpoint) -> str:
    """The formats and the size of a quantized checkpoint."""
    settings = checkpoint.weights[0].settings
    bits = f" with {settings['bits']} bits" if "bits" in settings else ""
    names = dict.fromkeys(f"{weight.format.name}{bits}" for weight in checkpoint.weights)
    return f"{' and '.join(names)}, {gigabytes(checkpoint.stored_bytes)}"


def gigabytes(count: int) -> str:
    """A number of bytes as text."""
    return f"{count / 10**9:.3g} GB"


def is_gguf(name: str) -> bool:
    """Whether a name is the name of a GGUF file."""
    return Path(name).suffix == ".gguf" and Path(name).is_file()


def checked_gguf(file: Path, *, dequantize: bool) -> str:
    """The types of weights and the size of a GGUF file. LoadFailed if it is quantized without `dequantize`."""
    tensors = gguf_tensors(file)
    types = Counter(tensor.tensor_type.name for tensor in tensors)
    quantized = [name for name, _ in types.most_common() if name not in ("F32", "F16", "BF16", "F64")]
    described = f"GGUF with {', '.join(quantized) or 'floats'}, {gigabytes(file.stat().st_size)}"
    if quantized and not dequantize:
        raise not_kept(str(file), described, "its blocks", sum(int(tensor.n_elements) for tensor in tensors))
    return described


def gguf_tensors(file: Path) -> list[Any]:
    """What a GGUF file says of its tensors. LoadFailed if it cannot be read, or if a package is missing."""
    missing = [package for package in ("gguf", "accelerate") if find_spec(package) is None]
    if missing:
        raise LoadFailed(f"{file} needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    from gguf import GGUFReader

    with load_errors(str(file), f"{file} could not be read"):
        return list(GGUFReader(file).tensors)


def load_gguf(file: Path, loader: str = "AutoModelForCausalLM", *, dequantize: bool, tick: Tick = no_tick) -> Any:
    """The model of a GGUF file, with its weights in float32, in memory. LoadFailed as `checked_gguf` raises it."""
    import torch
    import transformers

    described = checked_gguf(file, dequantize=dequantize)
    settings = transformers.GgufConfig(dequantize=True)
    with load_errors(str(file), f"{file} could not be read"), weights_ticked(tick):
        options = {"gguf_file": file.name, "dtype": torch.float32, "quantization_config": settings}
        load = getattr(transformers, loader).from_pretrained
        model = pretrained(load, file.parent, trust_remote_code=False, **options)
    if hasattr(model.config, CONFIG_KEY):
        del model.config.quantization_config  # the weights are floats
    setattr(model, WEIGHTS_FROM, f"dequantized from {described}")
    return model.eval()


def load_gguf_tokenizer(file: Path) -> Any:
    """The tokenizer of a GGUF file. LoadFailed if it cannot be read."""
    from transformers import AutoTokenizer

    with load_errors(str(file), f"{file} could not be read"):
        return pretrained(AutoTokenizer.from_pretrained, file.parent, gguf_file=file.name, trust_remote_code=False)
