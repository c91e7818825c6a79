"""The exporters: onnxfn with several options, and its peers, each in a virtual environment of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from attrs import field, frozen
from models import CACHE, Checkpoint, checkpoint_folder, folder_for_transformers_4
from processes import Process, run_process

import onnxfn

HERE = Path(__file__).parent
TORCH = "torch==2.13.0"
"""A CPU build. Later versions install several GB of CUDA."""

OURS = "onnxfn"
CHECKOUT = Path(onnxfn.__file__).parent.parent
ORT = "onnxruntime==1.32.0"
WORDS = 8000
"""The words of a text for a calibration, which reads 4,096 tokens."""

SCIPY = "scipy==1.17.1"
"""MaskFormer's class needs it."""

LATEST = (TORCH, "transformers==5.24.0", "onnx==1.23.2", "onnx-ir==1.1.0", "onnxscript==0.7.2")

ENVIRONMENTS = {
    OURS: (*LATEST, ORT, SCIPY, str(CHECKOUT)),
    "optimum": (TORCH, "optimum-onnx==0.1.0", "optimum==2.1.0", "transformers==4.57.6", ORT, SCIPY),
    "exporters": LATEST,
    "genai": (TORCH, "onnxruntime-genai==0.18.0", "transformers==5.23.0", "onnx-ir==1.1.0", ORT),
    # Olive 0.13.0 imports a module that later builders do not have.
    "olive": (*LATEST, ORT, "olive-ai==0.13.0", "onnxruntime-genai==0.14.1", "datasets==5.2.0", "requests==2.34.2"),
    "mobius": (TORCH, "mobius-onnx==0.1.0", "transformers==5.23.0", "onnx-ir==1.1.0", "onnxscript==0.7.2"),
}
"""From an environment to the packages that are installed in it."""

NO_PYTHONPATH = {"PYTHONPATH": ""}
"""Environment variables of an exporter's process: it imports from its own environment alone."""

KINDS = ("encoder", "decoder", "image", "text to text", "speech to text")

Command = Callable[[Checkpoint, Path, Path, Path], list[str]]
"""From a checkpoint, its folder, the output folder and a folder that is kept between runs to Python's arguments."""


@frozen
class Exporter:
    """An exporter: a command that writes the ONNX files of a checkpoint.

    Attributes:
        name: Its name in the tables.
        environment: The key of `ENVIRONMENTS`.
        command: Makes the command.
        kinds: The kinds of checkpoints that it can export.
        twice: Whether the first round runs it twice: the first run fills the template cache.
        folder: Makes the folder of a checkpoint that it can read.
        dtype: The type of the weights that it writes. Only float32 is compared with PyTorch.
        by_default: Whether it is among the exporters if none are named.
    """

    name: str
    environment: str
    command: Command
    kinds: frozenset[str] = field(default=KINDS, converter=frozenset)
    twice: bool = False
    folder: Callable[[Checkpoint, Path], Path] = checkpoint_folder
    dtype: str = "float32"
    by_default: bool = True


def run_exporter(exporter: Exporter, checkpoint: Checkpoint, out: Path, cache: Path = CACHE) -> Process:
    """Exports a checkpoint in a process of its own."""
    kept = out.parent / "kept"
    command = exporter.command(checkpoint, exporter.folder(checkpoint, cache), out, kept)
    python = interpreter(exporter.environment, cache)
    return run_process([str(python), *command], NO_PYTHONPATH | {"XDG_CACHE_HOME": str(kept)})


def interpreter(environment: str, cache: Path = CACHE) -> Path:
    """The Python interpreter of an environment. Installs the environment if it is missing or has other versions."""
    folder = cache / "peers" / environment
    pins = "\n".join(ENVIRONMENTS[environment]) + (_source_digest() if environment == OURS else "")
    stamp = folder / "pins.txt"
    installed = stamp.read_text() if stamp.is_file() else ""
    if installed != pins:
        _install(environment, folder, from_scratch=installed.splitlines()[:-1] != pins.splitlines()[:-1])
        stamp.write_text(pins)
    return folder / "bin" / "python"


def _install(environment: str, folder: Path, *, from_scratch: bool) -> None:
    """Installs all packages of an environment, or onnxfn alone. Peers are installed and compiled, so onnxfn is too."""
    print(f"installing the environment {environment}", file=sys.stderr)
    variables = {**os.environ, **NO_PYTHONPATH}
    if from_scratch:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, env=variables)
    packages = ENVIRONMENTS[environment] if from_scratch else ("--no-deps", "--force-reinstall", str(CHECKOUT))
    subprocess.run([str(folder / "bin/pip"), "install", "-q", *packages], check=True, env=variables)


def _source_digest() -> str:
    """A line that changes with the source files of this checkout."""
    files = sorted((CHECKOUT / "onnxfn").rglob("*.py"))
    return "\n" + hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def peer_versions(exporters: Iterable[Exporter]) -> dict[str, str]:
    """The versions of the packages that the peers among some exporters are, by package."""
    environments = {exporter.environment for exporter in exporters} - {OURS}
    pins = [pin.split("==") for name in sorted(environments) for pin in ENVIRONMENTS[name] if name in pin]
    return dict(pins)


