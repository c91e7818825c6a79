"""What programs expect of a folder: where ONNX files and their weights lie, and what stands beside them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.specs.errors import unknown
from onnxfn.weights.placement import EXTERNAL_DATA_SUFFIX


@frozen
class Layout:
    """What a program expects of a folder.

    `onnx` is the folder in it that holds the ONNX files, `sidecar` how the files of their weights end, and `weights`
    where these are unless something else is asked for. A program that must be told which files have a sidecar reads it
    in `config.json`, under `declares`.
    """

    name: str
    subfolder: str = ""
    external_data_suffix: str = EXTERNAL_DATA_SUFFIX
    weight_storage: str = "share"
    external_data_key: str = ""


OPTIMUM, TRANSFORMERS_JS = "optimum", "transformers.js"

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        one.name: one
        for one in (
            Layout(OPTIMUM),
            # A browser has no folder: it fetches each file by its name, and with it what is named after it alone.
            Layout(
                TRANSFORMERS_JS, subfolder="onnx", weight_storage="copy", external_data_key="transformers.js_config"
            ),
        )
    }
)
"""The programs that folders are written for; what Optimum loads, so does ONNX Runtime wherever there are files."""


def layout_of(name: str) -> Layout:
    """The layout of this name; UnknownName when there is none."""
    if name not in LAYOUTS:
        raise unknown("layout", name, LAYOUTS)
    return LAYOUTS[name]


CONFIG_FILES = MappingProxyType({"config": "config.json", "generation_config": "generation_config.json"})
"""What a model says of itself -> the file that transformers keeps it in."""

# What a checkpoint's folder holds beside its weights.
SIDE_FILES = ("*.json", "*.txt", "*.model", "*.jinja", "*.py")
WEIGHT_INDEXES = ("*.index.json",)


def onnx_folder(folder: Path) -> Path:
    """Where in the folder of an export its ONNX files are, whatever its layout; itself when there are none."""
    places = [folder / one.subfolder for one in LAYOUTS.values()]
    return next((one for one in places if any(one.glob("*.onnx"))), folder)


def side_files(folder: Path) -> tuple[Path, ...]:
    """The files of a checkpoint's folder that a program needs beside the weights."""
    indexes = {file for kind in WEIGHT_INDEXES for file in folder.glob(kind)}
    return tuple(sorted({file for kind in SIDE_FILES for file in folder.glob(kind)} - indexes))


def copy_side_files(folder: Path, to: Path) -> tuple[Path, ...]:
    """Copy the side files of a checkpoint's folder; the copies."""
    to.mkdir(parents=True, exist_ok=True)
    return tuple(Path(shutil.copy2(file, to / file.name)) for file in side_files(folder))


def write_texts(texts: Collection[tuple[str, str]], to: Path) -> tuple[Path, ...]:
    """Write files of these names and texts."""
    for file, text in texts:
        (to / file).write_text(text)
    return tuple(to / file for file, _ in texts)


def write_configs(model: Any, to: Path) -> tuple[Path, ...]:
    """Write a model's configuration, and its defaults of generation, as their library would; nothing for others."""
    told: list[tuple[str, Any]] = [(file, _json_config(model, name)) for name, file in CONFIG_FILES.items()]
    return write_texts([(file, one.to_json_string()) for file, one in told if hasattr(one, "to_json_string")], to)


def _json_config(model: Any, name: str) -> Any:
    """What can tell a configuration as JSON: itself, or the model where it is a plain dict, as diffusers keeps it."""
    config = getattr(model, name, None)
    return model if isinstance(config, Mapping) else config


def declare_external_data(folder: Path, layout: Layout, sidecars: Iterable[Path]) -> None:
    """Let the `config.json` of a folder tell of sidecars, if there are any and the program would not know."""
    file, graphs = folder / CONFIG_FILES["config"], {f"{one.stem}.onnx": 1 for one in sidecars}
    if layout.external_data_key and graphs and file.is_file():
        told = json.loads(file.read_text())
        own = {**told.get(layout.external_data_key, {}), "use_external_data_format": graphs}
        file.write_text(json.dumps({**told, layout.external_data_key: own}, indent=2) + "\n")
