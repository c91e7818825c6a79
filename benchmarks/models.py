"""The checkpoints that are exported: folders, made once and kept in a cache.

MiniLM and SmolLM2 are real, from the package index; the others have the sizes of ViT-base, T5-small, Whisper-tiny and
TinyLlama 1.1B, and random weights. `older` is the same checkpoint for transformers 4, which reads the configuration of
transformers 5 without a word and wrongly.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

CACHE = Path.home() / ".cache" / "onnxfn" / "benchmarks"
TINY = {"intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
SMOLLM2_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@frozen
class Checkpoint:
    """A model: what it is for, how one asks it, and how its folder is made."""

    name: str
    task: str
    kind: str
    make: Callable[[Path, Path], None]


def checkpoint_folder(one: Checkpoint, cache: Path = CACHE) -> Path:
    """The folder of a checkpoint, made when it is not there."""
    place = cache / "models" / one.name
    if not place.is_dir():
        begun = place.with_name(f"{place.name}.begun")
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        one.make(begun, cache)
        begun.rename(place)
    return place


def older(one: Checkpoint, cache: Path = CACHE) -> Path:
    """The same checkpoint for transformers 4: another `config.json`, links to all other files."""
    newer = checkpoint_folder(one, cache)
    place = newer.with_name(f"{newer.name}-for-transformers-4")
    if not place.is_dir():
        place.mkdir()
        told = json.loads((newer / "config.json").read_text())
        (place / "config.json").write_text(json.dumps(older_config(told), indent=1))
        for file in newer.iterdir():
            if file.name not in {"config.json", "tokenizer_config.json"}:
                (place / file.name).symlink_to(file)
    return place


def older_config(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of transformers 5 as transformers 4 writes it.

    >>> older_config({"dtype": "float32", "rope_parameters": {"rope_type": "default", "rope_theta": 1e5}})
    {'torch_dtype': 'float32', 'rope_theta': 100000.0}
    """
    kept = {name: value for name, value in config.items() if name not in {"dtype", "rope_parameters"}}
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        raise ValueError(f"transformers 4 says {rope} otherwise; write it down here")
    kept |= {"torch_dtype": config["dtype"]} if "dtype" in config else {}
    return kept | ({"rope_theta": rope["rope_theta"]} if "rope_theta" in rope else {})


def parameter_bytes(folder: Path) -> int:
    """Bytes of all different parameters in float32, as the checkpoint's own headers say."""
    from safetensors import safe_open

    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118, it is no dict
        total += sum(4 * _product(shape) for shape in shapes)
    return total


def _product(shape: list[int]) -> int:
    size = 1
    for one in shape:
        size *= one
    return size


def _minilm(folder: Path, _: Path) -> None:
    from onnxfn.export.demo import minilm

    shutil.copytree(minilm(), folder, dirs_exist_ok=True)


def _smollm2(folder: Path, _: Path) -> None:
    from onnxfn.export.demo import smollm2
    from onnxfn.export.lookup.loading import load_gguf_model

    model, tokenizer = load_gguf_model(smollm2())
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _llama(folder: Path, cache: Path) -> None:
    """The sizes of TinyLlama 1.1B; with SmolLM2's tokenizer, for a peer that wants one."""
    sizes = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32}
    _random("LlamaForCausalLM", "LlamaConfig", vocab_size=32000, num_key_value_heads=4, **sizes)(folder, cache)
    for name in SMOLLM2_TOKENIZER:
        shutil.copy(checkpoint_folder(CHECKPOINTS["smollm2"], cache) / name, folder / name)


def _random(model: str, config: str, **sizes: int) -> Callable[[Path, Path], None]:
    """How a model of random weights is written."""

    def make(folder: Path, _: Path) -> None:
        import torch
        import transformers

        torch.manual_seed(0)
        getattr(transformers, model)(getattr(transformers, config)(**sizes)).save_pretrained(folder)

    return make


CHECKPOINTS = {
    one.name: one
    for one in (
        Checkpoint("minilm", "feature-extraction", "encoder", _minilm),
        Checkpoint("smollm2", "text-generation-with-past", "decoder", _smollm2),
        Checkpoint("vit-base", "image-classification", "image", _random("ViTForImageClassification", "ViTConfig")),
        Checkpoint(
            "t5-small",
            "text2text-generation-with-past",
            "text to text",
            _random("T5ForConditionalGeneration", "T5Config", decoder_start_token_id=0),
        ),
        Checkpoint(
            "whisper-tiny",
            "automatic-speech-recognition-with-past",
            "speech to text",
            _random("WhisperForConditionalGeneration", "WhisperConfig", decoder_start_token_id=50257),
        ),
        Checkpoint(
            "llama-tiny",
            "text-generation-with-past",
            "decoder",
            _random("LlamaForCausalLM", "LlamaConfig", num_hidden_layers=2, hidden_size=64, vocab_size=99, **TINY),
        ),
        Checkpoint("llama-1b", "text-generation-with-past", "decoder", _llama),
    )
}
