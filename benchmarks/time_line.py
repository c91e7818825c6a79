"""Where the seconds of a first export go: a time line of one process, as a picture and as figures.

    python benchmarks/time_line.py [--models minilm] [--json FILE]

The process exports a checkpoint and checks the files. `-X importtime` reports each import as it ends, onnxfn reports
each stage, and this program notes when a report comes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from answers import difference
from attrs import frozen
from figures import print_and_save
from models import Checkpoint, checkpoint_folder
from options import parsed_options
from processes import OFFLINE

PICTURE = Path(__file__).parent / "time_line.svg"
IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")
STAGE = re.compile(r"stage: (\S+) (start|end|failure)")

PROGRAM = """
import sys
from onnxfn.__main__ import main
from onnxfn.export.cli import export_command

def stage(event):
    if event.status != "progress":
        print("stage:", event.stage, event.status, file=sys.stderr, flush=True)

export_command.stages = lambda transient: stage
main()
"""
"""The command line of onnxfn, whose progress is lines of stderr."""

LANES: Mapping[str, Sequence[str]] = {
    "torch": ("torch", "torchgen", "numpy"),
    "torch: export": (
        "torch._dynamo",
        "torch._inductor",
        "torch._functorch",
        "torch.export",
        "torch._export",
        "torch.fx",
    ),
    "torch: distributed": ("torch.distributed",),
    "sympy": ("sympy", "mpmath"),
    "scipy": ("scipy",),
    "transformers": ("transformers", "accelerate", "huggingface_hub", "tokenizers"),
    "onnx": ("onnx", "onnx_ir", "onnxscript", "onnxruntime", "torch.onnx"),
    "onnxfn": ("onnxfn",),
}
"""The packages of each lane of imports. The longest name that fits decides; packages of no lane are in `others`."""

WIDTH, ROW, LEFT = 900, 24, 150
"""The sizes of the picture in pixels: its width, the height of a lane, and where the time line begins."""

TICKS = 12
"""About how many seconds are written under the picture."""


@frozen
class Bar:
    """A part of the time line: the lane, and its first and last second."""

    lane: str
    start: float
    end: float


def reports(checkpoint: Checkpoint, out: Path, cache: Path) -> list[tuple[float, str]]:
    """The lines that the process reports, each with the second at which it came."""
    command = [sys.executable, "-X", "importtime", "-c", PROGRAM, "export", str(checkpoint_folder(checkpoint, cache))]
    command += [str(out), "--task", checkpoint.task, "--layout", "optimum", "--no-template-cache"]
    start = time.monotonic()
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=os.environ | OFFLINE
    ) as process:
        lines = [(time.monotonic() - start, line) for line in process.stderr or ()]
    if process.returncode:
        raise SystemExit("".join(line for _, line in lines if "import time" not in line))
    return [*lines, (time.monotonic() - start, "")]


def lane(module: str) -> str:
    """The lane of an imported module.

    >>> lane("torch.export.graph"), lane("torch.nn"), lane("json")
    ('torch: export', 'torch', 'others')
    """
    fits = {name: len(package) for name, packages in LANES.items() for package in packages if _is_in(module, package)}
    return max(fits, key=lambda name: fits[name], default="others")


def _is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def bars(lines: Sequence[tuple[float, str]]) -> list[Bar]:
    """The bars of imports and of stages. Outside of stages, the time since the last report is that of the import."""
    every: list[Bar] = []
    running: dict[str, float] = {}
    for (before, _), (now, line) in pairwise([(0.0, ""), *lines]):
        if match := IMPORTED.match(line):
            every.append(Bar(lane(match[2]), max(before, now - int(match[1]) / 1e6) if running else before, now))
        elif (match := STAGE.match(line)) and match[2] == "start":
            running[match[1]] = now
        elif match:
            every.append(Bar(f"stage: {match[1]}", running.pop(match[1]), now))
    return every


def joined(every: Iterable[Bar], gap: float) -> list[Bar]:
    """The bars, where those of a lane with at most this gap between them are one; a picture needs no more."""
    last: dict[str, Bar] = {}
    ended = []
    for bar in sorted(every, key=lambda bar: bar.start):
        before = last.get(bar.lane)
        if before and bar.start - before.end <= gap:
            last[bar.lane] = Bar(bar.lane, before.start, bar.end)
        else:
            ended += [before] if before else []
            last[bar.lane] = bar
    return [*ended, *last.values()]


def rows(every: Iterable[Bar], total: float) -> list[dict[str, Any]]:
    """A row for each lane: its seconds and their share of the whole. Stages contain imports."""
    seconds: dict[str, float] = {}
    for bar in every:
        seconds[bar.lane] = seconds.get(bar.lane, 0.0) + bar.end - bar.start
    return [{"lane": name, "seconds": spent, "share": spent / total} for name, spent in seconds.items()]


def picture(every: Sequence[Bar], total: float) -> str:
    """The time line as SVG: a lane for each package and stage."""
    names = list(dict.fromkeys(bar.lane for bar in every))
    scale = (WIDTH - LEFT - 10) / total
    height = ROW * (len(names) + 1)
    drawn = [
        f'<rect x="{LEFT + bar.start * scale:.1f}" y="{names.index(bar.lane) * ROW + 4}" height="{ROW - 8}" '
        f'width="{max((bar.end - bar.start) * scale, 0.5):.1f}" fill="{_color(bar.lane)}"/>'
        for bar in joined(every, total / WIDTH)
    ]
    words = [f'<text x="4" y="{row * ROW + 16}">{name}</text>' for row, name in enumerate(names)]
    step = max(1, round(total / TICKS))
    seconds = range(0, int(total) + 1, step)
    ticks = [f'<text x="{LEFT + second * scale:.0f}" y="{height - 6}">{second} s</text>' for second in seconds]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    return "\n".join([f'{head}font-size="12">', ground, *drawn, *words, *ticks, "</svg>"]) + "\n"


def _color(name: str) -> str:
    """Stages are orange, imports of onnxfn green, other imports blue."""
    return "#e69138" if name.startswith("stage") else "#38761d" if name == "onnxfn" else "#3d85c6"


def main() -> None:
    options = parsed_options(__doc__.splitlines()[0], "time_line", "minilm")
    [checkpoint] = options.checkpoints
    with tempfile.TemporaryDirectory() as folder:
        lines = reports(checkpoint, Path(folder) / "out", options.cache)
        if differs := difference(checkpoint, Path(folder) / "out", options.cache):
            raise SystemExit(f"wrong: {differs}")
    every, total = bars(lines), lines[-1][0]
    PICTURE.write_text(picture(every, total))
    print_and_save("time_line", rows(every, total), [], options.json, runs=1)


if __name__ == "__main__":
    main()
