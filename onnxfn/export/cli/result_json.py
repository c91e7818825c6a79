"""A plan, the result of an export, and the results of a pipeline as JSON: `onnxfn export --json`. Fields: CLI.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from attrs import asdict

from onnxfn.export.publish.staging import Destination
from onnxfn.export.report.report_file import check_facts, graph_facts
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.results.output_types import output_dtype, tensor_dtype
from onnxfn.specs.results.printing import with_float_dtype
from onnxfn.specs.stored.reports import Exported

SCHEMA, SCHEMA_VERSION = "onnxfn-export", 1
"""The schema in the JSON. The version grows when a field is removed or changes its meaning, not for new fields."""

UNKNOWN = ("", "int")
"""Dtypes of planned outputs that only the graph shows."""


def plan_content(plan: Plan, destination: Destination) -> dict[str, Any]:
    """A plan as JSON has it. A fact that only the graphs show is null."""
    folder = destination.onnx_folder
    graphs = {
        _relative(folder / f"{part.name}.onnx", destination.folder): {**_part_facts(plan, part), **_ports(part)}
        for part in plan.parts
    }
    return {**_head(plan, str(destination.path), is_dry_run=True), "check": check_facts(None), "graphs": graphs}


def result_content(exported: Exported) -> dict[str, Any]:
    """The result of an export as JSON has it; its ONNX files are read without their weights."""
    folder = Destination(Path(exported.path)).folder
    parts = {f"{part.name}.onnx": part for part in exported.plan.parts}
    graphs = {
        _relative(file, folder): {**_part_facts(exported.plan, parts[PurePath(file).name]), **_graph(exported, file)}
        for file in exported.files
        if PurePath(file).name in parts
    }
    return {
        **_head(exported.plan, exported.path, is_dry_run=False),
        "versions": dict(exported.versions),
        "weights_from": exported.weights_from,
        "not_quantized": [asdict(weight) for weight in exported.not_quantized],
        "limits": [{"name": limit.name, "low": limit.low, "high": limit.high} for limit in exported.limits],
        "seconds": {stage: round(seconds, 3) for stage, seconds in exported.seconds},
        "bytes": exported.bytes,
        "files": [_relative(file, folder) for file in exported.files],
        "check": check_facts(exported.report),
        "graphs": graphs,
    }


def pipeline_content(path: str, parts: Mapping[str, Exported]) -> dict[str, Any]:
    """The results of the parts of a pipeline as JSON has them."""
    components = {name: result_content(part) for name, part in parts.items()}
    return {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "path": path, "components": components}


def _head(plan: Plan, path: str, *, is_dry_run: bool) -> dict[str, Any]:
    spec = plan.parts[0].spec
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "dry_run": is_dry_run,
        "path": path,
        "name": spec.name,
        "task": plan.task,
        "derived_from": spec.derived,
        "modalities": list(plan.modalities),
        "left_out": [asdict(omitted) for omitted in plan.left_out],
        "remarks": list(plan.remarks),
    }


def _part_facts(plan: Plan, part: Part) -> dict[str, Any]:
    """The dtype and the opset of a part, and the bytes of its weights."""
    sizes = {size.part: size.bytes for size in plan.weight_bytes}
    target = part.spec.target
    return {
        "dtype": part.dtype or target.float_dtype or "float32",
        "opset": target.opset,
        "weight_bytes": sizes.get(part.name),
    }


def _graph(exported: Exported, file: str) -> dict[str, Any]:
    """The opset, the inputs and the outputs of an ONNX file, and how large its graph is."""
    facts, stem = graph_facts(Path(file)), PurePath(file).stem
    sizes = {size.part: size for size in exported.graphs}
    fused = {fusion.operator: fusion.actual for fusion in dict(exported.fusions).get(stem, ())}
    size = {"parameters": sizes[stem].parameters, "nodes": sizes[stem].nodes, "fused": fused}
    return {**{key: facts[key] for key in ("opset", "inputs", "outputs")}, **size}


def _ports(part: Part) -> dict[str, Any]:
    """The planned inputs and outputs of a part: name, type, and shape, in which an unknown size is null."""
    spec = with_float_dtype(part.spec)
    return {
        "inputs": [_port(spec, tensor, tensor_dtype(spec, tensor.kind)) for tensor in spec.inputs],
        "outputs": [_port(spec, tensor, output_dtype(spec, tensor)) for tensor in spec.outputs],
    }


def _port(spec: Any, tensor: Any, dtype: str) -> dict[str, Any]:
    axes = (axis.symbol for axis in graph_axes(spec, tensor).axes)
    shape = [int(symbol) if symbol.isdecimal() else None if symbol == "_" else symbol for symbol in axes]
    return {"name": tensor.name, "dtype": None if dtype in UNKNOWN else dtype, "shape": shape}


def _relative(file: str | Path, folder: Path) -> str:
    return Path(file).relative_to(folder).as_posix()
