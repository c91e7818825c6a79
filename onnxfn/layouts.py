"""What stands beside the ONNX files: configuration, tokenizer and processor files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

# What a checkpoint's folder holds beside its weights.
BESIDE = ("*.json", "*.txt", "*.model", "*.jinja", "*.py")
WEIGHT_INDEXES = ("*.index.json",)


def side_files(folder: Path) -> tuple[Path, ...]:
    """The files of a checkpoint's folder that a program needs beside the weights."""
    indexes = {file for kind in WEIGHT_INDEXES for file in folder.glob(kind)}
    return tuple(sorted({file for kind in BESIDE for file in folder.glob(kind)} - indexes))


def copied(folder: Path, to: Path) -> tuple[Path, ...]:
    """Copy the side files of a checkpoint's folder; the copies."""
    to.mkdir(parents=True, exist_ok=True)
    return tuple(Path(shutil.copy2(file, to / file.name)) for file in side_files(folder))


def configured(model: Any, to: Path) -> tuple[Path, ...]:
    """Write a model's configuration, and its defaults of generation, as transformers would; nothing for others."""
    written = []
    for name, file in (("config", "config.json"), ("generation_config", "generation_config.json")):
        config: Any = getattr(model, name, None)
        if hasattr(config, "to_json_string"):
            (to / file).write_text(config.to_json_string())
            written.append(to / file)
    return tuple(written)
