"""Templates: graphs without weights, saved on disk for the next model that differs in weight values alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import asdict, fields

from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.nodes.slots import SLOT, Slot, slot_of
from onnxfn.graphs.templates.cache_folder import MAX_CACHE_BYTES, delete_file, read_file, write_file
from onnxfn.models.quiet import quiet
from onnxfn.specs.limits import Limit

SAVED = ("limits", "expected", "unused_patches", "traced_layers", "from_repeats")
"""The fields of a graph that are saved with it."""

NOTE = "onnxfn.template"
"""Key of the ONNX metadata of a template: the slots and these fields, as JSON."""


def save_template(folder: Path | None, name: str | None, built: BuiltGraph, max_bytes: int = MAX_CACHE_BYTES) -> None:
    """Writes a graph whose parameters are slots; does nothing without a folder or a name.

    The file appears whole or not at all, and a full disk is no error. The least recently used files of the folder are
    deleted while it has more than `max_bytes` bytes.
    """
    import onnx_ir

    if folder is None or name is None:
        return
    graph = built.model
    slots = {value.name: slot for value in graph.graph.initializers.values() if (slot := slot_of(value))}
    facts = asdict(built, filter=lambda field, _: field.name in SAVED or field not in fields(BuiltGraph))
    note = {"slots": {value: asdict(slot) for value, slot in slots.items()}, "facts": facts}
    proto = onnx_ir.to_proto(_with_external_slots(graph))
    for value in slots:
        graph.graph.initializers[value].const_value = None
    proto.metadata_props.add(key=NOTE, value=json.dumps(note))
    write_file(_file(folder, name), proto.SerializeToString(), max_bytes)


def load_template(folder: Path | None, name: str | None) -> BuiltGraph | None:
    """The graph that was saved under a name, its parameters slots; None when there is none that can be read.

    A file that is not a template of this version is deleted.
    """
    content = None if folder is None or name is None else read_file(_file(folder, name))
    if content is None:
        return None
    try:
        with quiet():
            return _graph(content)
    except Exception:  # noqa: BLE001 - whatever is wrong with the file, the graph can be captured again
        delete_template(folder, name)
        return None


def delete_template(folder: Path | None, name: str | None) -> None:
    """Deletes the graph that was saved under a name, if there is one."""
    if folder is not None and name is not None:
        delete_file(_file(folder, name))


def _graph(content: bytes) -> BuiltGraph:
    """The graph of a template's bytes. Raises an error of any type if they are no template."""
    import onnx
    import onnx_ir

    graph = onnx_ir.from_proto(onnx.ModelProto.FromString(content))
    note = json.loads(graph.metadata_props.pop(NOTE))
    for value_name, slot in note["slots"].items():
        value = graph.graph.initializers[value_name]
        value.shape, value.dtype = value.const_value.shape, value.const_value.dtype
        value.const_value, value.meta[SLOT] = None, Slot(**slot)
    limits = [Limit(**limit) for limit in note["facts"].pop("limits")]
    return BuiltGraph(model=graph, limits=limits, **note["facts"], from_template=True)


def _with_external_slots(graph: Any) -> Any:
    """The graph with its slots marked as external data, since ONNX requires initializers to have values."""
    import onnx_ir

    for value in graph.graph.initializers.values():
        if slot_of(value):
            value.const_value = onnx_ir.ExternalTensor(
                "nowhere", None, None, value.dtype, shape=value.shape, name=value.name
            )
    return graph


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.template"
