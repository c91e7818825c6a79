"""The last results in words: benchmarks/README.md, the figures in README.md, and the rows of every benchmark.

python benchmarks/readme.py             # writes both
python benchmarks/readme.py --rows      # prints the rows
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from figures import RESULTS, shown, table

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
MARKS = ("<!-- figures: written by benchmarks/readme.py -->", "<!-- end of figures -->")
"""The lines of README.md between which the figures stand."""

KEY_FIGURES: Mapping[str, str] = {
    "llama: time of onnxfn / transformers.exporters": "export of a small Llama, time: onnxfn / transformers.exporters",
    "smollm2: time of onnxfn / optimum": "export of SmolLM2-135M with its check, time: onnxfn / Optimum",
    "time of the graph at 64 layers / at 8": "building the graph, time: 64 layers / 8 layers",
    "smollm2: token of onnxfn / optimum": "a token of SmolLM2-135M, time: onnxfn / Optimum",
    "llama-1b-bf16, onnxfn float16 unchecked: GB above imports": (
        "1.1 billion parameters to float16, unchecked: GB above imports"
    ),
}
"""Five requirements, and what README.md calls them."""

WHOLE = "models of real sizes, whole: median of time / Optimum's"
"""The end of the requirement on whole processes; the number of the models stands before it."""

MISSED: Mapping[str, str] = {"holds": "", "does not hold": ", which does not hold", "not measured": ""}
"""What README.md adds to a limit, by the verdict."""

WORST = 8
"""How many models README.md names whose whole process is slowest beside Optimum's."""


def unchanged(*names: str) -> dict[str, str]:
    """Columns that keep their names."""
    return {name: name for name in names}


PAIR_COLUMNS = ("onnxfn", "transformers.exporters, traced sizes", "transformers.exporters, other sizes")

TABLES: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    (
        "export_tiny",
        "Two layers, in a warm process. onnxfn's time includes writing and the check, the peer's is that of the graph.",
        unchanged("model", "onnxfn s", "transformers.exporters s", "ratio"),
    ),
    (
        "export_whole",
        "A checkpoint, as a whole process. onnxfn and Optimum check their exports, the others do not.",
        {
            **unchanged("model", "exporter"),
            "seconds": "s",
            **unchanged("onnxfn / it", "unchecked / it", "anonymous GB", "disk / parameters"),
            "problem": "instead",
        },
    ),
    (
        "time_line",
        "A first export of MiniLM with its check: where the seconds of the process go. Stages contain imports.",
        unchanged("lane", "seconds", "share"),
    ),
    (
        "export_real",
        "Models of real sizes: warm exports, then processes of the command lines. Both exporters check their files.",
        {
            **unchanged("model", "kind", "onnxfn s", "optimum s", "ratio"),
            "others": "cores of others",
            **unchanged("whole onnxfn s", "whole optimum s", "whole ratio"),
            "problem": "instead",
        },
    ),
    (
        "export_timm",
        "A model of each module of timm, warm. onnxfn checks its files; torch.onnx.export moves the batch alone.",
        {
            **unchanged("model", "onnxfn s", "torch s", "ratio"),
            "onnxfn axes": "axes that onnxfn moves",
            "others": "cores of others",
            "problem": "instead",
        },
    ),
    (
        "export_modules",
        "Modules of other libraries, from a sample, warm. Files are run at far sizes; onnxfn's may refuse some.",
        {
            **unchanged("model", "onnxfn s", "torch s"),
            **{f"{name} {kind}": f"{name}: {kind}" for name in ("onnxfn", "torch") for kind in ("right", "wrong")},
            "onnxfn refused": "onnxfn: refused",
            "onnxfn problem": "onnxfn instead",
        },
    ),
    (
        "export_pipelines",
        "Pipelines of diffusers with tiny modules: their parts, and the result on the files beside PyTorch's.",
        {
            **unchanged("model", "parts", "runs", "s", "difference"),
            "problem": "instead",
            "not run": "without",
        },
    ),
    (
        "growth",
        "A tiny Llama with past, of many layers or wide, in a warm process.",
        unchanged("layers", "width", "graph s", "whole s", "transformers.exporters s", "whole / peer"),
    ),
    (
        "decode",
        "A decoder's graph in ONNX Runtime, float32.",
        {
            **unchanged("model", "graph of", "load s", "prompt of 128 ms", "token ms", "token: onnxfn / it"),
            "problem": "instead",
        },
    ),
    (
        "large",
        "From bfloat16. Memory is above onnxfn's imports. Allowed: imports + graph + 1.5 times reading and writing.",
        unchanged("model", "exporter", "above imports GB", "seconds", "allowed s", "imports s", "graph s", "copying s")
        | unchanged("GB on disk", "problem"),
    ),
    (
        "many",
        "Unchecked fine-tunes on two workers, also with one killed. Allowed: 1.5 x copying + graph + 0.3 s a job.",
        unchanged("model", "run by", "jobs", "started again", "seconds", "allowed s", "graphs s", "copying s")
        | unchanged("seconds a job", "second run s"),
    ),
    (
        "larger",
        "Weights larger than memory, sparse, linked and not copied: `python benchmarks/large.py --linked`.",
        unchanged("model", "weights GB", "machine GB", "seconds", "graph s", "links s", "digests s")
        | unchanged("anonymous GB", "written MB"),
    ),
    (
        "pairs",
        "Random pairs of a model type and a task: which exporter is right at the traced sizes, and at others.",
        {"model": "model", "task": "task", **dict(zip(("onnxfn", "traced", "others"), PAIR_COLUMNS, strict=True))},
    ),
    (
        "quantized",
        "Decoders against PyTorch in float32, 500 tokens of text. Blocks of 32; level 4: activations of 8 bits.",
        {
            **unchanged("model", "file", "matrices", "output layer", "embedding", "agreement", "KL", "MB"),
            **unchanged("MB / float16", "token ms", "prompt of 128 ms", "GB resident"),
            "problem": "instead",
        },
    ),
    (
        "static",
        "Trained vision models in QDQ form: the class that PyTorch gives to 500 pictures that no calibration reads.",
        unchanged("model", "file", "agreement", "MB", "MB / float32", "kernels of integers", "left in floats")
        | unchanged("qdq_loss_debug"),
    ),
)
"""A row per benchmark: its name, what it measures, and which columns of its result are shown under which names."""

