"""Files and remarks for the programs that load an export; an alias, a type that clients know, only on request."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import evolve

from onnxfn.export.clients.configuration import CONFIG_EDITS, edited_config
from onnxfn.export.clients.folder import (
    CONFIG,
    KEY,
    VALUE,
    Folder,
    cache_of,
    changed,
    decoder_of,
    json_object,
    sizes_of,
    templates,
)
from onnxfn.export.clients.genai import GENAI_CONFIG, genai_config, genai_limits, vision_processor, write_embedding
from onnxfn.export.clients.ort_model import ort_model_limits
from onnxfn.export.clients.tokenizer import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    chat_template,
    modules,
    pooling,
    preprocessor_config,
    tokenizer_config,
)
from onnxfn.export.clients.transformers_js import transformers_js_limits
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.planned import Plan
from onnxfn.weights.layouts import ALIAS_FILE, Layout


def alias_of(plan: Plan, config: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of a configuration by an alias; empty if clients load the plan anyway, or not even with an alias."""
    part, limits = decoder_of(plan), (*transformers_js_limits(plan, config), *ort_model_limits(plan, config))
    if part is None or not limits or not {*templates(cache_of(part))} <= {KEY, VALUE}:
        return {}
    cache = cache_of(part)
    sizes = sizes_of(cache, KEY)
    if len({*sizes, *sizes_of(cache, VALUE)}) > 1:
        return {}
    heads = {"num_key_value_heads": sizes[0][1], "head_dim": sizes[0][-1]}
    # keys and values, grouped heads, a width of its own
    return {"model_type": "gemma", "num_hidden_layers": max(tensor.layer for tensor in cache) + 1, **heads}


def alias(folder: Folder) -> dict[str, str]:
    """`config.json` with an alias, and a tokenizer whose class does not follow from it."""
    config = json_object(folder, CONFIG)
    change = alias_of(folder.plan, config) if config is not None else {}
    if config is None or not change:
        return {}
    tokenizer = json_object(folder, TOKENIZER_CONFIG)
    named = {"tokenizer_class": "PreTrainedTokenizerFast", **tokenizer} if tokenizer is not None else None
    fast = changed(folder, TOKENIZER_CONFIG, named) if TOKENIZER in folder.names else {}
    return {**changed(folder, CONFIG, {**config, **change}), **fast}


LIMITS: Mapping[str, Callable[[Plan, Mapping[str, Any]], tuple[str, ...]]] = MappingProxyType(
    {"transformers.js": transformers_js_limits, "onnxruntime-genai": genai_limits, "ORTModel": ort_model_limits}
)
"""A client -> why it cannot load a plan with a configuration. sentence-transformers has the limits of ORTModel."""


def with_remarks(plan: Plan, config: Any, layout: Layout) -> Plan:
    """The plan with what the clients of a layout cannot load of it; unchanged for a layout without any."""
    if not layout.clients and not layout.side_files:
        return plan
    values = snapshot(config)
    change = alias_of(plan, values) if ALIAS_FILE in layout.side_files else {}
    stated = ", ".join(f"{name} {value}" for name, value in change.items() if values.get(name) != value)
    remark = f"as requested, config.json says {stated}; the real type is {values.get('model_type')}"
    values = {**values, **change}
    limits = (limit for client in layout.clients if client in LIMITS for limit in LIMITS[client](plan, values))
    return evolve(plan, remarks=(*([remark] if change else []), *limits))


SIDE_FILES: Mapping[str, Callable[[Folder], dict[str, str]]] = MappingProxyType(
    {
        **{edit.__name__: partial(edited_config, edit) for edit in CONFIG_EDITS},
        **{file.__name__: file for file in (tokenizer_config, chat_template, preprocessor_config, modules, pooling)},
        **{file.__name__: file for file in (vision_processor, genai_config, alias)},
    }
)
"""What `Layout.side_files` names: from a folder to the paths and the texts of the files that are new or changed."""

TEXTS = ("*.json", "chat_template.jinja", "[0-9]_*/config.json")
"""Patterns of the files that side files are computed from."""


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
    """The texts of the configuration files in a folder, by their paths."""
    # A file of more than a megabyte is none: a `tokenizer.json` may have more than ten.
    files = [file for pattern in TEXTS for file in staging.glob(pattern) if file.stat().st_size <= 1 << 20]
    texts = {file: file.read_bytes().decode("utf-8", errors="replace") for file in files}
    return {file.relative_to(staging).as_posix(): text for file, text in texts.items()}
