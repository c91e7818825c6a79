"""Models in GGUF files: refused in one sentence if they are quantized, or loaded with float weights by transformers."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onnxfn.export.load.load_errors import load_errors
from onnxfn.export.load.loading_progress import weights_ticked
from onnxfn.export.load.quantized import FLOAT32_BYTES, WEIGHTS_FROM, gigabytes, not_kept
from onnxfn.models.pretrained import pretrained
from onnxfn.specs.errors import LoadFailed
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.packed.quantized_checkpoint import CONFIG_KEY

SUFFIX, FLOATS = ".gguf", frozenset(("F32", "F16", "BF16", "F64"))

NEEDED = ("gguf", "accelerate")
"""The packages without which transformers reads no GGUF file."""


def is_gguf(name: str) -> bool:
    """Whether a name is the name of a GGUF file."""
    return Path(name).suffix == SUFFIX and Path(name).is_file()


def checked_gguf(file: Path, *, dequantize: bool) -> str:
    """The description of a GGUF file: its types of weights and its size. No weight is read.

    LoadFailed if it is quantized without `dequantize`, if it cannot be read, or if a package is missing.
    """
    tensors = gguf_tensors(file)
    parameters = sum(int(tensor.n_elements) for tensor in tensors)
    types = Counter(tensor.tensor_type.name for tensor in tensors)
    quantized = [name for name, _ in types.most_common() if name not in FLOATS]
    described = f"GGUF with {', '.join(quantized) or 'floats'}, {gigabytes(file.stat().st_size)}"
    if quantized and not dequantize:
        raise not_kept(str(file), described, "its blocks", parameters * FLOAT32_BYTES)
    return described


def gguf_tensors(file: Path) -> list[Any]:
    """What a GGUF file says of its tensors. LoadFailed if it cannot be read, or if a package is missing."""
    missing = [package for package in NEEDED if find_spec(package) is None]
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
