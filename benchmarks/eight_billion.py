"""A checkpoint of 8 billion bfloat16 parameters: the sizes of Llama 3 8B, written in shards with little memory.

The values are normal random numbers, of which one block is repeated. Where the disk is too small for them, the shards
are sparse files of zeros, which take no disk, and what is measured is an export of zeros.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from models import CHECKPOINTS, SMOLLM2_TOKENIZER, Checkpoint, checkpoint_folder

GB = 1e9
ITEM_BYTES, BLOCK_BYTES = 2, 1 << 26
RANDOM_NEEDS, ZEROS_NEED = 38 * GB, 20 * GB
"""Free bytes for the checkpoint and the largest export of it, and for the export alone."""

Shapes = Mapping[str, tuple[int, ...]]


def eight_billion(cache: Path) -> Checkpoint:
    """The checkpoint for the disk of a folder. SystemExit if the disk is too small even for the export."""
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if free < ZEROS_NEED:
        raise SystemExit(f"{cache} has {free / GB:.0f} GB free, and the export of 8 billion parameters needs 20 GB")
    name = "llama-8b" if free >= RANDOM_NEEDS else "llama-8b of zeros"
    make = partial(write_checkpoint, block=_random_block if free >= RANDOM_NEEDS else None)
    return Checkpoint(name, "text-generation-with-past", "decoder", make)


def write_checkpoint(folder: Path, cache: Path, *, block: Callable[[], bytes] | None) -> None:
    """Writes the checkpoint to a folder. `block` returns the bytes that are repeated; None: zeros that take no disk."""
    config = _config()
    config.save_pretrained(folder)
    parts = shards(config)
    repeated = block() if block else None
    weight_map = {}
    for number, shapes in enumerate(parts, start=1):
        file = folder / f"model-{number:05}-of-{len(parts):05}.safetensors"
        write_shard(file, shapes, repeated)
        weight_map |= dict.fromkeys(shapes, file.name)
    index: dict[str, Any] = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in SMOLLM2_TOKENIZER:
        shutil.copy(checkpoint_folder(CHECKPOINTS["smollm2"], cache) / name, folder / name)


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


def _config() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        dtype="bfloat16",
        architectures=["LlamaForCausalLM"],
    )


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
