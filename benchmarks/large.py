"""Time and memory of the export of 1.1 billion parameters, stored in bfloat16, to float32, float16 and 4 bits.

    python benchmarks/large.py [--runs 3] [--exporters "onnxfn unchecked,onnxfn,..."] [--eight-billion]
    python benchmarks/large.py --models qwen2-vl-1.4b-bf16 --exporters "onnxfn float16,onnxfn float16 unchecked"

The second line is a model of the same layers with 0.35 billion parameters more, of a tower that reads images: its files
are written one after the other, and checked one after the other and as a whole.

In each round a process imports what an export imports and does nothing else, and every exporter runs once. Anonymous
memory of an export is counted above that of the imports. Its time is compared with imports + graph + 1.5 times the
copying: the checkpoint is read, and as many bytes are written as the export has. Files in float32 must agree with
PyTorch in the first round; those of fewer bits are compared by the export itself, where it has a check.

`--eight-billion` also exports 8 billion parameters (16 GB) to float16, also with the check by sections, and to 4 bits,
once. It needs 38 GB of free disk,
else the parameters are zeros, which take no disk; below 20 GB it is refused. See large_checkpoints.py. The figures of
exporters that are not run stay in the file of results.

    python benchmarks/large.py --linked llama-21b-bf16,llama-21b-f16,llama-70b-bf16

exports checkpoints whose weights are larger than the memory of the machine, with linked weights, and writes
larger.json. They are sparse files, so what is measured is reading at the speed of memory. Each weight of the graph must
lie where the checkpoint has the tensor of its name, and safetensors must read the same numbers there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from export_whole import GB, graph_bytes, problem_of
from figures import RESULTS, Required, median, print_and_save, ratio
from large_checkpoints import LINKED, MARK_BYTES, eight_billion, write_linked
from models import CHECKPOINTS, Checkpoint, checkpoint_folder, parameter_bytes
from options import parsed_options
from peers import EXPORTERS, NO_PYTHONPATH, OURS, Exporter, interpreter, peer_versions, run_exporter
from processes import Process, run_process

from onnxfn.weights.checkpoint_links import entries, names_match

STAGE = re.compile(r"^(\w+)\b.*  ([\d.]+) s\b", re.MULTILINE)
"""A line of onnxfn's command line: a stage and its seconds."""

GRAPH_STAGES = ("template", "capture", "passes")

RECORD_MODULES = """
import atexit, runpy, sys
file = sys.argv.pop(1)
atexit.register(lambda: open(file, "w").write("\\n".join(sys.modules)))
runpy.run_module("onnxfn", run_name="__main__", alter_sys=True)
"""
IMPORT_MODULES = """
import importlib, sys
for name in open(sys.argv[1]).read().split():
    try:
        importlib.import_module(name)
    except Exception:
        pass
"""
COPIES = 1.5
CHECKED_GB, UNCHECKED_GB, EIGHT_BILLION_GB, BY_SECTIONS_GB = 1.2, 0.5, 1.5, 2.6
"""GB of anonymous memory above the imports that an export may take; with them, one by sections may take 3 GB."""

OWN = "onnxfn,onnxfn unchecked,onnxfn float16,onnxfn float16 unchecked,onnxfn q4,onnxfn q4 unchecked"
PEERS = "genai builder float16,genai builder int4,mobius float16"
EIGHT_BILLION = ("onnxfn float16 unchecked", "onnxfn q4 unchecked", "onnxfn float16 by sections")
"""The exporters whose figures are shown."""

TINY_MODELS = {"qwen2-vl-1.4b-bf16": "qwen2-vl-tiny"}
"""From a checkpoint to the tiny one of the same type, where that is no Llama."""

DERIVED = frozenset(TINY_MODELS)
"""Checkpoints whose spec is derived by running the model: that takes time which is not in the allowed time."""

CALIBRATED, CALIBRATED_SECONDS = "onnxfn q4c unchecked", 1200.0
"""The export whose codes are chosen while PyTorch reads a text, and the seconds that it may take."""

BUFFER = 1 << 24
MB = 1e6
LINKED_GB, WRITTEN_MB = 1.5, 20.0
"""GB of anonymous memory, imports included, and MB of new files, that an export with linked weights may take."""


