"""Texts of the command line for a plan and a result: one screen, everything, or JSON, whose fields are in CLI.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from attrs import asdict

from onnxfn.export.cli.flags import say
from onnxfn.export.publish.staging import Destination
from onnxfn.export.report.report_file import check_facts, graph_facts
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.results.measurements import is_first_variant, variant_rows, with_heads
from onnxfn.specs.results.output_types import output_dtype, tensor_dtype
from onnxfn.specs.results.printing import (
    Rows,
    Sections,
    chosen_sections,
    exported_summary,
    exported_title,
    file_size,
    left_out_sections,
    spec_sections,
    text,
    title,
    weight_sections,
    with_float_dtype,
)
from onnxfn.specs.short_repr import counted, grouped_rows
from onnxfn.specs.stored.reports import Exported

Form = Literal["brief", "verbose", "json"]
"""The output of a command: at most LINES lines, everything, or JSON."""

LINES = 25
"""The most lines of a result, the line of the task included."""

MOST_NAMES = 4
"""The most names of tensors in a row about one of several files."""


def result_form(values: Mapping[str, Any]) -> Form:
    """The form of a result that options ask for. InvalidSpec for two forms."""
    if "json" in values and "verbose" in values:
        raise InvalidSpec("--json has everything, and --verbose is for text; leave out one of them")
    return "json" if "json" in values else "verbose" if "verbose" in values else "brief"


def say_in_form(form: Form, json_content: Callable[[], Any], everything: Any, brief: Callable[[], str]) -> None:
    """Prints a result in one of the forms; `json_content` must not have NaN or infinity, which JSON lacks."""
    match form:
        case "json":
            say(json.dumps(json_content(), indent=2, allow_nan=False))
        case "verbose":
            say(everything)
        case _:
            say(brief())


def result_text(exported: Exported) -> str:
    """A result in at most `LINES - 1` lines: the line of the task is printed before the model is loaded."""
    part = exported.plan.parts[0]
    folder = str(Destination(Path(exported.path)).folder)
    cases = dict.fromkeys(case.partition(" (")[0] for case in (exported.report.cases if exported.report else ()))
    sections: Sections = [
        ("derived from", [(part.spec.derived,)] if part.spec.derived else []),
        (f"files in {folder}", _file_rows([exported], folder)),
        *_tensor_sections(exported.plan, dict(exported.graphs[0].outputs) if exported.graphs else {}),
        *chosen_sections(exported.plan, exported.report),
        *left_out_sections(exported.plan),
        ("weights", [(exported.weights_from,)] if exported.weights_from else []),
        ("not quantized", [(left.weight, left.reason) for left in exported.not_quantized]),
        ("limits of dynamic axes", [(str(limit),) for limit in exported.limits]),
        ("cases", [(", ".join(cases),)] if cases else []),
    ]
    return screen(exported_title(exported), sections, exported_summary(exported))


def plan_text(plan: Plan) -> str:
    """A plan in at most `LINES - 1` lines."""
    spec = plan.parts[0].spec
    sizes = [("files", [(name,) for name in plan.files])] if not plan.weight_bytes else weight_sections(plan)
    derived = ("derived from", [(spec.derived,)] if spec.derived else [])
    heading = f"{title(spec)} · {counted(len(plan.parts), 'files')}, nothing is written"
    return screen(
        heading, [derived, *sizes, *chosen_sections(plan), *_tensor_sections(plan, {}), *left_out_sections(plan)]
    )


def pipeline_text(path: str, parts: Mapping[str, Exported]) -> str:
    """The results of the parts of a pipeline in at most `LINES - 1` lines: a row for each file."""
    seconds = sum(seconds for part in parts.values() for _, seconds in part.seconds)
    status = "check passed" if all(part.report is not None for part in parts.values()) else "unchecked"
    heading = f"pipeline · {counted(len(parts), 'parts')} · {status}"
    size = file_size(sum(part.bytes for part in parts.values()))
    remarks = [(remark,) for part in parts.values() for remark in part.plan.remarks]
    sections: Sections = [(f"files in {path}", _file_rows(parts.values(), path)), ("remarks", remarks)]
    return screen(heading, sections, f"{seconds:.1f} s · {size}")


def screen(heading: str, sections: Sections, summary: str = "") -> str:
    """Sections as text in at most `LINES - 1` lines, headings included: the longest sections lose their last rows."""
    with_rows = [section for section in sections if section[1]]
    room = LINES - 1 - len(heading.splitlines()) - bool(summary) - len(with_rows)
    most = max(size for size in range(1, LINES) if sum(min(size, len(rows)) for _, rows in with_rows) <= room)
    first_rows = [
        (name, rows if len(rows) <= most else [*rows[: most - 1], (f"and {len(rows) - most + 1} more: --verbose",)])
        for name, rows in with_rows
    ]
    return text(heading, first_rows, summary)


def _tensor_sections(plan: Plan, types: Mapping[str, str]) -> Sections:
    """The inputs and outputs of the only file of a dtype with their types and axes; of several, the names alone."""
    first = [part for part in plan.parts if is_first_variant(part, plan)]
    if len(first) == 1:
        sections = dict(spec_sections(with_float_dtype(first[0].spec), types))
        return [(name, [row[:2] for row in sections.get(name, ())]) for name in ("inputs", "outputs")]
    takes = [(f"{part.name}.onnx", "takes", _names(part.spec.inputs)) for part in first]
    gives = [("", "gives", _names(part.spec.outputs)) for part in first]
    return [("inputs and outputs", [row for rows in zip(takes, gives, strict=True) for row in rows])]


def _names(tensors: Iterable[Any]) -> str:
    return listed((name for (name,) in grouped_rows([(tensor.name,) for tensor in tensors])), most=MOST_NAMES)


def _file_rows(results: Iterable[Exported], folder: str) -> Rows:
    """A row for each graph: size, nodes, the worst figures of its check; then the names of other files."""
    facts = [(name, row) for exported in results for name, row in _facts_by_file(exported, folder).items()]
    columns = list(dict.fromkeys(column for _, row in facts for column in row))
    rows = [(name, *(row.get(column, "") for column in columns)) for name, row in facts if row]
    others = [name for name, row in facts if not row]
    return [*with_heads(("file", *columns), rows), *([(listed(others, most=MOST_NAMES + 2),)] if others else [])]


def _facts_by_file(exported: Exported, folder: str) -> dict[str, dict[str, str]]:
    """From the path of each file in a folder to what is known of its graph, by column; nothing for other files."""
    nodes = {f"{size.part}.onnx": str(size.nodes) for size in exported.graphs}
    weights = {f"{size.part}.onnx": file_size(size.bytes).partition(",")[0] for size in exported.plan.weight_bytes}
    report = exported.report
    head, *rows = variant_rows(report) if report is not None and report.passed else [()]
    figures = {row[0]: dict(zip(head[1:], row[1:], strict=False)) for row in rows}  # the worst of its check, by column
    return {
        str(path.relative_to(folder)): {
            "size": weights.get(path.name, ""),  # a measure of the check has the name `weights`
            "nodes": nodes[path.name],
            **figures.get(path.name, {}),
        }
        if path.name in nodes
        else {}
        for path in map(PurePath, exported.files)
    }


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
    dtype = part.dtype or part.spec.target.float_dtype or "float32"
    return {"dtype": dtype, "opset": part.spec.target.opset, "weight_bytes": sizes.get(part.name)}


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
    # Only the graph shows more of such dtypes of planned outputs.
    return {"name": tensor.name, "dtype": None if dtype in ("", "int") else dtype, "shape": shape}


def _relative(file: str | Path, folder: Path) -> str:
    return Path(file).relative_to(folder).as_posix()
