"""The contents of an ONNX file, read without its weights: `onnxfn inspect FILE.onnx`."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from onnxfn.export.report.report_file import graph_facts, weights_by_dtype
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, first_line
from onnxfn.specs.results.printing import Sections, file_size, text
from onnxfn.specs.results.result_facts import type_text
from onnxfn.specs.short_repr import counted, grouped_rows
from onnxfn.weights.layouts import no_onnx_file, onnx_folder
from onnxfn.weights.onnx_files import external_data_names, graph_nodes, metadata

LONGEST_VALUE = 80
"""Characters of a value of the metadata that the table shows."""


def graph_files(path: Path) -> list[Path]:
    """The ONNX files that a path names: it, or those in the folder of an export. ModelNotFound if there is none."""
    if path.is_file():
        return [path]
    files = [*sorted(onnx_folder(path).glob("*.onnx")), *sorted(path.glob("*/model*.onnx"))] if path.is_dir() else []
    if not files:
        has_model = (path / "config.json").is_file()
        plan = f"; onnxfn export {path} OUT --dry-run shows the plan of a checkpoint" if has_model else ""
        advice = "name a file that ends in .onnx, or the folder of an export"
        raise ModelNotFound(f"{no_onnx_file(path)}; {advice}{plan}")
    return files


def graph_summary(file: Path) -> dict[str, Any]:
    """The graph, operators, weights and metadata of an ONNX file, for JSON; null for a missing file of weights."""
    try:
        facts, nodes, weights = graph_facts(file), graph_nodes(file), weights_by_dtype(file)
    except (OSError, ValueError, IndexError) as error:
        raise InvalidSpec(f"{file} is not an ONNX file: {first_line(error)}") from error
    data_files = {name: file.parent / name for name in sorted(external_data_names(file))}
    return {
        **facts,
        # An operator that is not ONNX's own has its domain.
        "operators": dict(Counter(".".join(filter(None, (each.domain, each.op_type))) for each in nodes).most_common()),
        "weights": weights,
        "bytes": file.stat().st_size,
        "external_data": {name: path.stat().st_size if path.is_file() else None for name, path in data_files.items()},
        "metadata": metadata(file),
    }


def summary_text(name: str, summary: Mapping[str, Any]) -> str:
    """A summary as a table, with the name of its file as the title; layers are one row."""
    weights = [
        (dtype, *(counted(facts[name], name) for name in ("tensors", "elements")), file_size(facts["bytes"]))
        for dtype, facts in summary["weights"].items()
    ]
    data = summary["external_data"].items()
    others = [(file, "no such file" if size is None else file_size(size)) for file, size in data]
    # Rows of at most 100 characters, in which each operator stands next to its number.
    operators = ", ".join(f"{operator}\xa0{count}" for operator, count in summary["operators"].items())
    rows = [(row.replace("\xa0", " "),) for row in wrap(operators, 100, break_on_hyphens=False)]
    kinds = ("inputs", "outputs")
    sections: Sections = [
        *((kind, grouped_rows([(port["name"], type_text(port, "?")) for port in summary[kind]])) for kind in kinds),
        ("operators", rows),
        ("weights", weights),
        ("external data", others),
        ("metadata", [_metadata_row(key, value) for key, value in summary["metadata"].items()]),
    ]
    opsets = [f"{domain or 'opset'} {version}" for domain, version in summary["opsets"].items()]
    nodes = counted(sum(summary["operators"].values()), "nodes")
    return text(name, sections, " · ".join((*opsets, nodes, file_size(summary["bytes"]))))


def _metadata_row(key: str, value: str) -> tuple[str, str]:
    """A row of the metadata; a value of several lines, or a long one, is cut."""
    line, *others = value.splitlines() or [""]
    is_whole = len(line) <= LONGEST_VALUE and not others
    return key.removeprefix("onnxfn."), line if is_whole else f"{line[:LONGEST_VALUE]}..."
