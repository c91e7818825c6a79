"""Files of tokenizers, processors and sentence-transformers in words that several versions and programs know."""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.export.clients.folder import Folder, changed, json_object, json_text

PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"


def preprocessor_config(folder: Folder) -> dict[str, str]:
    """`preprocessor_config.json` for a folder that has `processor_config.json` alone; nothing for others."""
    processor = json_object(folder, PROCESSOR)
    if processor is None or PREPROCESSOR in folder.names:
        return {}
    # Sections of the file in transformers 5. Older versions have their keys in a separate, flat file.
    sections = ("feature_extractor", "image_processor")
    inner = [part for name in sections if isinstance(part := processor.get(name), Mapping)]
    flat = {key: value for part in inner for key, value in part.items()}
    named = {"processor_class": processor["processor_class"]} if "processor_class" in processor else {}
    return changed(folder, PREPROCESSOR, {**flat, **named}) if flat else {}


TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"


def tokenizer_config(folder: Folder) -> dict[str, str]:
    """`tokenizer_config.json` in words that all clients know; nothing for a folder without a tokenizer."""
    old = json_object(folder, TOKENIZER_CONFIG)
    if old is None and (TOKENIZER not in folder.names or TOKENIZER_CONFIG in folder.names):
        return {}
    of_machine = ("backend", "is_local", "local_files_only")  # keys of transformers 5 about where it was saved
    portable = {key: value for key, value in (old or {}).items() if key not in of_machine}
    extra, new = portable.get("extra_special_tokens"), portable
    if isinstance(extra, list):  # a list has an older name; 4.57 knows a dict under the newer one
        others = {key: value for key, value in portable.items() if key != "extra_special_tokens"}
        new = {"additional_special_tokens": extra, **others} if extra else others
    if new.get("tokenizer_class") == "TokenizersBackend":  # a class of transformers 5 alone
        # All versions know a class of the same behavior. In 4.57 a generic tokenizer also has `token_type_ids`.
        known = {"tokenizer_class": "PreTrainedTokenizerFast"}
        new = {"model_input_names": ["input_ids", "attention_mask"], **new, **known}
    older = (json_object(folder, "chat_template.json") or {}).get("chat_template")
    template = folder.texts.get(TEMPLATE) or (older if isinstance(older, str) else "")
    new = {**new, "chat_template": template} if template and not new.get("chat_template") else new
    # The longest text that sentence-transformers gives the model, if the tokenizer states none itself.
    length = (json_object(folder, "sentence_bert_config.json") or {}).get("max_seq_length")
    return changed(folder, TOKENIZER_CONFIG, {"model_max_length": length, **new} if isinstance(length, int) else new)


def chat_template(folder: Folder) -> dict[str, str]:
    """`chat_template.jinja`, if the template is in the configuration of the tokenizer alone."""
    inside = (json_object(folder, TOKENIZER_CONFIG) or {}).get("chat_template")
    return {TEMPLATE: inside} if isinstance(inside, str) and TEMPLATE not in folder.names else {}


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
