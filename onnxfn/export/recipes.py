"""Recipes: what the export of a checkpoint needs to know of an earlier one of its kind, so that it needs no model."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from onnxfn.graphs.build import BuildOptions, template_name
from onnxfn.graphs.cache_folder import read_file, write_file
from onnxfn.graphs.fingerprints import package_versions
from onnxfn.graphs.passes.slots import bind_weights, slot_of, slot_parameters
from onnxfn.graphs.template_cache import load_template
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, OnnxfnError
from onnxfn.specs.planned import Plan
from onnxfn.specs.records import as_tuple
from onnxfn.specs.serialize import from_plain, to_plain
from onnxfn.weights.checkpoint_links import arrays, entries_by_name
from onnxfn.weights.layouts import CONFIG_FILES
from onnxfn.weights.safetensors import TensorEntry, entries, read_header

LABELS = ("id2label", "label2id")
"""What a configuration says of labels: their number tells a size, their names nothing."""

NAMES = ("_name_or_path", "finetuning_task")
"""What a configuration says that nothing depends on."""

DOUBTFUL = ("auto_map", "quantization_config", "compression_config")
"""What a configuration says where only loading a model tells what it is."""

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@frozen
class Recipe:
    """An export without its model: the plan, and the name of each part's template.

    `fills` tells from which tensor of the checkpoint each parameter is read, `beside` the text of each file that the
    model writes of itself where the checkpoint has none.
    """

    plan: Plan
    templates: tuple[str, ...] = field(converter=as_tuple)
    fills: tuple[tuple[str, str], ...] = field(converter=as_tuple)
    beside: tuple[tuple[str, str], ...] = field(converter=as_tuple)


def kind(folder: Path, asked: Mapping[str, Any]) -> str | None:
    """A line that two checkpoints share only if they differ in values alone and the same is asked; None in any doubt.

    It is of the configuration, names of labels aside, of the headers of the safetensors files, of what is installed,
    and of what is asked. In doubt is what has code of its own, is quantized or adapted, or is not whole in such files.
    """
    try:
        config = json.loads((folder / CONFIG_FILES["config"]).read_bytes())
        doubtful = any(_said(config, DOUBTFUL)) or any(folder.glob("*.py")) or any(folder.glob("adapter_*"))
        told = [json.dumps(one, sort_keys=True) for one in (dict(asked), _unnamed(config))]
        told.extend((*_headings(folder), _digest(folder / CONFIG_FILES["generation_config"])))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OnnxfnError):
        return None
    return (
        None
        if doubtful
        else hashlib.sha256("\n".join([*told, *package_versions(), *_installed()]).encode()).hexdigest()
    )


def remember(templates: Path, name: str, model: Any, made: Plan, folder: Path, out: Path, making: BuildOptions) -> None:
    """Keep the recipe of an export that was made so, under the name of its kind, if it can be proven.

    `folder` is the checkpoint, `out` the folder or the file that was written. Proven is that each graph is kept, and
    that each parameter lies byte for byte where its name says. Else nothing is kept.
    """
    names = [template_name(model, part, making) for part in made.parts]
    graphs = [load_template(templates, one) for one in names]
    if None in graphs or from_plain(to_plain(made)) != made:
        return
    slots = [known for graph in graphs for value in graph.graph.initializers.values() if (known := slot_of(value))]
    fills = _fills(model, {name for one in slots for name in slot_parameters(one)}, folder)
    if fills is None:
        return
    told = {file: (out / file).read_text() for file in CONFIG_FILES.values() if (out / file).exists()}
    beside = {file: text for file, text in told.items() if not (folder / file).exists()}
    recipe = {"plan": to_plain(made), "templates": names, "fills": fills, "beside": beside}
    write_file(_place(templates, name), json.dumps(recipe).encode(), making.template_cache_bytes)


def recalled(templates: Path | None, name: str | None) -> Recipe | None:
    """The recipe that is kept under the name of a kind; None when there is none that can be read."""
    if templates is None or name is None:
        return None
    try:
        told = json.loads(read_file(_place(templates, name)))
        pairs = {one: tuple(told[one].items()) for one in ("fills", "beside")}
        return Recipe(from_plain(told["plan"]), tuple(told["templates"]), **pairs)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OnnxfnError):
        return None


def graphs_of(recipe: Recipe, templates: Path, folder: Path) -> tuple[Any, ...] | None:
    """The graphs of a recipe, their weights where they lie in a checkpoint's files; None when one is not kept."""
    made = tuple(load_template(templates, one) for one in recipe.templates)
    if None in made:
        return None
    there = arrays(entries(folder))
    tensors = {parameter: there[stored] for parameter, stored in recipe.fills}
    try:
        return tuple(bind_weights(graph, tensors.__getitem__) for graph in made)
    except (CaptureFailed, KeyError):
        return None


