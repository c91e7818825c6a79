"""What stands beside the ONNX files: configuration, tokenizer and processor files."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

CONFIGURED = MappingProxyType({"config": "config.json", "generation_config": "generation_config.json"})
"""What a model says of itself -> the file that transformers keeps it in."""

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


def said(texts: Collection[tuple[str, str]], to: Path) -> tuple[Path, ...]:
    """Write files of these names and texts."""
    for file, text in texts:
        (to / file).write_text(text)
    return tuple(to / file for file, _ in texts)


def configured(model: Any, to: Path) -> tuple[Path, ...]:
    """Write a model's configuration, and its defaults of generation, as their library would; nothing for others."""
    told: list[tuple[str, Any]] = [(file, _telling(model, name)) for name, file in CONFIGURED.items()]
    return said([(file, one.to_json_string()) for file, one in told if hasattr(one, "to_json_string")], to)


def _telling(model: Any, name: str) -> Any:
    """What can tell a configuration as JSON: itself, or the model where it is a plain dict, as diffusers keeps it."""
    config = getattr(model, name, None)
    return model if isinstance(config, Mapping) else config