@frozen
class Row:
    """The runs of an exporter on a checkpoint, each with the imports and the seconds of copying in its round."""

    checkpoint: Checkpoint
    exporter: Exporter
    runs: tuple[Process, ...] = ()
    imports: tuple[Process, ...] = ()
    copies: tuple[float, ...] = ()
    disk: int = 0
    problem: str | None = None


def module_list(checkpoint: Checkpoint, folder: Path, cache: Path) -> Path:
    """Writes the names of all modules that the export of a tiny model of the same type imports; returns the file."""
    tiny, names = CHECKPOINTS[TINY_MODELS.get(checkpoint.name, "llama-tiny")], folder / "modules.txt"
    exporter = EXPORTERS["onnxfn unchecked"]
    arguments = exporter.command(tiny, checkpoint_folder(tiny, cache), folder / "tiny", folder)[2:]
    process = run_process([str(interpreter(OURS, cache)), "-c", RECORD_MODULES, str(names), *arguments], NO_PYTHONPATH)
    assert process.code == 0, process.output
    return names


def copying_seconds(checkpoint: Path, folder: Path, written: int) -> float:
    """The seconds that it takes to read the weights of a checkpoint and to write a file of so many bytes."""
    buffer = bytearray(BUFFER)
    start = time.perf_counter()
    for file in checkpoint.glob("*.safetensors"):
        with file.open("rb", buffering=0) as stream:
            while stream.readinto(buffer):
                pass
    with (folder / "copy").open("wb", buffering=0) as stream:
        for position in range(0, written, BUFFER):
            stream.write(buffer[: written - position])
    seconds = time.perf_counter() - start
    (folder / "copy").unlink()
    return seconds


def graph_seconds(run: Process) -> float:
    """The seconds in which onnxfn built the graph, from its output."""
    return sum(float(seconds) for stage, seconds in STAGE.findall(run.output) if stage in GRAPH_STAGES)


def measure(checkpoint: Checkpoint, exporters: Sequence[Exporter], rounds: int, cache: Path) -> list[Row]:
    """Runs the imports and every exporter, round by round."""
    rows = [Row(checkpoint, exporter) for exporter in exporters]
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        folder = Path(temporary)
        names = module_list(checkpoint, folder, cache)
        for _ in range(rounds):
            command = [str(interpreter(OURS, cache)), "-c", IMPORT_MODULES, str(names)]
            imports = run_process(command, NO_PYTHONPATH)
            rows = [row if row.problem else _with_run(row, imports, folder, cache) for row in rows]
    return rows


def _with_run(row: Row, imports: Process, folder: Path, cache: Path) -> Row:
    """The row with one more run. Files in float32 of the first run are compared with PyTorch."""
    out = folder / "out"
    run = run_exporter(row.exporter, row.checkpoint, out, cache)
    is_compared = not row.runs and row.exporter.dtype == "float32"
    problem = problem_of(run, row.checkpoint, out, cache, compare=is_compared)
    disk = graph_bytes(out)
    shutil.rmtree(out, ignore_errors=True)
    print(f"{row.exporter.name}: {run.seconds:.1f} s, {run.anonymous / GB:.2f} GB {problem or ''}", file=sys.stderr)
    copying = 0.0 if problem else copying_seconds(checkpoint_folder(row.checkpoint, cache), folder, disk)
    return evolve(
        row,
        runs=(*row.runs, run),
        imports=(*row.imports, imports),
        copies=(*row.copies, copying),
        disk=disk,
        problem=problem,
    )


def figures(row: Row, parameters: int) -> dict[str, Any]:
    """The figures of a row. Some are known for onnxfn alone: only it prints its stages."""
    names = {"model": row.checkpoint.name, "exporter": row.exporter.name}
    if row.problem:
        return names | {"problem": row.problem}
    above = [run.anonymous - imported.anonymous for run, imported in zip(row.runs, row.imports, strict=True)]
    return {
        **names,
        "seconds": median([run.seconds for run in row.runs]),
        "imports s": median([imported.seconds for imported in row.imports]),
        "copying s": median(row.copies),
        "work s": median([run.cpu_seconds for run in row.runs]),
        "anonymous GB": median([run.anonymous / GB for run in row.runs]),
        "above imports GB": median([bytes_ / GB for bytes_ in above]),
        "resident GB": median([run.resident / GB for run in row.runs]),
        "GB on disk": row.disk / GB,
        "disk / float32": row.disk / parameters,
        **(_own_figures(row) if row.exporter.environment == OURS else {}),
    }


