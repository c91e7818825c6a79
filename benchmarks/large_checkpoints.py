"""Checkpoints of the sizes of Llama 3, written in shards with little memory.

The values of `eight_billion` are normal random numbers, of which one block is repeated. Where the disk is too small
for them, the shards are sparse files of zeros, which take no disk. Those of `LINKED` are sparse, too: each weight has
random numbers at its start and in its middle.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from models import CHECKPOINTS, SMOLLM2_TOKENIZER, Checkpoint, checkpoint_folder

from onnxfn.weights.checkpoint_links import TensorEntry, entries

GB = 1e9
ITEM_BYTES, BLOCK_BYTES, MARK_BYTES = 2, 1 << 26, 4096
RANDOM_NEEDS, ZEROS_NEED = 38 * GB, 20 * GB
"""Free bytes for the checkpoint and the largest export of it, and for the export alone."""

NARROW: Mapping[str, int] = MappingProxyType(
    {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32}
)
WIDE: Mapping[str, int] = MappingProxyType(
    {"hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80}
)
"""The sizes of Llama 3 8B and 70B."""

LINKED: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"llama-21b-bf16": ("bfloat16", 22), "llama-21b-f16": ("float16", 22), "llama-70b-bf16": ("bfloat16", 80)}
)
"""From the name of a checkpoint to its dtype and the number of its layers, which are those of the 70B."""

CODES: Mapping[str, str] = MappingProxyType({"bfloat16": "BF16", "float16": "F16"})
"""From a dtype of torch to that of safetensors."""

Shapes = Mapping[str, tuple[int, ...]]


def eight_billion(cache: Path) -> Checkpoint:
    """The checkpoint for the disk of a folder. SystemExit if the disk is too small even for the export."""
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if free < ZEROS_NEED:
        raise SystemExit(f"{cache} has {free / GB:.0f} GB free, and the export of 8 billion parameters needs 20 GB")
    is_random = free >= RANDOM_NEEDS

    def make(folder: Path, cache: Path) -> None:
        write_checkpoint(folder, llama_config(NARROW), _random_block() if is_random else None)
        for name in SMOLLM2_TOKENIZER:
            shutil.copy(checkpoint_folder(CHECKPOINTS["smollm2"], cache) / name, folder / name)

    name = "llama-8b" if is_random else "llama-8b of zeros"
    return Checkpoint(name, "text-generation-with-past", "decoder", make)


def write_linked(name: str, folder: Path, **sizes: int) -> None:
    """Writes a sparse checkpoint of `LINKED` to a folder, with other sizes if they are given."""
    dtype, layers = LINKED[name]
    write_checkpoint(folder, llama_config({**WIDE, "num_hidden_layers": layers, **sizes}, dtype), None)
    random = np.random.default_rng(0)
    for entry in entries(folder):
        with entry.file.open("r+b") as stream:
            for place in mark_places(entry):
                stream.seek(place)
                stream.write(random.integers(0, 2**14, min(MARK_BYTES, entry.length // 2) // 2, np.uint16).tobytes())


def mark_places(entry: TensorEntry) -> tuple[int, int]:
    """The offsets at which a weight has random numbers: its start and its middle, at even offsets."""
    return entry.offset, entry.offset + entry.length // 4 * 2


def llama_config(sizes: Mapping[str, int], dtype: str = "bfloat16") -> Any:
    """The configuration of a Llama 3 of these sizes."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=128256,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        dtype=dtype,
        architectures=["LlamaForCausalLM"],
        **sizes,
    )


def write_checkpoint(folder: Path, config: Any, block: bytes | None) -> None:
    """Writes a checkpoint to a folder. `block` are the bytes that are repeated; None: zeros that take no disk."""
    config.save_pretrained(folder)
    parts, weight_map = shards(config), {}
    for number, shapes in enumerate(parts, start=1):
        file = folder / f"model-{number:05}-of-{len(parts):05}.safetensors"
        write_shard(file, shapes, block, CODES[str(config.dtype).removeprefix("torch.")])
        weight_map |= dict.fromkeys(shapes, file.name)
    index: dict[str, Any] = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_shard(file: Path, shapes: Shapes, block: bytes | None, dtype: str = "BF16") -> None:
    """Writes a safetensors file of tensors of 16 bits of these shapes, with the repeated bytes or with zeros."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = ITEM_BYTES * prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        if block is None:
            stream.truncate(8 + len(text) + end)
            return
        for start in range(0, end, len(block)):
            stream.write(block[: end - start])


def shards(config: Any) -> list[Shapes]:
    """The shapes of the tensors: a shard for each layer, and one for the rest."""
    import torch
    from transformers import LlamaForCausalLM

    with torch.device("meta"):
        shapes = {name: tuple(weight.shape) for name, weight in LlamaForCausalLM(config).named_parameters()}
    prefixes = [f"model.layers.{layer}." for layer in range(config.num_hidden_layers)]
    layers = [{name: shape for name, shape in shapes.items() if name.startswith(prefix)} for prefix in prefixes]
    rest = {name: shape for name, shape in shapes.items() if not name.startswith("model.layers.")}
    return [*layers, rest]


def _random_block() -> bytes:
    import torch

    torch.manual_seed(0)
    numbers = 0.02 * torch.randn(BLOCK_BYTES // ITEM_BYTES - 1)  # an odd number: no two rows are equal
    return numbers.bfloat16().view(torch.uint8).numpy().tobytes()
