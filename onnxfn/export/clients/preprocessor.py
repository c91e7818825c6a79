"""`preprocessor_config.json`, which transformers.js and transformers 4 read, from the file of transformers 5."""

from __future__ import annotations

from collections.abc import Mapping

from onnxfn.export.clients.folder import Folder, changed, json_object

PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"

INNER = ("feature_extractor", "image_processor")
"""What transformers 5 writes inside `processor_config.json`, and older versions in a file of its own, flat."""


def preprocessor_config(folder: Folder) -> dict[str, str]:
    """`preprocessor_config.json` for a folder that has `processor_config.json` alone; nothing for others."""
    processor = json_object(folder, PROCESSOR)
    if processor is None or PREPROCESSOR in folder.names:
        return {}
    flat = {
        key: value
        for name in INNER
        if isinstance(inner := processor.get(name), Mapping)
        for key, value in inner.items()
    }
    named = {"processor_class": processor["processor_class"]} if "processor_class" in processor else {}
    return changed(folder, PREPROCESSOR, {**flat, **named}) if flat else {}
