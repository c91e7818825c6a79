"""Recipes: what an export of a checkpoint needs from an earlier export of its kind, so that it loads no model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from attrs import field, frozen

from onnxfn.graphs.build import BuildOptions, finished_graph, template_name
from onnxfn.graphs.cache_folder import delete_file, read_file, write_file
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.capture.dtypes import without_values
from onnxfn.graphs.fingerprints import package_versions, search_state
from onnxfn.graphs.passes.slots import slot_of
from onnxfn.graphs.template_cache import delete_template, load_template
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import InvalidSpec, OnnxfnError
from onnxfn.specs.planned import Plan
from onnxfn.specs.serialize import from_plain, to_plain
from onnxfn.weights.checkpoint_links import arrays, entries_by_name
from onnxfn.weights.layouts import CONFIG_FILES
from onnxfn.weights.safetensors import TensorEntry, entries, read_header

LABEL_KEYS = ("id2label", "label2id")
"""Keys of a configuration whose values are labels. Their number is a size of the graph, their names are not in it."""

IGNORED_KEYS = ("_name_or_path", "finetuning_task")
"""Keys of a configuration on which no graph depends."""

UNSAFE_KEYS = ("auto_map", "quantization_config", "compression_config")
"""Keys of a configuration whose effect on the model is known only when the model is loaded."""

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_NOT_IN_NAMES = frozenset("/\\:\0")

SINGLE_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"
"""The weights of a checkpoint in one file, and the index of weights in several files."""


@frozen
class Recipe:
    """An export without its model.

    Attributes:
        plan: The plan of the export.
        templates: The name of the template of each part, in the template cache.
        parameter_sources: From which tensor of the checkpoint each parameter is read.
        config_files: Name and text of each configuration file that the model writes and the checkpoint lacks.
    """

    plan: Plan
    templates: tuple[str, ...] = field(converter=as_tuple)
    parameter_sources: tuple[tuple[str, str], ...] = field(converter=as_tuple)
    config_files: tuple[tuple[str, str], ...] = field(converter=as_tuple)


def recipe_key(folder: Path, options: Mapping[str, Any]) -> str | None:
    """The key of the recipe for a checkpoint, equal for checkpoints that differ only in the values of their weights.

    It covers the configuration without the names of labels, the headers of the safetensors files, the versions of all
    installed packages, and the options of the export. None if the checkpoint has code of its own, is quantized, has
    adapters, or is not completely in safetensors files: then only loading the model shows what it is.
    """
    try:
        config = json.loads((folder / CONFIG_FILES["config"]).read_bytes())
        unsafe = any(_keys_set(config, UNSAFE_KEYS)) or any(folder.glob("*.py")) or any(folder.glob("adapter_*"))
        facts = [json.dumps(value, sort_keys=True) for value in (dict(options), _without_names(config))]
        facts.extend((*_weight_headers(folder), _digest(folder / CONFIG_FILES["generation_config"])))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OnnxfnError):
        return None
    facts.extend((*package_versions(), *_installed_packages()))
    return None if unsafe else hashlib.sha256("\n".join(facts).encode()).hexdigest()


def save_recipe(key: str, model: Any, plan: Plan, folder: Path, out: Path, build: BuildOptions) -> None:
    """Saves the recipe of an export under its key in the template cache, if the recipe can be proven.

    It is proven if the template of each part is in the cache, and if each parameter of the model equals, byte for
    byte, the tensor of the checkpoint that its name leads to. `folder` is the checkpoint, `out` the target.
    """
    cache, traced = build.template_cache, lru_cache(partial(without_values, model))
    names = [template_name(traced(part.spec.target.float_dtype), part, build) for part in plan.parts]
    graphs = [graph.model.graph for name in names if (graph := load_template(cache, name)) is not None]
    if cache is None or len(graphs) < len(names) or not _is_restorable(plan):
        return
    slots = [slot for graph in graphs for value in graph.initializers.values() if (slot := slot_of(value))]
    sources = _parameter_sources(model, {slot.parameter for slot in slots}, folder)
    if sources is None:
        return
    texts = {name: (out / name).read_text() for name in CONFIG_FILES.values() if (out / name).exists()}
    recipe = {
        "plan": to_plain(plan),
        "templates": names,
        "parameter_sources": sources,
        "config_files": {name: text for name, text in texts.items() if not (folder / name).exists()},
    }
    write_file(_recipe_file(cache, key), json.dumps(recipe).encode(), build.template_cache_bytes)


def load_recipe(template_cache: Path | None, key: str | None) -> Recipe | None:
    """The recipe that is saved under a key; None if there is none, or if its file cannot be read.

    A file that is not a recipe, or whose names would lead out of the folder of an export, is deleted.
    """
    if template_cache is None or key is None:
        return None
    content = read_file(_recipe_file(template_cache, key))
    if content is None:
        return None
    try:
        recipe = _recipe(json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OnnxfnError):
        recipe = None
    if recipe is not None and _stays_in_folder(recipe):
        return recipe
    delete_file(_recipe_file(template_cache, key))
    return None


def recipe_graphs(recipe: Recipe, template_cache: Path, folder: Path) -> tuple[BuiltGraph, ...] | None:
    """The graphs of a recipe with the weights of the checkpoint in a folder; None if a template is missing.

    Templates that do not fit the checkpoint are deleted.
    """
    graphs = [graph for name in recipe.templates if (graph := load_template(template_cache, name)) is not None]
    if len(graphs) < len(recipe.templates):
        return None
    stored = arrays(entries(folder))
    try:
        tensors = {parameter: stored[source] for parameter, source in recipe.parameter_sources}
        return tuple(finished_graph(graph, part, tensors) for graph, part in zip(graphs, recipe.plan, strict=True))
    except Exception:  # noqa: BLE001 - whatever the recipe lacks, the model can be loaded
        for name in recipe.templates:
            delete_template(template_cache, name)
        return None


def _recipe(saved: Mapping[str, Any]) -> Recipe:
    """The recipe that was saved as JSON. Raises an error of several types if it is none."""
    pairs = {name: tuple(saved[name].items()) for name in ("parameter_sources", "config_files")}
    return Recipe(from_plain(saved["plan"]), tuple(saved["templates"]), **pairs)


def _stays_in_folder(recipe: Recipe) -> bool:
    """Whether each name in a recipe is that of a file in the folder of an export, or in the cache.

    Configuration files are those that onnxfn writes. Templates are fingerprints. Parts have plain file names.
    """
    return (
        len(recipe.plan.parts) == len(recipe.templates) > 0
        and {name for name, _ in recipe.config_files} <= {*CONFIG_FILES.values()}
        and all(_FINGERPRINT.fullmatch(name) for name in recipe.templates)
        and all(_is_plain_name(part.name) for part in recipe.plan.parts)
    )


def _is_plain_name(name: str) -> bool:
    """Whether a name is that of a file in any folder, on every system: no path, drive or stream, and not `..`."""
    return bool(name.strip(". ")) and not _NOT_IN_NAMES & {*name} and name.isprintable()


def _is_restorable(plan: Plan) -> bool:
    """Whether a plan that is saved can be read. One that names code of other packages cannot: nobody trusts them."""
    try:
        return bool(from_plain(to_plain(plan)) == plan)
    except OnnxfnError:
        return False


def _parameter_sources(model: Any, parameters: Collection[str], folder: Path) -> dict[str, str] | None:
    """From which tensor of a checkpoint each parameter is read; None if that is not certain for all of them."""
    from onnx_ir.tensor_adapters import TorchTensor

    state = model.state_dict(keep_vars=True)
    names_by_memory: dict[int, list[str]] = {}
    for name, tensor in state.items():
        names_by_memory.setdefault(tensor.data_ptr(), []).append(name)
    names = {parameter: names_by_memory[state[parameter].data_ptr()] for parameter in parameters}
    tensors = {parameter: TorchTensor(state[parameter]) for parameter in parameters}
    sources = entries_by_name(names, tensors, _names_in_model(model, entries(folder)))
    return {name: entry.name for name, entry in sources.items()} if len(sources) == len(parameters) else None


def _names_in_model(model: Any, stored: Sequence[TensorEntry]) -> dict[TensorEntry, str]:
    """The name of each tensor of a checkpoint in the loaded model: transformers renames tensors of older models."""
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightRenaming, rename_source_key

        mapping = get_model_conversion_mapping(model)
        renamings = [renaming for renaming in mapping if isinstance(renaming, WeightRenaming)]
        return {entry: rename_source_key(entry.name, renamings, [])[0] for entry in stored}
    except (ImportError, AttributeError, TypeError):  # a version of transformers without these functions
        return {entry: entry.name for entry in stored}


def _weight_headers(folder: Path) -> Iterator[str]:
    """The headers of the safetensors files of a checkpoint; InvalidSpec if they are not what transformers reads."""
    files = sorted(folder.glob("*.safetensors"))
    index = folder / INDEX_FILE
    if [file.name for file in files] != [SINGLE_FILE] or index.exists():
        weight_map = {name: folder / file for name, file in json.loads(index.read_bytes())["weight_map"].items()}
        tensors = {entry.name: entry.file for entry in entries(folder)}
        if files != sorted(set(weight_map.values())) or weight_map != tensors:
            raise InvalidSpec(f"{index} does not list the tensors that are in {folder}")
    for file in files:
        header, start = read_header(file)
        end = max(tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__")
        if file.stat().st_size != start + end:
            raise InvalidSpec(f"{file} does not have the size that its header states")
        yield f"{file.name} {json.dumps(header)}"


def _without_names(config: Any) -> Any:
    """A configuration without the keys that are ignored, with the number of labels in place of the labels."""
    if isinstance(config, Mapping):
        return {
            key: len(value) if key in LABEL_KEYS and value is not None else _without_names(value)
            for key, value in config.items()
            if key not in IGNORED_KEYS
        }
    return [_without_names(item) for item in config] if isinstance(config, list) else config


def _keys_set(config: Any, keys: Sequence[str]) -> Iterator[str]:
    """Those of the keys that have a value in a configuration, at any depth."""
    if isinstance(config, Mapping):
        yield from (key for key in keys if config.get(key))
    nested = config.values() if isinstance(config, Mapping) else config
    for item in nested if isinstance(config, (Mapping, list)) else ():
        yield from _keys_set(item, keys)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "no such file"


def _installed_packages() -> tuple[str, ...]:
    """Every package that can be imported, with its version."""
    return _packages_in(search_state())


@lru_cache(maxsize=1)
def _packages_in(state: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    return tuple(sorted(info.name for path, _ in state for info in Path(path).glob("*.dist-info")))


def _recipe_file(template_cache: Path, key: str) -> Path:
    return template_cache / f"{key}.recipe"
