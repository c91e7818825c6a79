"""What does the export of 1.1 billion parameters need beyond its imports and the copying of its weights?

    python benchmarks/large.py [--runs 3] [--exporters "onnxfn unchecked,onnxfn,..."]

In each round a process imports what an export imports and does nothing else, the weights are copied once, and all
exporters take their turn. Anonymous memory is counted above that of the imports; the time of an export is set against
imports + graph + 1.5 times the copying. What the first round writes must answer as PyTorch does.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from answers import disagreement
from export_whole import GB, graph_bytes
from figures import Required, median, published, ratio
from models import CHECKPOINTS, checkpoint_folder, parameter_bytes
from options import told
from peers import EXPORTERS, environment, exported, python
from processes import Process, ran

TOLD = re.compile(r"^(\w+)\b.*: ([\d.]+) s$", re.MULTILINE)
"""What the command line of onnxfn says of each stage."""

GRAPH = ("capture", "passes")

RECORD = """
import atexit, runpy, sys
place = sys.argv.pop(1)
atexit.register(lambda: open(place, "w").write("\\n".join(sys.modules)))
runpy.run_module("onnxfn", run_name="__main__", alter_sys=True)
"""
IMPORT = """
import importlib, sys
for name in open(sys.argv[1]).read().split():
    try:
        importlib.import_module(name)
    except Exception:
        pass
"""
MEMORY, COPIES = 1.2 * GB, 1.5


def modules(place: Path, cache: Path) -> Path:
    """A file with the names of all that an export of a tiny model of the same type imports."""
    tiny, names = CHECKPOINTS["llama-tiny"], place / "modules.txt"
    how = EXPORTERS["onnxfn unchecked"]
    options = how.command(tiny, checkpoint_folder(tiny, cache), place / "tiny", place)[2:]
    done = ran([str(python(None)), "-c", RECORD, str(names), *options], environment(None))
    assert done.code == 0, done.said
    return names


def copied(file: Path, place: Path) -> float:
    """Seconds that the copying of a file takes."""
    start = time.perf_counter()
    shutil.copyfile(file, place / "copy")
    spent = time.perf_counter() - start
    (place / "copy").unlink()
    return spent


def graph_seconds(done: Process) -> float:
    return sum(float(seconds) for stage, seconds in TOLD.findall(done.said) if stage in GRAPH)


def main() -> None:
    asked = told(__doc__.splitlines()[0], "large", "llama-1b", "onnxfn unchecked,onnxfn")
    (one,) = asked.checkpoints
    folder = checkpoint_folder(one, asked.peers)
    imports: list[Process] = []
    copies: list[float] = []
    runs: dict[str, list[Process]] = {how.name: [] for how in asked.exporters}
    problems: dict[str, str] = {}
    disk: dict[str, int] = {}
    with tempfile.TemporaryDirectory(dir=asked.peers) as temporary:
        place = Path(temporary)
        names = modules(place, asked.peers)
        for turn in range(asked.runs):
            imports.append(ran([str(python(None)), "-c", IMPORT, str(names)], environment(None)))
            copies.append(copied(folder / "model.safetensors", place))
            for how in [how for how in asked.exporters if how.name not in problems]:
                shutil.rmtree(place / "out", ignore_errors=True)
                done = exported(how, one, place / "out", asked.peers)
                print(f"{how.name}: {done.seconds:.1f} s, {done.anonymous / GB:.2f} GB", file=sys.stderr)
                wrong = disagreement(one, place / "out", asked.peers) if turn == 0 and done.code == 0 else None
                if done.code or wrong:
                    problems[how.name] = f"cannot: {done.last_words}" if done.code else f"wrong: {wrong}"
                runs[how.name].append(done)
                disk[how.name] = graph_bytes(place / "out")
    rows = [
        {"exporter": name, "problem": problems[name]}
        if name in problems
        else row(name, done, imports, copies) | {"disk / parameters": disk[name] / parameter_bytes(folder)}
        for name, done in runs.items()
    ]
    published("large", rows, required(one.name, rows), asked.json, runs=asked.runs)


def row(name: str, runs: list[Process], imports: list[Process], copies: list[float]) -> dict[str, Any]:
    above = [run.anonymous - bare.anonymous for run, bare in zip(runs, imports, strict=True)]
    ideal = [
        bare.seconds + graph_seconds(run) + COPIES * copy for run, bare, copy in zip(runs, imports, copies, strict=True)
    ]
    ours = EXPORTERS[name].peer is None
    return {
        "exporter": name,
        "seconds": median([run.seconds for run in runs]),
        "imports s": median([bare.seconds for bare in imports]),
        "graph s": median([graph_seconds(run) for run in runs]) if ours else None,
        "copying s": median(copies),
        "work s": median([run.work for run in runs]),
        "last stages": ", ".join(f"{stage} {seconds}" for stage, seconds in TOLD.findall(runs[-1].said))
        if ours
        else None,
        f"seconds / (imports + graph + {COPIES} copying)": ratio([run.seconds for run in runs], ideal)
        if ours
        else None,
        "anonymous GB": median([run.anonymous / GB for run in runs]),
        "above imports GB": median([bytes_ / GB for bytes_ in above]) if ours else None,
        "resident GB": median([run.resident / GB for run in runs]),
    }


def required(model: str, rows: list[dict[str, Any]]) -> list[Required]:
    ours = next((one for one in rows if one["exporter"] == "onnxfn unchecked"), {})
    limits = {"above imports GB": MEMORY / GB, f"seconds / (imports + graph + {COPIES} copying)": 1.0}
    return [Required(f"{model}, unchecked: {name}", ours.get(name), limit) for name, limit in limits.items()]


if __name__ == "__main__":
    main()
