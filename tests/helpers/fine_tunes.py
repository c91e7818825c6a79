"""Checkpoints that differ in the values of their weights alone; processes that are killed while these are exported."""

import json
import os
import signal
import threading
from math import prod
from pathlib import Path
from time import sleep

import numpy as np
import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 100,
    "initializer_range": 0.15,
}


def save_berts(folder, number):
    """Saves so many fine-tunes of one BERT; their folders."""
    return [_saved(BertModel(_seeded(BertConfig(**SIZES), seed)), folder / f"bert-{seed:03}") for seed in range(number)]


def save_llamas(folder, number):
    """Saves so many fine-tunes of one Llama; their folders."""
    config = LlamaConfig(**SIZES, num_key_value_heads=1)
    return [_saved(LlamaForCausalLM(_seeded(config, seed)), folder / f"llama-{seed:03}") for seed in range(number)]


def save_bert_of_a_gigabyte(folder):
    """Saves a BERT of zeros in a file that takes no disk; its weights, of 16 and of 32 bits, take 1.2 GB in float32."""
    config = BertConfig(**{**SIZES, "hidden_size": 768, "vocab_size": 400_000})
    config.architectures = ["BertModel"]
    config.save_pretrained(folder)
    with torch.device("meta"):
        shapes = {name: tuple(weight.shape) for name, weight in BertModel(config).named_parameters()}
    header, end = {}, 0
    for name, shape in shapes.items():
        dtype, size = ("BF16", 2) if "word_embeddings" in name else ("F32", 4)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size * prod(shape)]}
        end += size * prod(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + end)
    return folder


def _seeded(config, seed):
    torch.manual_seed(seed)
    return config


def _saved(model, folder):
    model.save_pretrained(folder)
    return folder


def difference_from_pytorch(checkpoint, out):
    """How far the graph of a BERT is from the model of a checkpoint, at sizes that were not traced."""
    import onnxruntime

    model = BertModel.from_pretrained(checkpoint).eval()
    ids = torch.randint(0, 100, (3, 7))
    feeds = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    with torch.no_grad():
        expected = model(**feeds).last_hidden_state
    session = onnxruntime.InferenceSession(str(out / "onnx" / "model.onnx"))
    [got, *_] = session.run(["last_hidden_state"], {name: value.numpy() for name, value in feeds.items()})
    return float(np.abs(got - expected.numpy()).max())


def job_processes(of_process=None):
    """The ids of the processes that run a job below a process: they are copies of a server."""
    servers = [child for child in _descendants(of_process or os.getpid()) if "batch.server" in _command(child)]
    return [process for process in servers if any(parent_of(process) == other for other in servers)]


def server_processes(of_process=None):
    """The ids of the servers below a process."""
    found = [child for child in _descendants(of_process or os.getpid()) if "batch.server" in _command(child)]
    return [process for process in found if parent_of(process) not in found]


def kill_first(find, seconds=60):
    """Starts a thread that kills the first process that `find` returns; the list of processes that were killed."""
    killed = []

    def watch():
        for _ in range(int(seconds / 0.02)):
            for process in find()[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(process)
                return
            sleep(0.02)

    threading.Thread(target=watch, daemon=True).start()
    return killed


def _descendants(process):
    parents = {int(entry.name): parent_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    found, level = [], [process]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        found += level
    return found


def parent_of(process):
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _command(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""
