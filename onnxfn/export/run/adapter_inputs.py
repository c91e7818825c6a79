"""The adapter of an export whose graphs take adapters as inputs: its file, and the check with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxfn.check.adapter_inputs import adapter_report
from onnxfn.graphs.passes.adapter_inputs import SUFFIXES, adapter_ports, is_selected
from onnxfn.models.adapted import with_adapter
from onnxfn.models.model_copy import model_copy
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Plan
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec, closest, unknown
from onnxfn.specs.results.measurements import Floors
from onnxfn.specs.stored.reports import Report, StageTimer
from onnxfn.weights.adapter_files import adapter_arrays, write_arrays
from onnxfn.weights.adapters import read_adapter


def merged_adapter(spec: ExportSpec, adapter: str | Path | None) -> str | Path | None:
    """The adapter that an export merges: None if its graphs take adapters as inputs."""
    return None if spec.target.adapter_inputs else adapter


def input_adapter(spec: ExportSpec, adapter: str | Path | None) -> Path | None:
    """The adapter that fills inputs of the graphs of an export; None if they have no such inputs."""
    return Path(adapter) if adapter is not None and spec.target.adapter_inputs else None


def check_layers(model: Any, plan: Plan, graphs: Sequence[Any]) -> None:
    """Raises UnknownName if a layer that shall have the inputs of an adapter is in none of the graphs of a plan."""
    layers = {name.removesuffix(SUFFIXES[0]) for graph in graphs for name in adapter_ports(graph)}
    for end in plan.parts[0].spec.target.adapter_inputs or ():
        if not any(is_selected(layer, (end,)) for layer in layers):
            known = dict.fromkeys(name.rpartition(".")[2] for name, each in model.named_modules() if _is_linear(each))
            raise unknown("linear layer", end, known, of=type(model).__name__)


def _is_linear(module: Any) -> bool:
    import torch

    return isinstance(module, torch.nn.Linear)


def write_input_adapter(adapter: Path, plan: Plan, graphs: Sequence[Any], folder: Path) -> list[Path]:
    """Writes an adapter next to the graphs whose inputs it fills; returns the paths of its files.

    There is one file for each graph, whose name has that of the part if there are several, and ends in `_fp16` for
    float16. InvalidSpec if the adapter changes a layer for which no graph has inputs.
    """
    known = [name for graph in graphs for name in adapter_ports(graph)]
    arrays = adapter_arrays(read_adapter(adapter), _dtype(plan))
    for name in arrays:
        if name not in known:
            raise InvalidSpec(
                f"the adapter {adapter} changes {name.removesuffix(SUFFIXES[0])}, for which the graph has no inputs"
                f"{closest(name, known)}; name its layer in with_adapter_inputs"
            )
    by_part = {
        part.name: own for part, graph in zip(plan.parts, graphs, strict=True) if (own := _own_arrays(graph, arrays))
    }
    end = f"{'_fp16' if _dtype(plan) == 'float16' else ''}.onnx_adapter"
    return [
        write_arrays(own, folder / f"{adapter.resolve().name}{f'_{name}' if len(by_part) > 1 else ''}{end}")
        for name, own in by_part.items()
    ]


def check_with_adapter(
    model: Any, plan: Plan, graphs: Sequence[Any], folder: Path, adapter: Path, timed: StageTimer, floors: Floors
) -> tuple[Report, ...]:
    """The report on each part whose inputs an adapter fills, against the model with the adapter merged."""
    merged = with_adapter(model, model_copy(model), adapter)
    arrays = adapter_arrays(read_adapter(adapter), _dtype(plan))
    reports = []
    for part, graph in zip(plan.parts, graphs, strict=True):
        own = _own_arrays(graph, arrays)
        if own:
            with timed("check", part.name) as tick:
                reports.append(adapter_report(merged, part, folder / f"{part.name}.onnx", own, tick, floors))
    return tuple(reports)


def _own_arrays(graph: Any, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Those of the arrays of an adapter that are inputs of a graph."""
    ports = adapter_ports(graph)
    return {name: array for name, array in arrays.items() if name in ports}


def _dtype(plan: Plan) -> Any:
    return plan.parts[0].spec.target.float_dtype or "float32"
