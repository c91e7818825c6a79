"""Broken checkpoints: how each is broken, and a part of the message that says so."""

import json
import os
import pickle
import struct
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import frozen

CONFIG, WEIGHTS, BIN = "config.json", "model.safetensors", "pytorch_model.bin"
INDEX, SHARD = "model.safetensors.index.json", "model-00001-of-00002.safetensors"
LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 438007537\n"

WITHOUT_PEFT, WITH_PEFT = "which needs peft: pip install peft", "could not be loaded"
"""Parts of the error for an adapter that says nothing: peft itself reads it where it is installed."""

Break = Callable[[Path], Any]
"""Breaks a copy of a checkpoint in a folder."""


@frozen
class Broken:
    """How a copy of a base (`bert`, `llama`, `pickled`) is damaged, and a part of the error, "" if it is exported."""

    damage: Break
    message: str
    base: str = "bert"


# How to break a file


def text(name: str, content: str, encoding: str = "utf-8") -> Break:
    return lambda folder: (folder / name).write_bytes(content.encode(encoding))


def binary(name: str, content: bytes) -> Break:
    return lambda folder: (folder / name).write_bytes(content)


def cut(name: str, length: int) -> Break:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:length])


def gone(name: str) -> Break:
    return lambda folder: (folder / name).unlink()


def replaced(name: str, create: Callable[[Path], Any]) -> Break:
    """Puts something else in the place of a file."""

    def replace(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        create(folder / name)

    return replace


def link(name: str, target: str) -> Break:
    return replaced(name, lambda path: path.symlink_to(target))


def moved(name: str, target: str) -> Break:
    """Moves a file to a path that is relative to the folder, and leaves a link to it."""

    def move(folder: Path) -> None:
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).rename(folder / target)
        (folder / name).symlink_to(target)

    return move


def outside(name: str) -> Break:
    return moved(name, f"../private/{name}")


def weights_elsewhere(folder: Path) -> None:
    """Moves the weights to another folder, which the index names."""
    (folder.parent / "private").mkdir()
    for file in folder.glob("*.safetensors"):
        file.rename(folder.parent / "private" / file.name)
    shards(lambda names: {weight: f"../private/{file}" for weight, file in names.items()})(folder)


def behind_a_link(folder: Path) -> None:
    """Moves the weights to another folder, which has a link in the folder of the checkpoint."""
    weights_elsewhere(folder)
    (folder / "more").symlink_to("../private")
    shards(lambda names: {weight: f"more/{Path(file).name}" for weight, file in names.items()})(folder)


def config(**changes: Any) -> Break:
    """Changes values of the configuration; `...` deletes a key."""

    def change(folder: Path) -> None:
        values = json.loads((folder / CONFIG).read_text()) | changes
        (folder / CONFIG).write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))

    return change


def quantization(method: str, **values: Any) -> Break:
    return config(quantization_config={"quant_method": method, **values})


def index(edit: Callable[[dict[str, Any]], Any]) -> Break:
    """Replaces the index of weights by what `edit` returns for it."""
    return lambda folder: (folder / INDEX).write_text(json.dumps(edit(json.loads((folder / INDEX).read_text()))))


def shards(names: Callable[[dict[str, str]], Any]) -> Break:
    """Replaces the `weight_map` of the index by what `names` returns for it."""
    return index(lambda content: {**content, "weight_map": names(content["weight_map"])})


def header(edit: Callable[[dict[str, Any]], Any], name: str = WEIGHTS) -> Break:
    """Replaces the header of a safetensors file by what `edit` returns for it."""

    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        new = json.dumps(edit(json.loads(data[8 : 8 + length]))).encode()
        (folder / name).write_bytes(struct.pack("<Q", len(new)) + new + data[8 + length :])

    return change


def tensor(name: str, **changes: Any) -> Break:
    return header(lambda tensors: {**tensors, name: {**tensors[name], **changes}})


def without_tensor(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / WEIGHTS)
    save_file({name: value for name, value in tensors.items() if "layer.1" not in name}, folder / WEIGHTS)


