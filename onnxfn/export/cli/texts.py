"""Texts of the command line for a plan and a result: one screen, everything, or JSON, whose fields are in CLI.md."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from attrs import asdict

from onnxfn.export.cli.flags import say
from onnxfn.export.publish.staging import Destination
from onnxfn.export.report.report_file import check_facts, graph_facts
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.results import printing, result_facts
from onnxfn.specs.results.output_types import output_dtype, tensor_dtype
from onnxfn.specs.short_repr import counted
from onnxfn.specs.stored.reports import Exported

Form = Literal["brief", "verbose", "json"]
"""The output of a command: a screen, everything, or JSON."""


def result_form(values: Mapping[str, Any]) -> Form:
    """The form of a result that options ask for. InvalidSpec for two forms."""
    if "json" in values and "verbose" in values:
        raise InvalidSpec("--json has everything, and --verbose is for text; leave out one of them")
    return "json" if "json" in values else "verbose" if "verbose" in values else "brief"


def say_in_form(form: Form, content: Callable[[], Any], whole: Callable[[], Any], brief: Callable[[], str]) -> None:
    """Prints a result in one form, which alone is made; `content` is for JSON, which has no NaN and no infinity."""
    match form:
        case "json":
            say(json.dumps(content(), indent=2, allow_nan=False))
        case "verbose":
            say(whole())
        case _:
            say(brief())


def spec_text(spec: ExportSpec, tasks: Iterable[str]) -> str:
    """A spec as it prints, with all tasks of its model type if it is for none."""
    of_type = ("tasks", [(each,) for each in tasks] if spec.task is None else [])
    return printing.text(printing.title(spec), [*printing.spec_sections(spec)[:-1], of_type])


def result_text(exported: Exported) -> str:
    """A result on a screen: the line of the task is printed before the model is loaded."""
    return result_facts.brief(result_facts.exported_facts(exported))


def plan_text(plan: Plan) -> str:
    """A plan on a screen."""
    spec = plan.parts[0].spec
    sizes = [("files", [(name,) for name in plan.files])] if not plan.weight_bytes else printing.weight_sections(plan)
    derived = ("derived from", [(spec.derived,)] if spec.derived else [])
    heading = f"{printing.title(spec)} · {counted(len(plan.parts), 'files')}, nothing is written"
    ports = result_facts.port_sections(result_facts.plan_ports(plan), are_named=len(plan.parts) > 1)
    sections = [derived, *sizes, *printing.chosen_sections(plan), *ports, *printing.left_out_sections(plan)]
    return result_facts.screen(heading, sections)


def pipeline_text(path: str, parts: Mapping[str, Exported]) -> str:
    """The results of the parts of a pipeline on a screen: a row for each file."""
    seconds = sum(seconds for part in parts.values() for _, seconds in part.seconds)
    status = "check passed" if all(part.report is not None for part in parts.values()) else "unchecked"
    heading = f"pipeline · {counted(len(parts), 'parts')} · {status}"
    size = f"{seconds:.1f} s · {printing.file_size(sum(part.bytes for part in parts.values()))}"
    remarks = [(remark,) for part in parts.values() for remark in part.plan.remarks]
    limits = [(f"{name}: {limit}",) for name, part in parts.items() for limit in part.limits]
    facts = [(name, result_facts.exported_facts(part)) for name, part in parts.items()]
    files = {f"{name}/{file}": row for name, each in facts for file, row in each.files.items()}
    others = {file.relative_to(path).as_posix() for file in Path(path).rglob("*") if file.is_file()} - files.keys()
    rows = result_facts.file_rows(result_facts.ResultFacts(heading, "", files, sorted(others), {}, ()))
    return result_facts.screen(heading, [(f"files in {path}", rows), ("limits", limits), ("remarks", remarks)], size)


SCHEMA, SCHEMA_VERSION = "onnxfn-export", 1
"""The schema in the JSON. The version grows when a field is removed or changes its meaning, not for new fields."""


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
        "limits": [asdict(limit) for limit in exported.limits],
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
    return {"dtype": printing.dtype_of(part), "opset": part.spec.target.opset, "weight_bytes": sizes.get(part.name)}


def _graph(exported: Exported, file: str) -> dict[str, Any]:
    """The opset, the inputs and the outputs of an ONNX file, and how large its graph is."""
    facts, stem = graph_facts(Path(file)), PurePath(file).stem
    sizes = {size.part: size for size in exported.graphs}
    fused = {fusion.operator: fusion.actual for fusion in dict(exported.fusions).get(stem, ())}
    size = {"parameters": sizes[stem].parameters, "nodes": sizes[stem].nodes, "fused": fused}
    return {**{key: facts[key] for key in ("opset", "inputs", "outputs")}, **size}


def _ports(part: Part) -> dict[str, Any]:
    """The planned inputs and outputs of a part: name, type, and shape, in which an unknown size is null."""
    spec = printing.with_float_dtype(part.spec)
    return {
        "inputs": [_port(spec, tensor, tensor_dtype(spec, tensor.kind)) for tensor in spec.inputs],
        "outputs": [_port(spec, tensor, output_dtype(spec, tensor)) for tensor in spec.outputs],
    }


def _port(spec: Any, tensor: Any, dtype: str) -> dict[str, Any]:
    axes = (axis.symbol for axis in graph_axes(spec, tensor).axes)
    shape = [int(symbol) if symbol.isdecimal() else None if symbol == "_" else symbol for symbol in axes]
    # Only the graph shows more of such dtypes of planned outputs.
    return {"name": tensor.name, "dtype": None if dtype in ("", "int") else dtype, "shape": shape}


def _relative(file: str | Path, folder: Path) -> str:
    return Path(file).relative_to(folder).as_posix()
