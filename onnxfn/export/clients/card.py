"""The card of a folder: a `README.md` for a repository on the hub, written from `report.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from onnxfn.export.jobs.request import command_line
from onnxfn.export.report.report_file import recorded
from onnxfn.specs.tasks.tasks import WITH_PAST
from onnxfn.weights.digests import sha256_of
from onnxfn.weights.layouts import dtype_of_stem

CARD = "README.md"

ONNXFN_CODE = """## onnxfn

```python
import onnxfn
model = onnxfn.load("FOLDER")
print(model.inputs, model.outputs)
```"""
"""How the folder of the card is loaded."""

MEASURES = ("agreement", "kl", "cosine", "iou", "cases")
"""What is measured of a quantized file, the most telling first."""


BAR = 40
"""The length of the bar of a measure of 1."""


def card_text(report: Mapping[str, Any]) -> str:
    """The card of a folder from its `report.json`: what it was made of, its files with their errors, and its limits."""
    from huggingface_hub import ModelCardData

    task = (report["task"] or "").removesuffix(WITH_PAST)
    rows = [_file_row(path, graph, report) for path, graph in report["graphs"].items()]
    left_out = [f"left out: {each['name']} ({each['reason']})" for each in report["left_out"]]
    limits = [*report.get("remarks", ()), *left_out]
    tags = ["onnx", "onnxfn", *([report["name"]] if report["name"] else [])]
    count = len(report["check"]["cases"])
    compared = f"were compared with PyTorch in {count} cases, at sizes that were not traced"
    # No folder is named, so that equal exports have equal cards.
    for_hub = ModelCardData(library_name="onnx", pipeline_tag=task or None, tags=tags).to_yaml()
    sections = (
        f"---\n{for_hub}\n---",
        f"# {report['name'] or 'A model'}{f' for {task}' if task else ''}, in ONNX",
        _origin(report),
        "## Files",
        "\n".join(("| file | dtype | MB | measured against PyTorch |", "| --- | --- | --- | --- |", *rows)),
        _plot(report),
        f"The files {compared if count else 'were not compared with PyTorch'}.",
        ONNXFN_CODE,
        "## Limits\n\n" + "\n".join(f"- {line}" for line in limits) if limits else "",
    )
    return "\n\n".join(filter(None, sections)) + "\n"


def write_card(report: Mapping[str, Any], staging: Path, folder: Path) -> tuple[Path, ...]:
    """Writes the card of an export to a staging folder; returns its path."""
    earlier = recorded(folder)
    facts = earlier.files.get(CARD) if earlier else None
    # A `README.md` that no earlier export wrote, or that was changed since, stays.
    if (folder / CARD).exists() and (facts is None or sha256_of(folder / CARD) != facts.sha256):
        return ()
    (staging / CARD).write_text(card_text(report), encoding="utf-8")
    return (staging / CARD,)


def _origin(report: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{package} {version}" for package, version in report["versions"].items() if version)
    model = f"a PyTorch model of the type `{report['name']}`" if report["name"] else "a PyTorch model"
    source = f" Its weights come from {report['weights_from']}." if report["weights_from"] else ""
    opsets = sorted({str(graph["opset"]) for graph in report["graphs"].values()})
    written = f"ONNX files of {model}, opset {', '.join(opsets)}.{source} Written with {versions}."
    if report.get("request") is None:
        return written
    return f"{written}\n\nThis command writes such a folder:\n\n```sh\n{command_line(report['request'])}\n```"


def _file_row(path: str, graph: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    stem = PurePosixPath(path).stem
    dtype = dtype_of_stem(stem) if report.get("variants") else graph["dtype"]
    return f"| `{path}` | {dtype or ''} | {_megabytes(path, report):.1f} | {_measured(stem, report['check'])} |"


def _megabytes(path: str, report: Mapping[str, Any]) -> float:
    """The size of an ONNX file with its external data."""
    data = path.removesuffix(".onnx") + report["options"]["external_data_suffix"]
    sizes = (facts["bytes"] for file, facts in report["files"].items() if file == path or file.startswith(data))
    return float(sum(sizes)) / 1e6


def _plot(report: Mapping[str, Any]) -> str:
    """A bar for each file with measurements, the largest file first; nothing of fewer than two."""
    paths = sorted(report["graphs"], key=lambda path: -_megabytes(path, report))
    figures = {path: _figures(PurePosixPath(path).stem, report["check"]) for path in paths}
    points = [(path, next(iter(each.items()))) for path, each in figures.items() if each]
    bars = ["#" * round(BAR * min(max(value, 0), 1)) for _, (_, value) in points]
    lines = [
        f"{_megabytes(path, report):9.1f} MB  {bar:{BAR}}  {name} {value:.3g} {path}"
        for bar, (path, (name, value)) in zip(bars, points, strict=True)
    ]
    return "\n".join(("```", *lines, "```")) if len(lines) > 1 else ""


def _figures(part: str, check: Mapping[str, Any]) -> dict[str, float]:
    """From the measures of the first measured output of a file to their values, the most telling first."""
    measured = [each for each in check["measurements"] if each["part"] == part and each["value"] is not None]
    first = {each["measure"]: each["value"] for each in measured if each["output"] == measured[0]["output"]}
    return {name: first[name] for name in MEASURES if name in first}


def _measured(part: str, check: Mapping[str, Any]) -> str:
    """What the check found of a file: measures of its first output, else its largest difference."""
    words = [f"{name} {value:.3g}" for name, value in _figures(part, check).items()]
    differences = [each["max_abs"] for each in check["outputs"] if each["part"] == part]
    if not words and differences:
        words = [f"largest difference {max(differences):.1e}"]
    return ", ".join(words) or "not checked"