def _own_figures(row: Row) -> dict[str, Any]:
    """The figures that only onnxfn has. There is no allowed time for a check or a calibration, which is no copying."""
    graphs = [graph_seconds(run) for run in row.runs]
    last = {"graph s": median(graphs), "last stages": " ".join(map(" ".join, STAGE.findall(row.runs[-1].output)))}
    if not row.exporter.name.endswith("unchecked") or row.exporter.name == CALIBRATED:
        return last
    rounds = zip(row.imports, graphs, row.copies, strict=True)
    allowed = [imported.seconds + graph + COPIES * copy for imported, graph, copy in rounds]
    return last | {
        "allowed s": median(allowed),
        "seconds / allowed": ratio([run.seconds for run in row.runs], allowed),
    }


def required(rows: Sequence[dict[str, Any]]) -> list[Required]:
    """The requirements on the memory of onnxfn's exports, and on the time of those without a check."""
    ours = [row for row in rows if EXPORTERS[row["exporter"]].environment == OURS]
    memory = [Required(f"{_name(row)}: GB above imports", row.get("above imports GB"), _limit(row)) for row in ours]
    times = [
        Required(f"{_name(row)}: seconds / allowed", row["seconds / allowed"], 1.0)
        for row in ours
        if "seconds / allowed" in row and row["model"] in CHECKPOINTS.keys() - DERIVED
    ]
    seconds = [row.get("seconds") for row in ours if row["exporter"] == CALIBRATED]
    return [*memory, *times, *(Required(f"{CALIBRATED}: seconds", each, CALIBRATED_SECONDS) for each in seconds)]


def _name(row: dict[str, Any]) -> str:
    return f"{row['model']}, {row['exporter']}"


def _place(row: dict[str, Any]) -> tuple[int, int]:
    """Where a row is in the table: by model, 8 billion parameters last, then in the order of the exporters."""
    models = [*CHECKPOINTS]
    place = models.index(row["model"]) if row["model"] in models else len(models)
    return place, [*EXPORTERS].index(row["exporter"])


def _limit(row: dict[str, Any]) -> float:
    """The GB above the imports that the export of a row may take."""
    if row["exporter"].endswith("by sections"):
        return BY_SECTIONS_GB
    if row["model"] not in CHECKPOINTS:
        return EIGHT_BILLION_GB
    is_copied = row["exporter"].endswith("unchecked") and row["exporter"] != CALIBRATED
    return UNCHECKED_GB if is_copied else CHECKED_GB


def rows_of_eight_billion(cache: Path) -> list[dict[str, Any]]:
    """The figures of the export of 8 billion parameters. The checkpoint is deleted afterwards."""
    checkpoint = eight_billion(cache)
    folder = checkpoint_folder(checkpoint, cache)
    try:
        rows = measure(checkpoint, [EXPORTERS[name] for name in EIGHT_BILLION], 1, cache)
        return [figures(row, parameter_bytes(folder)) for row in rows]
    finally:
        shutil.rmtree(folder)


