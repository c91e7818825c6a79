"""A small Qwen2 with weights in float32 that are trained here: on docstrings of NumPy and of Python's library.

Neither the text that onnxfn calibrates with nor the one that a benchmark measures is among these docstrings. The seeds
are fixed, but the weights depend on the versions of the packages and on the kernels of the machine.
"""

from __future__ import annotations

import ast
import math
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024}
TOKENS, END = 2048, "<|endoftext|>"
STEPS, ROWS, LENGTH, RATE = 800, 8, 128, 3e-3
HELD_OUT = 20
"""One of so many files is held out."""

MOST = 0.75
"""The most loss on files that are held out, relative to that of the frequencies of tokens."""


def docstrings(file: Path) -> Iterator[str]:
    """The docstrings of a file, of 200 characters or more; none if this Python cannot parse it."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    with suppress(SyntaxError, ValueError):
        every = [ast.get_docstring(each) for each in ast.walk(ast.parse(file.read_bytes())) if isinstance(each, kinds)]
        yield from (text for text in every if text is not None and len(text) >= 200)


def texts() -> tuple[list[str], list[str]]:
    """Docstrings to train with, and those of files that are held out."""
    library = Path(sysconfig.get_path("stdlib"))
    own = [file for folder in sorted(library.iterdir()) if folder.name != "test" for file in _sources(folder)]
    files = [*_sources(Path(np.__file__).parent), *own]
    by_file = [list(docstrings(file)) for file in files]
    held_out = [text for each in by_file[::HELD_OUT] for text in each]
    rest = {text: None for index, each in enumerate(by_file) if index % HELD_OUT for text in each}
    return list(dict.fromkeys(rest)), [text for text in held_out if text not in rest]


def _sources(path: Path) -> list[Path]:
    """The file, or the files in a folder; none of installed packages."""
    if path.name == "site-packages":
        return []
    return sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.suffix == ".py" else []


def trained_tokenizer(train: list[str]) -> Any:
    """A tokenizer of pairs of bytes."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(train, TOKENS, special_tokens=[END], show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, eos_token=END, bos_token=END, pad_token=END)


def write_trained_decoder(folder: Path, _: Path) -> None:
    """Trains the model and writes it with its tokenizer. AssertionError if it has learned too little."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    train, held_out = texts()
    tokenizer = trained_tokenizer(train)
    ids, others = (np.array(tokenizer(END.join(each), verbose=False)["input_ids"]) for each in (train, held_out))
    torch.manual_seed(0)
    special = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    config = Qwen2Config(vocab_size=len(tokenizer), tie_word_embeddings=True, **SIZES, **HEADS, **special)
    model = Qwen2ForCausalLM(config)
    _train(model, ids)
    loss, frequencies = held_out_loss(model, others), unigram_loss(ids, others)
    print(f"held-out loss {loss:.3f} nats a token, of the frequencies of tokens {frequencies:.3f}", file=sys.stderr)
    assert loss <= MOST * frequencies, f"a loss of {loss}, where the frequencies of tokens have {frequencies}"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _train(model: Any, ids: Any) -> None:
    """Trains a model on random rows of a text."""
    import torch

    decayed = {"params": [each for each in model.parameters() if each.ndim > 1], "weight_decay": 0.1}
    others = {"params": [each for each in model.parameters() if each.ndim == 1], "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([decayed, others], RATE, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, STEPS, pct_start=0.1, cycle_momentum=False)
    order = np.random.default_rng(0)
    model.train()
    for step in range(STEPS):
        starts = order.integers(len(ids) - LENGTH, size=ROWS)
        rows = torch.from_numpy(np.stack([ids[start : start + LENGTH] for start in starts]))
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step} of {STEPS}: {loss.item():.3f}", file=sys.stderr)
    model.eval()


def held_out_loss(model: Any, ids: Any) -> float:
    """The loss of a model on the first 64 rows of a text, in nats a token."""
    import torch

    rows = torch.from_numpy(ids[: 64 * LENGTH].reshape(64, LENGTH))
    with torch.no_grad():
        return float(model(input_ids=rows, labels=rows).loss)


def unigram_loss(ids: Any, others: Any) -> float:
    """The loss of the frequencies of tokens on another text, in nats a token."""
    counts = np.bincount(ids, minlength=TOKENS) + 1
    return math.log(counts.sum()) - float(np.log(counts[others]).mean())
