"""What is shown of the folder of an export: from its `report.json`, and the names of the weights in its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from onnxfn.export.report.report_file import REPORT_FILE, read_report, report_folders, report_of
from onnxfn.specs.errors import InvalidSpec, ModelNotFound
from onnxfn.specs.results.page import Outline, page
from onnxfn.specs.results.printing import check_status, file_size, versions_text
from onnxfn.specs.results.result_facts import ResultFacts, graph_columns, type_text, variant_columns
from onnxfn.specs.short_repr import grouped_rows
from onnxfn.weights.onnx_files import stored_tensors


def folder_page(folder: Path) -> str:
    """The page of the folder of an export. ModelNotFound without a report; InvalidSpec for a damaged one."""
    if not folder.is_dir() or folder not in report_folders(folder):
        raise ModelNotFound(f"no {REPORT_FILE} in {folder}; report takes the folder of an export")
    read_report(folder / REPORT_FILE)  # it names only files inside the folder
    content = json.loads((folder / REPORT_FILE).read_bytes())
    return page(folder_facts(content, folder), {path: outline(folder / path) for path in content["graphs"]})


def folder_facts(content: Mapping[str, Any], folder: Path | None = None) -> ResultFacts:
    """What a `report.json` shows. InvalidSpec for one whose fields have other types."""
    try:
        return _folder_facts(content, folder)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidSpec(f"{REPORT_FILE} cannot be shown: {error!r}; export the model again") from error


def _folder_facts(content: Mapping[str, Any], folder: Path | None) -> ResultFacts:
    report, graphs, files = report_of(content["check"]), content["graphs"], content["files"]
    sizes = {path: graph_bytes(path, content) for path in graphs}
    status = "unchecked" if report is None else check_status(report)
    opsets = ", ".join(sorted({f"opset {graph['opset']}" for graph in graphs.values()}))
    first = next(iter(content.get("variants", {}).values()), None)  # the parts of the first dtype
    left_out = [(f"{each['name']}: {each['reason']}",) for each in content["left_out"]]
    return ResultFacts(
        " · ".join(filter(None, (content["name"], content["task"], opsets, status))),
        f"{file_size(sum(each['bytes'] for each in files.values())).partition(',')[0]} · {versions_text(content['versions'])}",
        {
            path: {"dtype": str(graph["dtype"] or "")}
            | graph_columns(sizes[path], graph.get("parameters"), graph.get("nodes"))
            | variant_columns(report, PurePosixPath(path).stem)
            for path, graph in graphs.items()
        },
        [path for path in files if path not in graphs],
        {path: _ports(graph) for path, graph in graphs.items() if first is None or PurePosixPath(path).stem in first},
        [
            ("left out", left_out),
            ("remarks", [(remark,) for remark in content.get("remarks", ())]),
            ("weights", [(content["weights_from"],)] if content["weights_from"] else []),
            ("limits of dynamic axes", [(limit,) for limit in content.get("limits", ())]),
        ],
        report=report,
        root="" if folder is None else str(folder),
        sizes=sizes,
    )


def _ports(graph: Mapping[str, Any]) -> Any:
    return tuple([(port["name"], type_text(port)) for port in graph[kind]] for kind in ("inputs", "outputs"))


def graph_bytes(path: str, content: Mapping[str, Any]) -> int:
    """The size of an ONNX file with its external data."""
    data = path.removesuffix(".onnx") + content["options"]["external_data_suffix"]
    return sum(each["bytes"] for file, each in content["files"].items() if file == path or file.startswith(data))


def outline(file: Path) -> Outline:
    """The names of the weights of an ONNX file, with their types; layers are one row."""
    rows = [(each.name, type_text({"dtype": each.dtype.lower(), "shape": each.shape})) for each in stored_tensors(file)]
    return grouped_rows(rows)
