"""The files of sentence-transformers in words that its versions 5 and 6, and other programs, know."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.export.clients.folder import Folder, changed, json_object, json_text

MODULES = "modules.json"

NEW_MODULE = re.compile(r"sentence_transformers\.(?:base|sentence_transformer)\.(?:modules|models)\.\w+\.(\w+)")
"""The name of a module in version 6; version 5 has `sentence_transformers.models.<class>`, which 6 knows, too."""

POOLING_FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "cls": "pooling_mode_cls_token",
        "mean": "pooling_mode_mean_tokens",
        "max": "pooling_mode_max_tokens",
        "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
        "weightedmean": "pooling_mode_weightedmean_tokens",
        "lasttoken": "pooling_mode_lasttoken",
    }
)
"""A `pooling_mode` -> the flag for it that all versions and Text Embeddings Inference read."""


def modules(folder: Folder) -> dict[str, str]:
    """`modules.json` with names of modules that versions 5 and 6 know; nothing if it has no others."""
    try:
        entries = json.loads(folder.texts[MODULES])
        renamed = [
            {**entry, "type": NEW_MODULE.sub(r"sentence_transformers.models.\1", entry["type"])} for entry in entries
        ]
    except (KeyError, ValueError, TypeError):
        return {}
    return {} if renamed == entries else {MODULES: json_text(renamed)}


def pooling(folder: Folder) -> dict[str, str]:
    """The configuration of each pooling with a flag for each mode, as all versions read it."""
    files = {name: json_object(folder, name) for name in folder.texts if "/" in name}
    flat = {name: _flags(config) for name, config in files.items() if config and "pooling_mode" in config}
    return {path: text for name, config in flat.items() for path, text in changed(folder, name, config).items()}


def _flags(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration of version 6 in the older words; unchanged if it has a mode without a flag."""
    mode = config["pooling_mode"]
    chosen = {mode} if isinstance(mode, str) else {*mode}
    if not chosen <= {*POOLING_FLAGS} or "embedding_dimension" not in config:
        return config
    others = {key: value for key, value in config.items() if key not in ("embedding_dimension", "pooling_mode")}
    flags = {flag: name in chosen for name, flag in POOLING_FLAGS.items()}
    return {"word_embedding_dimension": config["embedding_dimension"], **flags, **others}
