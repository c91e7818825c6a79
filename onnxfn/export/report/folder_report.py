"""What is shown of the folder of an export: from its `report.json`, and the names of the weights in its files."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from onnxfn.export.report.report_file import REPORT_FILE, dtype_name, read_report, report_folders, report_of
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, OutputExists, write_errors
from onnxfn.specs.results.page import PAGE, Outline, pages
from onnxfn.specs.results.printing import check_status, file_size, versions_text
from onnxfn.specs.results.result_facts import ResultFacts, graph_columns, type_text, variant_columns
from onnxfn.specs.short_repr import grouped_rows
from onnxfn.weights.layouts import dtype_of_stem
from onnxfn.weights.onnx_files import stored_tensors


def write_page(folder: Path, file: Path, *, overwrite: bool) -> Path:
    """Writes the page of an export, or of the parts of a pipeline; ModelNotFound, InvalidSpec for a bad report."""
    folders = report_folders(folder) if folder.is_dir() else []
    if not folders:
        lacking = f"no {REPORT_FILE} in {folder}" if folder.exists() else f"no folder {folder}"
        raise ModelNotFound(f"{lacking}; report takes the folder of an export")
    if file.is_dir():
        raise OutputExists(f"{file} is a folder; name a file with --out")
    if file.exists() and not overwrite:
        raise OutputExists(f"{file} exists; pass --overwrite, or name another file with --out")
    with write_errors(file):
        if file.exists() and PAGE.encode() not in file.read_bytes():
            raise OutputExists(f"onnxfn did not write {file}, and would replace it; name another file with --out")
        partial = file.with_name(f".{file.name}.part")
        try:
            partial.write_text(pages([_shown(each) for each in folders]), encoding="utf-8")
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    return file


def _shown(folder: Path) -> tuple[ResultFacts, dict[str, Outline]]:
    """What is shown of a folder, and the weights of its graphs. Its report names only files inside the folder."""
    read_report(folder / REPORT_FILE)
    facts = folder_facts(json.loads((folder / REPORT_FILE).read_bytes()), folder)
    return facts, outlines(folder / path for path in facts.files)


def folder_facts(content: Mapping[str, Any], folder: Path | None = None) -> ResultFacts:
    """What a `report.json` shows. InvalidSpec for one whose fields have other types."""
    try:
        return _folder_facts(content, folder)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidSpec(f"{REPORT_FILE} cannot be shown: {error!r}; export the model again") from error


def _folder_facts(content: Mapping[str, Any], folder: Path | None) -> ResultFacts:
    report, graphs, files = report_of(content["check"]), content["graphs"], content["files"]
    sizes = {path: graph_bytes(path, content) for path in graphs}
    size = sum(each["bytes"] for each in files.values()) + ((folder / REPORT_FILE).stat().st_size if folder else 0)
    status = "unchecked" if report is None else check_status(report)
    opsets = ", ".join(sorted({f"opset {graph['opset']}" for graph in graphs.values()}))
    first = next(iter(content.get("variants", {}).values()), None)  # the parts of the first dtype
    how = " · as at the export; the files were not compared with it: run onnxfn verify" if folder else ""
    left_out = [(f"{each['name']}: {each['reason']}",) for each in content["left_out"]]
    return ResultFacts(
        " · ".join(filter(None, (content["name"], content["task"], opsets, status))),
        f"{file_size(size).partition(',')[0]} · {versions_text(content['versions'])}{how}",
        {
            path: graph_columns(_dtype(path, graph, content), sizes[path], graph.get("parameters"), graph.get("nodes"))
            | variant_columns(report, PurePosixPath(path).stem)
            for path, graph in graphs.items()
        },
        sorted({*files, REPORT_FILE} - graphs.keys()),
        {path: _ports(graph) for path, graph in graphs.items() if first is None or PurePosixPath(path).stem in first},
        [
            ("left out", left_out),
            ("remarks", [(remark,) for remark in content.get("remarks", ())]),
            ("weights", [(content["weights_from"],)] if content["weights_from"] else []),
            ("limits of sizes", [(limit,) for limit in content.get("limits", ())]),
        ],
        report=report,
        root="" if folder is None else str(folder),
        sizes=sizes,
    )


def _dtype(path: str, graph: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """The dtype that a file is for; without several, that of most of its weights."""
    return str((dtype_of_stem(PurePosixPath(path).stem) if content.get("variants") else graph["dtype"]) or "")


def _ports(graph: Mapping[str, Any]) -> Any:
    return tuple([(port["name"], type_text(port)) for port in graph[kind]] for kind in ("inputs", "outputs"))


def graph_bytes(path: str, content: Mapping[str, Any]) -> int:
    """The size of an ONNX file with its external data."""
    data = path.removesuffix(".onnx") + content["options"]["external_data_suffix"]
    return sum(each["bytes"] for file, each in content["files"].items() if file == path or file.startswith(data))


def outlines(files: Iterable[Path]) -> dict[str, Outline]:
    """From the name of each ONNX file to the names and types of its weights; layers are one row."""
    return {file.name: grouped_rows([*_weights(file)]) for file in files}


def _weights(file: Path) -> Iterator[tuple[str, str]]:
    """The names and types of the tensors of modules; others are constants of the graph."""
    for tensor in stored_tensors(file):
        if "." in tensor.name and not tensor.name.startswith("fused."):
            yield tensor.name, type_text({"dtype": dtype_name(tensor.dtype), "shape": tensor.shape})
