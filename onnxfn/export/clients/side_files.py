"""Files and remarks for the programs that load an export."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.export.clients.alias import alias, alias_of, alias_remarks
from onnxfn.export.clients.configuration import CONFIG_EDITS, edited_config
from onnxfn.export.clients.folder import CONFIG, Folder, SideFile, json_object
from onnxfn.export.clients.genai import GENAI_CONFIG, genai_config, genai_limits
from onnxfn.export.clients.genai_images import image_limits, vision_processor, write_embedding
from onnxfn.export.clients.ort_model import ort_model_limits
from onnxfn.export.clients.sentence_transformers import modules, pooling
from onnxfn.export.clients.tokenizer import chat_template, preprocessor_config, tokenizer_config
from onnxfn.export.clients.transformers_js import transformers_js_limits
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.planned import Plan
from onnxfn.weights.layouts import ALIAS_FILE, Layout

Limits = Callable[[Plan, Mapping[str, Any]], tuple[str, ...]]
"""From a plan and a configuration to why a client cannot load the plan."""

LIMITS: Mapping[str, Limits] = MappingProxyType(
    {
        "transformers.js": transformers_js_limits,
        "onnxruntime-genai": lambda plan, config: (*genai_limits(plan), *image_limits(plan, config)),
        "ORTModel": ort_model_limits,
    }
)
"""A client -> its limits for a plan. sentence-transformers has the limits of ORTModel."""


def with_remarks(plan: Plan, config: Any, layout: Layout) -> Plan:
    """The plan with what the clients of a layout cannot load of it; unchanged for a layout without any."""
    if not layout.clients and not layout.side_files:
        return plan
    values = snapshot(config)
    change = alias_of(plan, values) if ALIAS_FILE in layout.side_files else {}
    first, values = alias_remarks(change, values) if change else (), {**values, **change}
    limits = (limit for client in layout.clients if client in LIMITS for limit in LIMITS[client](plan, values))
    return evolve(plan, remarks=(*first, *limits))


FILES: tuple[SideFile, ...] = (
    *(tokenizer_config, chat_template, preprocessor_config, modules, pooling),
    *(vision_processor, genai_config, alias),
)
SIDE_FILES: Mapping[str, SideFile] = MappingProxyType(
    {
        **{edit.__name__: partial(edited_config, edit) for edit in CONFIG_EDITS},
        **{file.__name__: file for file in FILES},
    }
)
"""The functions that `Layout.side_files` names."""

TEXTS = ("*.json", "chat_template.jinja", "[0-9]_*/config.json")
"""Patterns of the files that side files are computed from."""

LARGEST_TEXT = 1 << 20
"""Bytes. A larger file is not a configuration; a `tokenizer.json` may have more than ten million."""


def with_side_files(folder: Folder, names: Iterable[str]) -> Folder:
    """The folder with the side files of these names, in this order; each is computed with those before it."""
    for name in names:
        new = SIDE_FILES[name](folder)
        folder = evolve(folder, texts={**folder.texts, **new}, names=folder.names | {*new})
    return folder


def write_side_files(
    staging: Path, plan: Plan, layout: Layout, sidecars: Iterable[str], fixed: Collection[str] = ()
) -> tuple[Path, ...]:
    """Writes the side files of a layout; returns their paths. The files whose paths are `fixed` are not changed."""
    if not layout.side_files:
        return ()
    files = {file.relative_to(staging).as_posix(): file for file in staging.rglob("*") if file.is_file()}
    folder = Folder(plan, _texts(staging), frozenset(files), layout.subfolder, tuple(sorted(sidecars)))
    after = with_side_files(folder, layout.side_files)
    new = {name: text for name, text in after.texts.items() if text != folder.texts.get(name) and name not in fixed}
    for name, text in new.items():
        (staging / name).write_text(text, encoding="utf-8")
    config = json_object(after, CONFIG) or {}
    graphs = write_embedding(staging / layout.subfolder, plan, config) if GENAI_CONFIG in after.names else ()
    return (*(staging / name for name in new), *graphs)


def _texts(staging: Path) -> dict[str, str]:
    """The texts of the configuration files in a folder, by their paths. Files above LARGEST_TEXT are skipped."""
    files = [file for pattern in TEXTS for file in staging.glob(pattern) if file.stat().st_size <= LARGEST_TEXT]
    texts = {file: file.read_bytes().decode("utf-8", errors="replace") for file in files}
    return {file.relative_to(staging).as_posix(): text for file, text in texts.items()}