def renamed_tensors(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_file({f"other.{name}": value for name, value in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)


@frozen
class Hostile:
    """An object whose pickle creates a file when it is loaded."""

    folder: Path

    def __reduce__(self) -> Any:
        return open, (str(self.folder / "executed"), "w")


def raw_pickle(folder: Path) -> None:
    (folder / BIN).write_bytes(pickle.dumps(Hostile(folder)))


def saved(content: Callable[[Path], Any]) -> Break:
    def save(folder: Path) -> None:
        import torch

        torch.save(content(folder), folder / BIN)

    return save


WORD_EMBEDDINGS = "bert.embeddings.word_embeddings.weight"

CONFIGS: Mapping[str, Broken] = {
    "config: empty": Broken(text(CONFIG, ""), "config.json is empty"),
    "config: cut": Broken(cut(CONFIG, 40), "config.json is not JSON"),
    "config: binary": Broken(binary(CONFIG, bytes(range(256))), "config.json is not JSON"),
    "config: utf-16": Broken(text(CONFIG, "{}", "utf-16"), "transformers cannot read a configuration"),
    "config: a list": Broken(text(CONFIG, "[1]"), "config.json holds a list, not an object"),
    "config: a text": Broken(text(CONFIG, '"bert"'), "config.json holds a str, not an object"),
    "config: a number": Broken(text(CONFIG, "7"), "config.json holds a int, not an object"),
    "config: null": Broken(text(CONFIG, "null"), "config.json holds a NoneType, not an object"),
    "config: nested": Broken(text(CONFIG, "[" * 100_000), "config.json is JSON that is nested too deeply"),
    "config: git-lfs": Broken(text(CONFIG, LFS), "config.json is a git-lfs pointer, "),
    "config: a folder": Broken(replaced(CONFIG, Path.mkdir), "config.json is not a file"),
    "config: a dangling link": Broken(link(CONFIG, "nowhere"), "config.json is a link to nowhere, which does not"),
    "config: a link to itself": Broken(link(CONFIG, CONFIG), "config.json is a link to config.json, which does"),
    "config: a named pipe": Broken(replaced(CONFIG, os.mkfifo), "'config.json' is not a regular file"),
    "config: a link out of the folder": Broken(outside(CONFIG), "'config.json' is a link out of its folder"),
    "config: missing": Broken(gone(CONFIG), "no config.json in "),
    "config: no values": Broken(text(CONFIG, "{}"), "transformers cannot read a configuration from "),
    "model_type: unknown": Broken(config(model_type="brt"), "transformers cannot read a configuration from "),
    "model_type: missing": Broken(config(model_type=...), "transformers cannot read a configuration from "),
    "model_type: a number": Broken(config(model_type=5), "transformers cannot read a configuration from "),
    "model_type: a list": Broken(config(model_type=["bert"]), "transformers cannot read a configuration from "),
    "model_type: another": Broken(config(model_type="vit"), "lacks weights that ViTModel needs"),
    "code of its own": Broken(
        config(model_type="evil", auto_map={"AutoConfig": "code.Evil"}), "its own code for the model type 'evil'"
    ),
    "architectures: unknown": Broken(config(architectures=["BertForNothing"]), ""),
    "architectures: a text": Broken(config(architectures="BertModel"), ""),
    "architectures: a number": Broken(config(architectures=[3]), ""),
    "architectures: no list": Broken(config(architectures=3), "has architectures of the type int, not a list"),
    "hidden_size: a text": Broken(config(hidden_size="32"), "Field 'hidden_size' expected int, got str"),
    "hidden_size: null": Broken(config(hidden_size=None), "Field 'hidden_size' expected int, got NoneType"),
    "hidden_size: a fraction": Broken(config(hidden_size=32.5), "Field 'hidden_size' expected int, got float"),
    "hidden_size: negative": Broken(config(hidden_size=-32), "negative dimension -32"),
    "hidden_size: 0": Broken(config(hidden_size=0), "could not be loaded with AutoModelForMaskedLM"),
    "hidden_size: another": Broken(config(hidden_size=64), "has the shape [32], and the configuration says [64]"),
    "vocab_size: another": Broken(config(vocab_size=64), f"{WORD_EMBEDDINGS} has the shape [128, 32], and the"),
    "vocab_size: a text": Broken(config(vocab_size="x"), "Field 'vocab_size' expected int, got str"),
    "num_hidden_layers: more": Broken(config(num_hidden_layers=3), "lacks weights that BertForMaskedLM needs: "),
    "num_hidden_layers: a text": Broken(config(num_hidden_layers="2"), "Field 'num_hidden_layers' expected int"),
    "num_attention_heads: 0": Broken(config(num_attention_heads=0), "could not be loaded with AutoModelForMaskedLM"),
    "num_attention_heads: 5": Broken(config(num_attention_heads=5), "is not a multiple of the number of attention"),
    "intermediate_size: another": Broken(config(intermediate_size=49), "the configuration says [49]"),
    "hidden_act: unknown": Broken(config(hidden_act="sigmoyd"), "sigmoyd"),
    "max_position_embeddings: another": Broken(config(max_position_embeddings=4), "has the shape [96, 32], and the"),
    "type_vocab_size: 0": Broken(config(type_vocab_size=0), "the weights of "),
    "initializer_range: a text": Broken(config(initializer_range="x"), "Field 'initializer_range' expected float"),
    "dtype: unknown": Broken(config(dtype="evil"), "has no attribute 'evil'"),
}

FILES: Mapping[str, Broken] = {
    "weights: missing": Broken(gone(WEIGHTS), "could not be loaded with AutoModelForMaskedLM"),
    "weights: empty": Broken(binary(WEIGHTS, b""), "model.safetensors is empty"),
    "weights: cut": Broken(cut(WEIGHTS, 20_000), "model.safetensors is truncated: it has 20,000 bytes, and its"),
    "weights: cut in the header": Broken(cut(WEIGHTS, 100), "model.safetensors is not a safetensors file"),
    "weights: cut in the length": Broken(cut(WEIGHTS, 4), "model.safetensors is not a safetensors file"),
    "weights: git-lfs": Broken(text(WEIGHTS, LFS), f"model.safetensors is a git-lfs pointer, {len(LFS)} bytes"),
    "weights: a text": Broken(text(WEIGHTS, "weights"), "model.safetensors is not a safetensors file"),
    "weights: a long header": Broken(
        binary(WEIGHTS, struct.pack("<Q", 2**60) + b"{}"), "its header needs 1,152,921,504,606,846,984"
    ),
    "weights: a folder": Broken(replaced(WEIGHTS, Path.mkdir), "model.safetensors is not a file"),
    "weights: a dangling link": Broken(link(WEIGHTS, "nowhere"), "model.safetensors is a link to nowhere, which"),
    "weights: a link to itself": Broken(link(WEIGHTS, WEIGHTS), "model.safetensors is a link to model.safetensors"),
    "weights: a named pipe": Broken(replaced(WEIGHTS, os.mkfifo), "'model.safetensors' is not a regular file"),
    "weights: a link out of the folder": Broken(outside(WEIGHTS), "'model.safetensors' is a link out of its folder"),
    "weights: a link to a blob of another model": Broken(
        moved(WEIGHTS, "../models--me--private/blobs/0123abcd"), "'model.safetensors' is a link out of its folder"
    ),
    "weights: bytes at the end": Broken(
        lambda folder: (folder / WEIGHTS).open("ab").write(b"more"), "has 4 bytes after its last tensor"
    ),
    "weights: a tensor is missing": Broken(without_tensor, "lacks weights that BertForMaskedLM needs: bert.encoder."),
    "weights: other names": Broken(renamed_tensors, "lacks weights that BertForMaskedLM needs: bert.embeddings."),
    "header: a list": Broken(header(lambda _: [1]), "model.safetensors is not a safetensors file"),
    "header: empty": Broken(header(lambda _: {}), "bytes after its last tensor"),
    "header: without offsets": Broken(
        header(lambda tensors: {name: {"dtype": "F32"} for name in tensors}), "does not say where its tensors are"
    ),
    "header: offsets beyond the end": Broken(
        tensor(WORD_EMBEDDINGS, data_offsets=[0, 10**12]), "its header needs 1,000,000,"
    ),
    "header: negative offsets": Broken(tensor(WORD_EMBEDDINGS, data_offsets=[-8, 4]), "could not be loaded with"),
    "header: offsets that overlap": Broken(tensor(WORD_EMBEDDINGS, data_offsets=[0, 16384]), "could not be loaded"),
    "header: another shape": Broken(
        tensor(WORD_EMBEDDINGS, shape=[32, 128]), f"{WORD_EMBEDDINGS} has the shape [32, 128], and the configuration"
    ),
    "header: a shape of other bytes": Broken(tensor(WORD_EMBEDDINGS, shape=[3, 5]), "could not be loaded with"),
    "header: an unknown type": Broken(tensor(WORD_EMBEDDINGS, dtype="Q4"), "could not be loaded with"),
    "header: a shape of texts": Broken(tensor(WORD_EMBEDDINGS, shape=["a", "b"]), "could not be loaded with"),
    "pickle: raw": Broken(raw_pickle, "convert them to safetensors", "pickled"),
    "pickle: in a zip": Broken(
        saved(lambda folder: {"weight": Hostile(folder)}), "convert them to safetensors", "pickled"
    ),
    "pickle: cut": Broken(cut(BIN, 3000), "could not be loaded with", "pickled"),
    "pickle: empty": Broken(binary(BIN, b""), "pytorch_model.bin is empty", "pickled"),
    "pickle: a text": Broken(text(BIN, "weights"), "convert them to safetensors", "pickled"),
    "pickle: git-lfs": Broken(text(BIN, LFS), "pytorch_model.bin is a git-lfs pointer", "pickled"),
    "pickle: a list": Broken(saved(lambda _: [1, 2]), "could not be loaded with", "pickled"),
    "pickle: of numbers": Broken(saved(lambda _: {"a": 1}), "lacks weights that BertForMaskedLM needs", "pickled"),
    "index: a file is missing": Broken(gone(SHARD), f"names files that do not exist: {SHARD}", "llama"),
    "index: a file is cut": Broken(cut(SHARD, 9000), f"{SHARD} is truncated: it has 9,000 bytes", "llama"),
    "index: a file is of git-lfs": Broken(text(SHARD, LFS), f"{SHARD} is a git-lfs pointer", "llama"),
    "index: empty": Broken(text(INDEX, ""), f"{INDEX} is empty", "llama"),
    "index: cut": Broken(cut(INDEX, 60), f"{INDEX} is not JSON", "llama"),
    "index: a list": Broken(text(INDEX, "[]"), f"{INDEX} holds a list, not an object", "llama"),
    "index: git-lfs": Broken(text(INDEX, LFS), f"{INDEX} is a git-lfs pointer", "llama"),
    "index: without a weight_map": Broken(index(lambda _: {"metadata": {}}), "has no weight_map from", "llama"),
    "index: a weight_map of a list": Broken(shards(list), "has no weight_map from", "llama"),
    "index: a weight_map of numbers": Broken(
        shards(lambda names: dict.fromkeys(names, 1)), "has no weight_map from", "llama"
    ),
    "index: a file outside": Broken(
        shards(lambda names: dict.fromkeys(names, "../../other.safetensors")),
        "names '../../other.safetensors', which is outside its folder",
        "llama",
    ),
    "index: a file in another folder": Broken(weights_elsewhere, ", which is outside its folder", "llama"),
    "index: a link out of the folder": Broken(
        outside(SHARD), f"'{SHARD}' is a link out of its folder; put the file itself there", "llama"
    ),
    "index: a file behind a link to a folder": Broken(behind_a_link, ", which is a link out of its folder", "llama"),
    "index: an empty weight_map": Broken(
        shards(lambda _: {}), "could not be loaded with AutoModelForCausalLM", "llama"
    ),
    "generation_config: cut": Broken(text("generation_config.json", "{"), "", "llama"),
}

LIBRARIES: Mapping[str, Broken] = {
    "quantization: bitsandbytes": Broken(quantization("bitsandbytes", load_in_4bit=True), "bitsandbytes"),
    "quantization: gptq": Broken(quantization("gptq", bits=4), "GPTQ"),
    "quantization: awq": Broken(quantization("awq", bits=4), "AWQ"),
    "quantization: hqq": Broken(quantization("hqq"), "hqq"),
    "quantization: compressed-tensors": Broken(quantization("compressed-tensors"), "compressed-tensors"),
    "quantization: unknown": Broken(quantization("evil"), "evil"),
    "quantization: a text": Broken(config(quantization_config="4 bits"), "transformers cannot read a configuration"),
    "flash attention": Broken(config(attn_implementation="flash_attention_2"), "FlashAttention2"),
    "attention: unknown": Broken(config(attn_implementation="fast"), "fast"),
    "adapter": Broken(text("adapter_config.json", "{}"), WITH_PEFT if find_spec("peft") else WITHOUT_PEFT),
}

ODD: Mapping[str, Broken] = {
    "num_hidden_layers: fewer": Broken(config(num_hidden_layers=1), ""),
    "tokenizer.json: cut": Broken(text("tokenizer.json", "{"), ""),
    "tokenizer_config.json: a folder": Broken(replaced("tokenizer_config.json", Path.mkdir), ""),
    "vocab.txt: a dangling link": Broken(link("vocab.txt", "nowhere"), ""),
    "tokenizer.json: a named pipe": Broken(
        replaced("tokenizer.json", os.mkfifo), "'tokenizer.json' is not a regular file"
    ),
    "tokenizer_config.json: a file outside": Broken(
        text("tokenizer_config.json", '{"fast_tokenizer_files": ["../tokenizer.4.0.0.json"]}'),
        "'tokenizer_config.json' names '../tokenizer.4.0.0.json', which is outside its folder",
    ),
    "x.json: a folder": Broken(replaced("x.json", Path.mkdir), ""),
    "x.json: a dangling link": Broken(link("x.json", "nowhere"), ""),
}

BROKEN: Mapping[str, Broken] = {**CONFIGS, **FILES, **LIBRARIES, **ODD}
