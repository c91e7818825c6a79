"""Recipes: what an export of a checkpoint needs from an earlier export of its kind, so that it loads no model."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from attrs import field, frozen

from onnxfn.graphs.build import BuildOptions, finished_graph, template_name
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.nodes.slots import slot_of
from onnxfn.graphs.templates.template_cache import delete_file, delete_template, load_template, read_file, write_file
from onnxfn.models.dtypes import without_values
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.stored.serialize import from_plain, to_plain
from onnxfn.weights.checkpoint_links import TensorEntry, arrays, entries, entries_by_name
from onnxfn.weights.layouts import CONFIG_FILES

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_NOT_IN_NAMES = frozenset("/\\:\0")


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
    try:
        stored = arrays(entries(folder))
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


def _recipe_file(template_cache: Path, key: str) -> Path:
    return template_cache / f"{key}.recipe"
