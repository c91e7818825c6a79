"""The files of a checkpoint that libraries read: those with known names, and those that they name."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.specs.errors import LoadFailed, os_error_text, shortened
from onnxfn.weights.names import file_fault, name_fault, read_regular
from onnxfn.weights.side_files import SIDE_FILES

KNOWN_FILES = ("*.json", "*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.py", *SIDE_FILES)
"""Patterns of the files that transformers reads."""

ALL_FILES = ("**/*",)
"""The pattern for libraries that read subfolders."""

NAMES: Mapping[str, Callable[[Any], Iterable[Any]]] = MappingProxyType(
    {
        "*.index.json": lambda content: content["weight_map"].values(),
        "tokenizer_config.json": lambda content: content["fast_tokenizer_files"],
        "modules.json": lambda content: [module["path"] for module in content],
        "model_index.json": lambda content: content,
    }
)
"""Pattern of the files that name other files or folders -> these names."""


def patterns_of(library: str) -> tuple[str, ...]:
    """The patterns of the files of a checkpoint that a library reads: transformers reads no subfolders."""
    return KNOWN_FILES if library == "transformers" else ALL_FILES


def checkpoint_files(folder: Path, patterns: Iterable[str] = KNOWN_FILES) -> tuple[Path, ...]:
    """The files of a checkpoint's folder that match, and those that they name. LoadFailed for an outer one or none."""
    try:
        return tuple(sorted({file for file in _entries(folder, patterns) if file.is_file()}))
    except OSError as error:
        raise LoadFailed(f"{folder} cannot be read: {os_error_text(error, folder)}") from error


def _entries(folder: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """The files and folders that match patterns, and those that they name, once all of them have been judged."""
    entries = sorted({entry for pattern in patterns for entry in folder.glob(pattern)})
    for entry in entries:
        if fault := file_fault(entry, folder):
            raise LoadFailed(f"{folder} cannot be loaded: {_shown(entry, folder)} {fault}; put the file itself there")
    named = [(entry, name) for entry in entries for name in names_in(entry)]
    for entry, name in named:
        if fault := name_fault(name, entry.parent):
            raise LoadFailed(
                f"{folder} cannot be loaded: {_shown(entry, folder)} names {shortened(name)}, which {fault}"
            )
    yield from (*entries, *(file.parent / name for file, name in named))


def _shown(file: Path, folder: Path) -> str:
    return shortened(file.relative_to(folder).as_posix())


def names_in(file: Path) -> Iterator[str]:
    """The names in a file of a checkpoint, as they are; none in a damaged file, of which its library says the fault."""
    for names in (names for pattern, names in NAMES.items() if file.match(pattern)):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            every = dict.fromkeys(names(json.loads(read_regular(file))))
            yield from (name for name in every if isinstance(name, str) and name)
