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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from answers import disagreement
from export_whole import GB, Found, graph_bytes
from figures import Required, median, published, ratio
from models import CHECKPOINTS, Checkpoint, checkpoint_folder, parameter_bytes
from options import told
from peers import ALONE, EXPORTERS, OURS, Exporter, exported, python
from processes import Process, ran

TOLD = re.compile(r"^(\w+)\b.*: ([\d.]+) s$", re.MULTILINE)
"""What the command line of onnxfn says of each stage."""

GRAPH = ("template", "capture", "passes")

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
    done = ran([str(python(OURS, cache)), "-c", RECORD, str(names), *options], ALONE)
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


def measured(
    one: Checkpoint, hows: list[Exporter], rounds: int, cache: Path
) -> tuple[list[Process], list[float], dict[str, Found]]:
    """The imports, the copies, and every exporter, in turn."""
    imports: list[Process] = []
    copies: list[float] = []
    found = {how.name: Found() for how in hows}
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        place = Path(temporary)
        names = modules(place, cache)
        for _ in range(rounds):
            imports.append(ran([str(python(OURS, cache)), "-c", IMPORT, str(names)], ALONE))
            copies.append(copied(checkpoint_folder(one, cache) / "model.safetensors", place))
            for how in [how for how in hows if found[how.name].problem is None]:
                found[how.name] = _once_more(found[how.name], how, one, place, cache)
    return imports, copies, found


def _once_more(before: Found, how: Exporter, one: Checkpoint, place: Path, cache: Path) -> Found:
    """One more run; the first one's answers are held against PyTorch's."""
    out = place / "out"
    shutil.rmtree(out, ignore_errors=True)
    done = exported(how, one, out, cache)
    print(f"{how.name}: {done.seconds:.1f} s, {done.anonymous / GB:.2f} GB", file=sys.stderr)
    wrong = None if before.runs or done.code else disagreement(one, out, cache)
    problem = f"cannot: {done.last_words}" if done.code else wrong and f"wrong: {wrong}"
    return Found((*before.runs, done), graph_bytes(out), problem)


def main() -> None:
    asked = told(__doc__.splitlines()[0], "large", "llama-1b", "onnxfn unchecked,onnxfn")
    (one,) = asked.checkpoints
    imports, copies, found = measured(one, asked.exporters, asked.runs, asked.peers)
    parameters = parameter_bytes(checkpoint_folder(one, asked.peers))
    rows = [
        {"exporter": name, "problem": here.problem}
        if here.problem
        else row(name, here.runs, imports, copies) | {"disk / parameters": here.disk / parameters}
        for name, here in found.items()
    ]
    published("large", rows, required(one.name, rows), asked.json, runs=asked.runs)


def row(name: str, runs: Sequence[Process], imports: list[Process], copies: list[float]) -> dict[str, Any]:
    above = [run.anonymous - bare.anonymous for run, bare in zip(runs, imports, strict=True)]
    ideal = [
        bare.seconds + graph_seconds(run) + COPIES * copy for run, bare, copy in zip(runs, imports, copies, strict=True)
    ]
    ours = EXPORTERS[name].peer == OURS
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