def selected_exporters(names: str | None, without: list[str], *, peers_only: bool = False) -> list[Exporter]:
    """The exporters with these names, which are separated by commas; those of the default for None."""
    selected = set(names.split(",")) if names else {name for name, each in EXPORTERS.items() if each.by_default}
    if unknown := (selected | set(without)) - set(EXPORTERS):
        raise SystemExit(f"no exporter {', '.join(unknown)}; known: {', '.join(EXPORTERS)}")
    return [
        exporter
        for name, exporter in EXPORTERS.items()
        if name in selected and name not in without and not (peers_only and exporter.environment == OURS)
    ]


def _onnxfn(*options: str) -> Command:
    """onnxfn's command line. Its template cache lies in the folder that is kept between runs, and
    it prints a line for each stage."""

    def command(checkpoint: Checkpoint, folder: Path, out: Path, _: Path) -> list[str]:
        words = ["-m", "onnxfn", "export", str(folder), str(out), "--task", checkpoint.task, "--layout", "optimum"]
        return [*words, "--verbose", *options]

    return command


def _calibrated(checkpoint: Checkpoint, folder: Path, out: Path, kept: Path) -> list[str]:
    """The export with calibrated codes. The text has words of the tokenizer that are tokens of the model, too."""
    limit = json.loads((folder / "config.json").read_text())["vocab_size"]
    tokens = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    words = [token[1:] for token, number in tokens.items() if number < limit and token.startswith("Ġ")]
    kept.mkdir(parents=True, exist_ok=True)
    text, plain = kept / "words.txt", [word for word in words if word.isascii() and word.isalpha()]
    text.write_text(" " + " ".join(np.random.default_rng(0).choice(plain, WORDS)))
    options = ("--no-template-cache", "--dtype", "q4c", "--no-check", "--calibration", str(text))
    return _onnxfn(*options)(checkpoint, folder, out, kept)


def _optimum(checkpoint: Checkpoint, folder: Path, out: Path, _: Path) -> list[str]:
    module = "from optimum.commands.optimum_cli import main; main()"
    options = ["--model", str(folder), "--task", checkpoint.task, "--library-name", "transformers"]
    return ["-c", module, "export", "onnx", *options, str(out)]


def _exporters(checkpoint: Checkpoint, folder: Path, out: Path, _: Path) -> list[str]:
    return [str(HERE / "by_exporters.py"), str(folder), str(out), checkpoint.kind]


def _olive(_: Checkpoint, folder: Path, out: Path, __: Path) -> list[str]:
    return [str(HERE / "by_olive.py"), str(folder), str(out)]


def _genai(precision: str, provider: str, *more: str) -> Command:
    def command(_: Checkpoint, folder: Path, out: Path, kept: Path) -> list[str]:
        builder = ["-m", "onnxruntime_genai.models.builder"]
        options = ["-p", precision, "-e", provider, "-c", str(kept / "genai")]
        return [*builder, "-i", str(folder), "-o", str(out), *options, *more]

    return command


def _mobius(*options: str) -> Command:
    def command(_: Checkpoint, folder: Path, out: Path, __: Path) -> list[str]:
        return ["-m", "mobius", "build", "--model", str(folder), *options, str(out)]

    return command


def _of_fewer_bits() -> Iterator[Exporter]:
    """The exporters that write weights of 16 and of 4 bits. The genai builder has no float16 for the CPU."""
    small = partial(Exporter, kinds=("decoder",), by_default=False)
    # The likeliest token of random weights is chance: 4 bits choose others.
    for dtype, floors in (("float16", ()), ("q4", ("--floor", "agreement=0"))):
        options = ("--no-template-cache", "--dtype", dtype)
        yield small(f"onnxfn {dtype}", OURS, _onnxfn(*options, *floors), dtype=dtype)
        yield small(f"onnxfn {dtype} unchecked", OURS, _onnxfn(*options, "--no-check"), dtype=dtype)
        by_sections = _onnxfn(*options, *floors, "--check", "sections")
        yield small(f"onnxfn {dtype} by sections", OURS, by_sections, dtype=dtype)
    yield small("onnxfn q4c unchecked", OURS, _calibrated, dtype="q4c")
    yield small("genai builder float16", "genai", _genai("fp16", "cuda"), dtype="float16")
    yield small("genai builder int4", "genai", _genai("int4", "cpu"), dtype="q4")
    mixed = ("--extra_options", "algo_config=k_quant_mixed")
    yield small("genai builder k_quant_mixed", "genai", _genai("int4", "cpu", *mixed), dtype="q4")
    yield small("olive int4", "olive", _olive, dtype="q4")
    yield small("genai builder int8", "genai", _genai("int8", "cpu"), dtype="q8")
    yield small("mobius float16", "mobius", _mobius("--dtype", "f16"), dtype="float16")


EXPORTERS = {
    exporter.name: exporter
    for exporter in (
        Exporter("onnxfn", OURS, _onnxfn("--no-template-cache")),
        Exporter("onnxfn unchecked", OURS, _onnxfn("--no-check", "--no-template-cache")),
        Exporter("onnxfn templates", OURS, _onnxfn("--no-check"), twice=True),
        Exporter("onnxfn opset 18", OURS, _onnxfn("--no-template-cache", "--opset", "18"), kinds=("decoder",)),
        Exporter("optimum", "optimum", _optimum, folder=folder_for_transformers_4),
        Exporter("transformers.exporters", "exporters", _exporters),
        Exporter("genai builder", "genai", _genai("fp32", "cpu"), kinds=("decoder", "speech to text")),
        Exporter("mobius", "mobius", _mobius()),
        Exporter("mobius cpu", "mobius", _mobius("--ep", "cpu"), kinds=("decoder",)),
        *_of_fewer_bits(),
    )
}
