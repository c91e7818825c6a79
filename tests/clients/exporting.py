import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
import transformers
from checkpoints import checkpoint, real_checkpoint, write_checkpoint
from pytorch_results import Reference
from typer.testing import CliRunner

from onnxfn.export.cli.commands import app

LAYOUT = ("--layout", "hub")


class ExportError(Exception):
    """An export fails; its message is what the command printed."""


def exported(root: Path, name: str, task: str, flags: Iterable[str] = ()) -> Path:
    folder = root / re.sub(r"[^\w]+", "-", " ".join([name, task, *flags]))  # transformers.js refuses other names
    return folder if folder.is_dir() else export_folder(checkpoint_folder(root, name), folder, task, flags)


def export_folder(source: Path, folder: Path, task: str, flags: Iterable[str] = ()) -> Path:
    words = ["export", str(source), str(folder), "--task", task, *LAYOUT, *flags]
    done = CliRunner().invoke(app, words)
    if done.exit_code:
        raise ExportError(f"onnxfn {' '.join(words)}\n{done.output[-2000:]}")
    return folder


def checkpoint_folder(root: Path, name: str) -> Path:
    """The folder of a checkpoint; a tiny one is written below `root` if it is not there."""
    tiny = checkpoint(name)
    if tiny is None:
        return real_checkpoint(name)
    folder = root / "checkpoints" / name.replace(" ", "-")
    if not folder.is_dir():
        write_checkpoint(tiny, folder)
    return folder


def reference(root: Path, name: str, folder: Path, loader: str = "AutoModel") -> Reference:
    source = checkpoint_folder(root, name)
    tiny = checkpoint(name)
    model = getattr(transformers, tiny.loader if tiny else loader).from_pretrained(source, dtype="float32").eval()
    return Reference(model, tokenizer(source), input_names(folder))


def tokenizer(source: Path) -> Any:
    known = (source / "tokenizer.json").is_file()
    return transformers.AutoTokenizer.from_pretrained(source) if known else None


def input_names(folder: Path) -> frozenset[str]:
    graphs = [onnx.load(file, load_external_data=False).graph for file in folder.rglob("*.onnx")]
    return frozenset(each.name for graph in graphs for each in graph.input)