BENCHMARKS_README = """\
# Benchmarks

Written by `python benchmarks/readme.py` from `results/*.json`. `python benchmarks/readme.py --rows` prints all rows.

Each file answers one question. The ONNX files of an exporter must agree with PyTorch, else it has no figures.
All exporters run in every round, on one machine. "onnxfn / it" is the median, over the rounds, of onnxfn's
figure divided by that of the exporter in the row. onnxfn and its peers run in virtual environments of their own, which
the scripts create. "cannot": the exporter ends with an error. "wrong": its files differ from PyTorch or do not run.

{benchmarks}

## The time line of a first export

![Imports of packages, and stages of the export, on one axis of seconds](time_line.svg)

## Requirements

{required}
"""


def read_results(results: Path = RESULTS) -> dict[str, Any]:
    """The last results, by benchmark."""
    return {name: json.loads((results / f"{name}.json").read_text()) for name, _, _ in TABLES}


def requirements(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The requirements of all benchmarks, in the order of the tables."""
    return [requirement for name, _, _ in TABLES for requirement in results[name]["required"]]


def benchmarks_readme(results: Mapping[str, Any]) -> str:
    """The text of benchmarks/README.md: what each benchmark measures, and whether each requirement holds."""
    rows = [
        {"benchmark": f"`{name}`", "what it measures": what, "of": measured_on(results[name])}
        for name, what, _ in TABLES
    ]
    return BENCHMARKS_README.format(benchmarks=table(rows), required=requirement_table(requirements(results)))


def measured_on(result: Mapping[str, Any]) -> str:
    """How often, on how many cores and with which versions a benchmark was run."""
    often = f"medians of {result['runs']}" if result["runs"] > 1 else "one run, not figures to quote"
    versions = ", ".join(f"{package} {number}" for package, number in result["versions"].items())
    return f"{often}, {result['cores']} cores, {versions}"


def section(result: Mapping[str, Any], columns: Mapping[str, str]) -> str:
    """The heading of a benchmark and its rows; a problem is cut to its first word."""
    rows = [
        {title: row.get(column) for column, title in columns.items() if column != "problem"}
        | ({columns["problem"]: row["problem"].partition(":")[0]} if row.get("problem") else {})
        for row in result["rows"]
    ]
    return f"## {result['benchmark']}\n\n{table(rows)}\n"


def requirement_table(required: Sequence[Mapping[str, Any]]) -> str:
    """A row per requirement: the figure, its limit, and whether it holds."""
    return table(
        [
            {
                "what": requirement["what"],
                "measured": shown(requirement["measured"]),
                "at most": str(requirement["at most"]),
                "": requirement["verdict"],
            }
            for requirement in required
        ]
    )


def key_figures(results: Mapping[str, Any]) -> str:
    """The text between the marks of README.md: the figures, what is required of each, and the worst whole processes."""
    known = {requirement["what"]: requirement for requirement in requirements(results)}
    whole = next(what for what in known if what.endswith(WHOLE))
    named = {
        **KEY_FIGURES,
        whole: f"{whole.removesuffix(WHOLE)}command lines with their check, median: onnxfn / Optimum",
    }
    rows = []
    for what, title in named.items():
        most = f"{known[what]['at most']}{MISSED[known[what]['verdict']]}"
        rows.append({"figure": title, "measured": shown(known[what]["measured"]), "at most": most})
    every = [row for row in results["export_real"]["rows"] if row.get("whole ratio")]
    worst = sorted(every, key=lambda row: -row["whole ratio"])[:WORST]
    slowest = ", ".join(f"{row['model']} {shown(row['whole ratio'])}" for row in worst)
    link = "[All figures, and what is required of them](benchmarks/README.md)."
    return f"{table(rows)}\n\nSlowest beside Optimum of these command lines: {slowest}.\n{link}"


def main() -> None:
    results = read_results()
    if sys.argv[1:] == ["--rows"]:
        print("\n".join(section(results[name], columns) for name, _, columns in TABLES))
        return
    (HERE / "README.md").write_text(benchmarks_readme(results))
    text = f"{MARKS[0]}\n\n{key_figures(results)}\n\n{MARKS[1]}"
    README.write_text(re.sub(f"(?s){MARKS[0]}.*{MARKS[1]}", lambda _: text, README.read_text()))


if __name__ == "__main__":
    main()
