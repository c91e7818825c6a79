"""The command `demo`: it exports a real model and uses it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from onnxfn.export.cli_progress import stage_line
from onnxfn.export.demo import completion, minilm, similarities, smollm2
from onnxfn.export.lookup.loading import load_configuration, load_gguf_model, load_model
from onnxfn.export.lookup.lookup import spec_for
from onnxfn.export.pipeline import export as export_model
from onnxfn.specs.reports import CheckFailed, Event


def demo_similarities(out: Path, *, overwrite: bool) -> None:
    """Exports all-MiniLM-L6-v2; prints how similar it finds pairs of sentences."""
    from transformers import AutoTokenizer

    folder = minilm()
    config = load_configuration(folder)
    spec = spec_for(config, "feature-extraction")
    with stage_line() as on_event:
        on_event(Event("load", "all-MiniLM-L6-v2"))
        model = load_model(str(folder), config, spec)
        exported = export_model(spec, model, out, checkpoint=folder, overwrite=overwrite, on_event=on_event)
    typer.echo(exported)
    for pair in similarities(model, AutoTokenizer.from_pretrained(folder), Path(exported.files[0])):
        typer.echo(f"{pair.onnx:.4f} by ONNX Runtime, {pair.torch:.4f} by PyTorch: {pair.left!r} and {pair.right!r}")


def demo_completion(out: Path, *, overwrite: bool) -> None:
    """Exports SmolLM2; prints how it completes a text. CheckFailed if PyTorch completes it otherwise."""
    with stage_line() as on_event, TemporaryDirectory() as folder:
        on_event(Event("load", "SmolLM2-135M-Instruct"))
        model, tokenizer = load_gguf_model(smollm2())
        tokenizer.save_pretrained(folder)
        spec = spec_for(model.config, "text-generation-with-past")
        exported = export_model(spec, model, out, checkpoint=folder, overwrite=overwrite, on_event=on_event)
        typer.echo(exported)
        completed = completion(model, tokenizer, Path(exported.files[0]))
    typer.echo(f"ONNX Runtime: {completed.onnx}\nPyTorch:      {completed.torch}")
    if not completed.same:
        raise CheckFailed("ONNX Runtime and PyTorch complete the text with different tokens")
