"""The command `demo`: it exports a real model and uses it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from onnxfn.export.cli_print import say
from onnxfn.export.cli_progress import stages
from onnxfn.export.cli_results import result_text
from onnxfn.export.demo import completion, minilm, similarities, smollm2
from onnxfn.export.events import stage_timer
from onnxfn.export.lookup.loading import load_configuration, load_gguf_model, load_model
from onnxfn.export.lookup.lookup import spec_for
from onnxfn.export.pipeline import export as export_model
from onnxfn.specs.reports import CheckFailed


def demo_similarities(out: Path, *, overwrite: bool) -> None:
    """Exports all-MiniLM-L6-v2; prints how similar it finds pairs of sentences."""
    from transformers import AutoTokenizer

    folder = minilm()
    config = load_configuration(folder)
    spec = spec_for(config, "feature-extraction")
    with stages() as on_event:
        with stage_timer(on_event) as (timed, _), timed("load", "all-MiniLM-L6-v2") as tick:
            model = load_model(str(folder), config, spec, tick=tick)
        exported = export_model(spec, model, out, checkpoint=folder, overwrite=overwrite, on_event=on_event)
    say(result_text(exported))
    for pair in similarities(model, AutoTokenizer.from_pretrained(folder), Path(exported.files[0])):
        say(f"{pair.onnx:.4f} by ONNX Runtime, {pair.torch:.4f} by PyTorch: {pair.left!r} and {pair.right!r}")


def demo_completion(out: Path, *, overwrite: bool) -> None:
    """Exports SmolLM2; prints how it completes a text. CheckFailed if PyTorch completes it otherwise."""
    with stages() as on_event, TemporaryDirectory() as folder:
        with stage_timer(on_event) as (timed, _), timed("load", "SmolLM2-135M-Instruct") as tick:
            model, tokenizer = load_gguf_model(smollm2(), tick)
        tokenizer.save_pretrained(folder)
        spec = spec_for(model.config, "text-generation-with-past")
        exported = export_model(spec, model, out, checkpoint=folder, overwrite=overwrite, on_event=on_event)
        completed = completion(model, tokenizer, Path(exported.files[0]))
    say(result_text(exported))
    say(f"ONNX Runtime: {completed.onnx}\nPyTorch:      {completed.torch}")
    if not completed.same:
        raise CheckFailed("ONNX Runtime and PyTorch complete the text with different tokens")