def rows_of_before(file: Path, measured: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows in a file of results that were not measured again. Those of 8 billion parameters belong together."""
    rows: list[dict[str, Any]] = json.loads(file.read_text())["rows"] if file.is_file() else []
    names, known = {_name(row) for row in measured}, {row["model"] in CHECKPOINTS for row in measured}
    return [row for row in rows if _name(row) not in names and (row["model"] in CHECKPOINTS or known == {True})]


# Linked weights


def rows_of_linked(names: Sequence[str], cache: Path) -> list[dict[str, Any]]:
    """The figures of checkpoints whose weights are linked. They are deleted afterwards."""
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            rows.append(linked_row(name, Path(folder)))
        print(rows[-1], file=sys.stderr)
    return rows


def linked_row(name: str, folder: Path) -> dict[str, Any]:
    """The row of a checkpoint. SystemExit if its export fails, or has a weight at a wrong place."""
    checkpoint, out = folder / "checkpoint", folder / "out"
    checkpoint.mkdir()
    write_linked(name, checkpoint)
    words = ["export", str(checkpoint), str(out), "--dtype", LINKED[name][0], "--weights", "link", "--verbose"]
    task = ["--task", "text-generation-with-past", "--no-template-cache", "--no-check"]
    process = run_process([sys.executable, "-m", "onnxfn", *words, *task])
    if process.code:
        raise SystemExit(f"{name}: {process.error_line}")
    check_links(checkpoint, out / "onnx")
    stages = [(stage, float(seconds)) for stage, seconds in STAGE.findall(process.output)]
    new = [file for file in out.rglob("*") if file.is_file() and file.stat().st_nlink == 1]
    return {
        "model": name,
        "weights GB": sum(entry.length for entry in entries(checkpoint)) / GB,
        "machine GB": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB,
        "seconds": process.seconds,
        "graph s": sum(seconds for stage, seconds in stages if stage in GRAPH_STAGES),
        "links s": sum(seconds for stage, seconds in stages if stage == "write"),
        "digests s": sum(seconds for stage, seconds in stages if stage == "complete"),
        "anonymous GB": process.anonymous / GB,
        "written MB": sum(file.stat().st_size for file in new) / MB,
    }


def check_links(checkpoint: Path, graphs: Path) -> None:
    """SystemExit if a weight of the graph is not linked to the tensor of the checkpoint that has its name."""
    import onnx
    import torch
    from safetensors import safe_open

    stored = {(entry.file.name, entry.offset, entry.length): entry for entry in entries(checkpoint)}
    (file,) = graphs.glob("*.onnx")
    tensors = onnx.load(file, load_external_data=False).graph.initializer
    places = {tensor.name: {item.key: item.value for item in tensor.external_data} for tensor in tensors}
    linked = {
        name: stored.get((place["location"], int(place["offset"]), int(place["length"])))
        for name, place in places.items()
        if place.get("location", "").endswith(".safetensors")
    }
    wrong = [name for name, entry in linked.items() if entry is None or not names_match(entry.name, name)]
    unused = {entry.name for entry in stored.values()} - {entry.name for entry in linked.values() if entry}
    if wrong or unused:
        raise SystemExit(f"weights at wrong places: {wrong[:3]}; tensors that no weight is linked to: {[*unused][:3]}")
    for entry in filter(None, linked.values()):
        if not (graphs / entry.file.name).samefile(entry.file):
            raise SystemExit(f"{graphs / entry.file.name} is no link to {entry.file}")
        with entry.file.open("rb") as stream, safe_open(entry.file, "pt") as read:
            stream.seek(entry.offset)
            first = read.get_slice(entry.name)[:1].contiguous().flatten()[: MARK_BYTES // 2]
            if stream.read(first.nbytes) != first.view(dtype=torch.int16).numpy().tobytes():
                raise SystemExit(f"{entry.name} has other bytes in the export than in the checkpoint")


def required_of_linked(rows: Sequence[dict[str, Any]]) -> list[Required]:
    """The requirements on the memory and on the new files of exports with linked weights."""
    limits = (("GB of memory", "anonymous GB", LINKED_GB), ("MB written", "written MB", WRITTEN_MB))
    return [Required(f"{row['model']}, linked: {what}", row[key], limit) for row in rows for what, key, limit in limits]


def main() -> None:
    options = parsed_options(
        __doc__.splitlines()[0],
        "large",
        "llama-1b-bf16",
        f"{OWN},{PEERS}",
        flags={"eight-billion": "Also 8 billion."},
        linked=str,
    )
    if options.linked:
        linked = rows_of_linked(options.linked.split(","), options.cache)
        print_and_save("larger", linked, required_of_linked(linked), RESULTS / "larger.json", runs=1)
        return
    (checkpoint,) = options.checkpoints
    rows = measure(checkpoint, options.exporters, options.runs, options.cache)
    parameters = parameter_bytes(checkpoint_folder(checkpoint, options.cache))
    shown = [figures(row, parameters) for row in rows]
    shown += rows_of_eight_billion(options.cache) if options.eight_billion else []
    shown = sorted([*rows_of_before(options.json, shown), *shown], key=_place)
    peers = peer_versions(EXPORTERS[row["exporter"]] for row in shown)
    print_and_save("large", shown, required(shown), options.json, runs=options.runs, peers=peers)


if __name__ == "__main__":
    main()
