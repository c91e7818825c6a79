"""Who exports: onnxfn and its variants, and its peers, each installed in a virtual environment of its own.

An exporter is a row: what it is called, whose environment it runs in, and the command for a checkpoint.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from attrs import field, frozen
from models import CACHE, Checkpoint, checkpoint_folder, older
from processes import Process, ran

import onnxfn

HERE = Path(__file__).parent
TORCH = "torch==2.13.0"
"""Later ones come with several GB of CUDA."""

OURS = "onnxfn"
CHECKOUT = Path(onnxfn.__file__).parent.parent
LATEST = (TORCH, "transformers==5.23.0", "onnx==1.23.2", "onnx-ir==1.1.0", "onnxscript==0.7.2")

ENVIRONMENTS = {
    OURS: (*LATEST, "onnxruntime==1.31.1", str(CHECKOUT)),
    "optimum": (TORCH, "optimum-onnx==0.1.0", "optimum==2.1.0", "transformers==4.57.6", "onnxruntime==1.31.1"),
    "exporters": LATEST,
    "genai": (TORCH, "onnxruntime-genai==0.18.0", "transformers==5.23.0", "onnx-ir==1.1.0", "onnxruntime==1.31.1"),
    "mobius": (TORCH, "mobius-onnx==0.1.0", "transformers==5.23.0", "onnx-ir==1.1.0", "onnxscript==0.7.2"),
}


@frozen
class Exporter:
    """A way to come from a checkpoint to ONNX files.

    `command` is given the checkpoint, its folder, the folder to write to, and a folder that outlasts one run.
    """

    name: str
    peer: str
    command: Callable[[Checkpoint, Path, Path, Path], list[str]]
    kinds: frozenset[str] = field(
        default=frozenset({"encoder", "decoder", "image", "text to text", "speech to text"}), converter=frozenset
    )
    twice: bool = False
    folder: Callable[[Checkpoint, Path], Path] = checkpoint_folder


def exported(how: Exporter, one: Checkpoint, out: Path, cache: Path = CACHE) -> Process:
    """A checkpoint exported by a whole process."""
    lasting = out.parent / "lasting"
    command = how.command(one, how.folder(one, cache), out, lasting)
    return ran([str(python(how.peer, cache)), *command], ALONE | {"XDG_CACHE_HOME": str(lasting)})


ALONE = {"PYTHONPATH": ""}
"""What a process is told: it has its own environment, and nothing of this one."""


def python(peer: str, cache: Path = CACHE) -> Path:
    """The interpreter of an environment, which is made when it is not there or has other versions."""
    place = cache / "peers" / peer
    pins = "\n".join(ENVIRONMENTS[peer]) + (_digest() if peer == OURS else "")
    stamp = place / "pins.txt"
    if not stamp.is_file() or stamp.read_text() != pins:
        _made(peer, place, afresh=not stamp.is_file() or stamp.read_text().splitlines()[:-1] != pins.splitlines()[:-1])
        stamp.write_text(pins)
    return place / "bin" / "python"


def _made(peer: str, place: Path, *, afresh: bool) -> None:
    """An environment made, or onnxfn alone put into it once more: installed and compiled, as its peers are."""
    print(f"making the environment of {peer}", file=sys.stderr)
    quiet = {**os.environ, **ALONE}
    if afresh:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True, env=quiet)
    told = ENVIRONMENTS[peer] if afresh else ("--no-deps", "--force-reinstall", str(CHECKOUT))
    subprocess.run([str(place / "bin/pip"), "install", "-q", *told], check=True, env=quiet)


def _digest() -> str:
    """A line that changes with the sources of this checkout."""
    files = sorted((CHECKOUT / "onnxfn").rglob("*.py"))
    return "\n" + hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def chosen(names: str | None, without: list[str], *, peers_only: bool = False) -> list[Exporter]:
    """The exporters that are asked for."""
    wanted = set(names.split(",")) if names else set(EXPORTERS)
    if unknown := (wanted | set(without)) - set(EXPORTERS):
        raise SystemExit(f"no exporter is called {', '.join(unknown)}; there are: {', '.join(EXPORTERS)}")
    return [
        one
        for name, one in EXPORTERS.items()
        if name in wanted and name not in without and not (peers_only and one.peer == OURS)
    ]


def _onnxfn(*options: str) -> Callable[[Checkpoint, Path, Path, Path], list[str]]:
    """onnxfn's own command line; its templates are kept in the user's cache, which here is the folder that lasts."""

    def command(one: Checkpoint, folder: Path, out: Path, _: Path) -> list[str]:
        return ["-m", "onnxfn", "export", str(folder), str(out), "--task", one.task, *options]

    return command


def _optimum(one: Checkpoint, folder: Path, out: Path, _: Path) -> list[str]:
    module = "from optimum.commands.optimum_cli import main; main()"
    told = ["--model", str(folder), "--task", one.task, "--library-name", "transformers"]
    return ["-c", module, "export", "onnx", *told, str(out)]


def _exporters(one: Checkpoint, folder: Path, out: Path, _: Path) -> list[str]:
    return [str(HERE / "by_exporters.py"), str(folder), str(out), one.kind]


def _genai(_: Checkpoint, folder: Path, out: Path, lasting: Path) -> list[str]:
    builder = ["-m", "onnxruntime_genai.models.builder"]
    return [*builder, "-i", str(folder), "-o", str(out), "-p", "fp32", "-e", "cpu", "-c", str(lasting / "genai")]


def _mobius(*options: str) -> Callable[[Checkpoint, Path, Path, Path], list[str]]:
    def command(_: Checkpoint, folder: Path, out: Path, __: Path) -> list[str]:
        return ["-m", "mobius", "build", "--model", str(folder), *options, str(out)]

    return command


EXPORTERS = {
    one.name: one
    for one in (
        Exporter("onnxfn", OURS, _onnxfn("--no-template-cache")),
        Exporter("onnxfn unchecked", OURS, _onnxfn("--no-check", "--no-template-cache")),
        Exporter("onnxfn templates", OURS, _onnxfn("--no-check"), twice=True),
        Exporter(
            "onnxfn fused",
            OURS,
            _onnxfn("--no-template-cache", "--opset", "23", "--fuse", "onnxruntime"),
            kinds=("decoder",),
        ),
        Exporter("onnxfn opset 23", OURS, _onnxfn("--no-template-cache", "--opset", "23"), kinds=("decoder",)),
        Exporter("optimum", "optimum", _optimum, folder=older),
        Exporter("transformers.exporters", "exporters", _exporters),
        Exporter("genai builder", "genai", _genai, kinds=("decoder", "speech to text")),
        Exporter("mobius", "mobius", _mobius()),
        Exporter("mobius cpu", "mobius", _mobius("--ep", "cpu"), kinds=("decoder",)),
    )
}
