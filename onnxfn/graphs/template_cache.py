"""Templates: graphs without weights, kept on disk for the next model that differs in values alone."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from attrs import asdict

from onnxfn.graphs.capture.capture import LIMITS
from onnxfn.graphs.passes.slots import SLOT, Slot, slot_of
from onnxfn.specs.reports import Limit

SAVED_META = ("onnxfn.traced_layers", "onnxfn.from_repeats", "onnxfn.expected_operators")
"""What a graph's `meta` says in plain words, and is kept with it."""

NOTE = "onnxfn.template"
"""Where a kept graph says what it cannot say as ONNX."""


def template_folder() -> Path:
    """Where the command line keeps templates: `onnxfn/templates` in the user's cache. It may be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxfn" / "templates"


def save_template(folder: Path | None, name: str | None, graph: Any) -> None:
    """Write a graph whose parameters are slots; it appears whole or not at all, and a full disk is no error.

    Without a folder or a name nothing is kept, nor found, nor forgotten.
    """
    import onnx_ir

    if folder is None or name is None:
        return
    note = {
        "slots": {
            value.name: asdict(known) for value in graph.graph.initializers.values() if (known := slot_of(value))
        },
        "limits": [asdict(limit) for limit in graph.meta[LIMITS]],
        "meta": {key: graph.meta[key] for key in SAVED_META if key in graph.meta},
    }
    proto = onnx_ir.to_proto(_with_external_slots(graph))
    for value in graph.graph.initializers.values():
        if slot_of(value):
            value.const_value = None
    proto.metadata_props.add(key=NOTE, value=json.dumps(note))
    write_atomically(_file(folder, name), proto.SerializeToString())


def write_atomically(place: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all; a full disk is no error."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(content)
        Path(file.name).replace(place)
    except OSError:
        return


def load_template(folder: Path | None, name: str | None) -> Any:
    """The graph that was kept under a name, its parameters slots; None when there is none that can be read."""
    import onnx
    import onnx_ir

    if folder is None or name is None:
        return None
    try:
        graph = onnx_ir.from_proto(onnx.ModelProto.FromString(_file(folder, name).read_bytes()))
        note = json.loads(graph.metadata_props.pop(NOTE))
    except Exception:  # noqa: BLE001 - whatever is wrong with a file, a graph can be made again
        return None
    for value, known in note["slots"].items():
        found = graph.graph.initializers[value]
        found.shape, found.dtype = found.const_value.shape, found.const_value.dtype
        found.const_value, found.meta[SLOT] = None, Slot(**known)
    graph.meta.update(note["meta"])
    graph.meta[LIMITS] = tuple(Limit(**limit) for limit in note["limits"])
    return graph


def delete_template(folder: Path | None, name: str | None) -> None:
    """Let nobody take what is kept under a name."""
    if folder is not None and name is not None:
        _file(folder, name).unlink(missing_ok=True)


def _with_external_slots(graph: Any) -> Any:
    """The graph, its slots said to be in a file that is nowhere: what ONNX initializes has values somewhere."""
    import onnx_ir

    for value in graph.graph.initializers.values():
        if slot_of(value):
            value.const_value = onnx_ir.ExternalTensor(
                "nowhere", None, None, value.dtype, shape=value.shape, name=value.name
            )
    return graph


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.onnx"