def _fills(model: Any, parameters: Collection[str], folder: Path) -> dict[str, str] | None:
    """From which tensor of a checkpoint each parameter is read; None where of one that is not beyond doubt."""
    from onnx_ir.tensor_adapters import TorchTensor

    state = model.state_dict(keep_vars=True)
    called: dict[int, list[str]] = {}
    for name, tensor in state.items():
        called.setdefault(tensor.data_ptr(), []).append(name)
    names = {one: called[state[one].data_ptr()] for one in parameters}
    found = entries_by_name(
        names, {one: TorchTensor(state[one]) for one in parameters}, _loaded_as(model, entries(folder))
    )
    return {name: one.name for name, one in found.items()} if len(found) == len(parameters) else None


def _loaded_as(model: Any, stored: Sequence[TensorEntry]) -> dict[TensorEntry, str]:
    """What transformers calls each tensor of a checkpoint once it is loaded: it renames those of older models."""
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightRenaming, rename_source_key

        renamings = [one for one in get_model_conversion_mapping(model) if isinstance(one, WeightRenaming)]
        return {one: rename_source_key(one.name, renamings, [])[0] for one in stored}
    except (ImportError, AttributeError, TypeError):  # another transformers than these names are of
        return {one: one.name for one in stored}


def _headings(folder: Path) -> Iterator[str]:
    """The headers of all safetensors files of a checkpoint; ValueError when they are not what transformers reads."""
    files = sorted(folder.glob("*.safetensors"))
    index = folder / INDEX
    if [file.name for file in files] != [WHOLE] or index.exists():
        told = {name: folder / file for name, file in json.loads(index.read_bytes())["weight_map"].items()}
        if files != sorted(set(told.values())) or told != {one.name: one.file for one in entries(folder)}:
            raise InvalidSpec(f"{index} does not tell what lies in {folder}")
    for file in files:
        header, start = read_header(file)
        end = max(fact["data_offsets"][1] for name, fact in header.items() if name != "__metadata__")
        if file.stat().st_size != start + end:
            raise InvalidSpec(f"{file} is not whole")
        yield f"{file.name} {json.dumps(header)}"


def _unnamed(config: Any) -> Any:
    """A configuration without names: of labels, how many there are."""
    if isinstance(config, Mapping):
        return {
            name: len(value) if name in LABELS and value is not None else _unnamed(value)
            for name, value in config.items()
            if name not in NAMES
        }
    return [_unnamed(one) for one in config] if isinstance(config, list) else config


def _said(config: Any, names: Sequence[str]) -> Iterator[str]:
    """Those of the names of which a configuration says something, at any depth."""
    if isinstance(config, Mapping):
        yield from (name for name in names if config.get(name))
    inside = config.values() if isinstance(config, Mapping) else config
    for one in inside if isinstance(config, (Mapping, list)) else ():
        yield from _said(one, names)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "no such file"


def _installed() -> list[str]:
    """Every package that can be imported here, with its version."""
    return sorted(one.name for place in sys.path for one in Path(place or ".").glob("*.dist-info"))


def _place(templates: Path, name: str) -> Path:
    return templates / f"{name}.json"
