"""The command line: flags -> one call, and what it answers -> a table. Says one line and exits with 1 when refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from onnxfn.specs.errors import CheckFailed, InvalidSpec, OnnxfnError
from onnxfn.specs.reports import Event
from onnxfn.specs.version import VERSION

app = typer.Typer(
    name="onnxfn",
    help="Export PyTorch and Hugging Face models to ONNX, and prove them against PyTorch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Out = Annotated[Path, typer.Argument(help="A folder, or a file that ends in .onnx.")]
Task = Annotated[str | None, typer.Option(help="What the model is for; found from the checkpoint when not given.")]
Library = Annotated[
    str, typer.Option(help="Whose model it is: transformers, sentence_transformers, timm, or diffusers, of pipelines.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", "--force", help="Write to a path that exists.")]
Check = Annotated[bool, typer.Option("--check/--no-check", help="Compare with PyTorch before the files appear.")]
Opset = Annotated[int | None, typer.Option(help="ONNX opset, 18 or later.")]
Atol = Annotated[float | None, typer.Option(help="Absolute tolerance of the check.")]
Rtol = Annotated[float | None, typer.Option(help="Relative tolerance of the check.")]
Dtype = Annotated[str, typer.Option(help="Type of the weights: float32 or float16.")]
Sizes = Annotated[list[str] | None, typer.Option("--size", help="A size of the traced sample: sequence_length=32.")]
Shapes = Annotated[list[str] | None, typer.Option("--shape", help="An axis that shall not move: batch_size=1.")]
Outputs = Annotated[
    list[str] | None, typer.Option("--output", help="What the model gives besides: hidden_states, attentions, ...")
]
Embedded = Annotated[
    bool, typer.Option("--inputs-embeds", help="Take embeddings in place of tokens; their table is a file of its own.")
]
Decoders = Annotated[
    str,
    typer.Option(
        help="Decoder files to write: merged (one, with and without a past), separate (two), or both (all three)."
    ),
]
Split = Annotated[
    bool, typer.Option("--split", help="A file for each part of a model: text_model.onnx, vision_model.onnx.")
]
Fuse = Annotated[str, typer.Option(help="standard, or onnxruntime: operators that only it has, too (opset 23).")]
Layout = Annotated[
    str, typer.Option(help="The program that a folder is for: optimum, or transformers.js, also in a browser.")
]
Sidecar = Annotated[str | None, typer.Option(help="How the file of the weights ends, when they need one.")]
Weights = Annotated[
    str | None,
    typer.Option(
        help="share, once for all files; copy, with each (for transformers.js); link, to the checkpoint; none."
    ),
]
Templates = Annotated[
    Path | None, typer.Option(help="Where graphs without weights are kept for the next such model; the user's cache.")
]
Afresh = Annotated[bool, typer.Option("--no-templates", help="Neither keep a graph nor take one that was kept.")]
Whole = Annotated[bool, typer.Option("--whole", help="Trace every layer, not a few that tell the others.")]


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="The folder of a checkpoint, or a name on the hub.")],
    out: Out,
    task: Task = None,
    library: Library = "transformers",
    opset: Opset = None,
    atol: Atol = None,
    rtol: Rtol = None,
    dtype: Dtype = "float32",
    size: Sizes = None,
    shape: Shapes = None,
    output: Outputs = None,
    inputs_embeds: Embedded = False,
    layout: Layout = "optimum",
    sidecar: Sidecar = None,
    weights: Weights = None,
    templates: Templates = None,
    afresh: Afresh = False,
    whole: Whole = False,
    decoders: Decoders = "merged",
    split: Split = False,
    fuse: Fuse = "standard",
    check: Check = True,
    overwrite: Overwrite = False,
) -> None:
    """Export a checkpoint, with its configuration and tokenizer files."""
    from onnxfn.export.lookup.loading import checkpoint_folder
    from onnxfn.export.pipeline import target
    from onnxfn.export.recipes import kind, recalled
    from onnxfn.graphs.cache_folder import default_cache_folder

    tensors = {"size": size, "shape": shape, "output": output, "inputs_embeds": inputs_embeds, "split": split}
    chosen = {"task": task, "opset": opset, "dtype": dtype, "atol": atol, "rtol": rtol, **tensors}
    how: dict[str, Any] = {"decoders": decoders, "fuse": fuse}
    how |= {"layout": layout, "sidecar": sidecar, "weights": weights}
    with _refusals():
        target(out, overwrite=overwrite)
        if library != "transformers":
            _foreign(library, model, out, {**chosen, "fuse": fuse}, check=check, overwrite=overwrite, **how)
            return
        folder = checkpoint_folder(model)
        place = None if afresh else templates or default_cache_folder()
        asked = {**chosen, **how, "whole": whole, "file": out.name if out.suffix == ".onnx" else None}
        name = kind(folder, asked) if place and folder == Path(model) and weights != "link" else None
        if check or not _again(recalled(place, name), place, folder, out, task, overwrite=overwrite, **how):
            _anew(
                model,
                folder,
                out,
                chosen,
                whole=whole,
                templates=place,
                check=check,
                overwrite=overwrite,
                name=name,
                **how,
            )


def _again(recipe: Any, templates: Path | None, folder: Path, out: Path, task: str | None, **options: Any) -> bool:
    """Whether an export of this kind was done before, and now again, without the model."""
    from onnxfn.export.pipeline import repeat

    if recipe is None or templates is None:
        return False
    chosen = {name: options[name] for name in ("overwrite", "layout", "sidecar", "weights")}
    with _progress() as on_event:
        done = repeat(recipe, folder, out, templates=templates, on_event=on_event, **chosen)
    if done is not None:
        _tell_plan(done.plan, task)
        typer.echo(done)
    return done is not None


def _anew(
    model: str, folder: Path, out: Path, chosen: dict[str, Any], *, whole: bool, name: str | None, **options: Any
) -> None:
    """Export a checkpoint by its model, and keep what the next of its kind needs."""
    from onnxfn.export.lookup.loading import load_configuration
    from onnxfn.export.lookup.lookup import has_row, loader_spec
    from onnxfn.export.recipes import recalled, remember
    from onnxfn.graphs.build import BuildOptions, trace_all_layers
    from onnxfn.graphs.capture.repeated_layers import repeated_layers
    from onnxfn.specs.plan.planning import plan

    config = load_configuration(folder)
    with _progress() as on_event:
        known = has_row(config)
        loaded = None if known else _loaded(model, config, loader_spec(config, chosen["task"]), on_event)
        spec = _asked(config if known else loaded, fuse=options["fuse"], **chosen)
        made = plan(spec, config, decoders=options["decoders"])
        _tell_plan(made, chosen["task"])
        loaded = _loaded(model, config, made.parts[0].spec, on_event) if known else loaded
        done = _export(
            spec,
            loaded,
            out,
            folder,
            repeats=trace_all_layers if whole else repeated_layers,
            on_event=on_event,
            **options,
        )
    if name is not None and (not options["check"] or recalled(options["templates"], name) is None):
        remember(options["templates"], name, loaded, done.plan, folder, out, BuildOptions(fuse=options["fuse"]))


def _foreign(library: str, model: str, out: Path, chosen: dict[str, Any], **options: Any) -> None:
    """Export what another library than transformers makes of a checkpoint."""
    from onnxfn.export.diffusers import export_pipeline
    from onnxfn.export.lookup.loading import load_library_model

    told = [name for name, value in chosen.items() if value not in (None, False, "float32", "standard")]
    if library == "diffusers" and told:
        raise InvalidSpec(f"--{told[0].replace('_', '-')} is not for a whole pipeline; export its part by its own spec")
    with _progress() as on_event:
        on_event(Event("load", model))
        loaded = load_library_model(library, model)
        if library == "diffusers":
            for name, done in export_pipeline(loaded, out, on_event=on_event, **options).items():
                typer.echo(f"{name}: {done}")
            return
        _export(_asked(loaded, **chosen), loaded, out, Path(model), on_event=on_event, **options)


def _tell_plan(made: Any, task: str | None) -> None:
    typer.echo(f"task: {made.task}{'' if task else ' (found)'}\n{made}")


@app.command()
def inspect(
    model_type: Annotated[str, typer.Argument(help="A model type, such as bert.")],
    task: Annotated[str | None, typer.Option(help="Show the spec for this task.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show the spec of a model type: what goes in, what comes out, which axes move."""
    from onnxfn.export.lookup.lookup import spec_for
    from onnxfn.specs.serialize import to_json

    with _refusals():
        spec = spec_for(model_type, task)
        typer.echo(to_json(spec) if json else spec)


@app.command()
def tasks(model_type: Annotated[str, typer.Argument(help="A model type, such as bert.")]) -> None:
    """List the tasks of a model type."""
    from onnxfn.export.lookup.lookup import tasks_for

    with _refusals():
        typer.echo("\n".join(tasks_for(model_type)))


@app.command()
def cache(
    folder: Annotated[Path | None, typer.Option(help="The cache folder; the one of the user if not given.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the files of the cache.")] = False,
) -> None:
    """Show the cache of graphs without weights: its folder, the number of its files, their size."""
    from onnxfn.graphs.cache_folder import cache_entries, clear_cache, default_cache_folder

    folder = folder or default_cache_folder()
    entries = (clear_cache if clear else cache_entries)(folder)
    size = sum(entry.size for entry in entries)
    typer.echo(f"{folder}: {'deleted ' if clear else ''}{len(entries)} files, {size / 2**20:.1f} MiB")


@app.command()
def demo(
    out: Out,
    generate: Annotated[bool, typer.Option("--generate", help="SmolLM2 completes a text, instead.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Export a real model, check it, and use it: all-MiniLM-L6-v2 compares sentences."""
    from onnxfn.export.pipeline import target

    with _refusals():
        target(out, overwrite=overwrite)
        (_completes if generate else _compares)(out, overwrite=overwrite)


def _compares(out: Path, *, overwrite: bool) -> None:
    from transformers import AutoTokenizer

    from onnxfn.export.demo import minilm, similarities
    from onnxfn.export.lookup.loading import load_configuration, load_model
    from onnxfn.export.lookup.lookup import spec_for

    folder = minilm()
    config = load_configuration(folder)
    spec = spec_for(config, "feature-extraction")
    with _progress() as on_event:
        on_event(Event("load", "all-MiniLM-L6-v2"))
        model = load_model(str(folder), config, spec)
        done = _export(spec, model, out, folder, overwrite=overwrite, on_event=on_event)
    for one in similarities(model, AutoTokenizer.from_pretrained(folder), Path(done.files[0])):
        typer.echo(f"{one.onnx:.4f} by ONNX Runtime, {one.torch:.4f} by PyTorch: {one.left!r} and {one.right!r}")


def _completes(out: Path, *, overwrite: bool) -> None:
    from tempfile import TemporaryDirectory

    from onnxfn.export.demo import completion, smollm2
    from onnxfn.export.lookup.loading import load_gguf_model
    from onnxfn.export.lookup.lookup import spec_for

    with _progress() as on_event, TemporaryDirectory() as folder:
        on_event(Event("load", "SmolLM2-135M-Instruct"))
        model, tokenizer = load_gguf_model(smollm2())
        tokenizer.save_pretrained(folder)
        spec = spec_for(model.config, "text-generation-with-past")
        done = _export(spec, model, out, Path(folder), overwrite=overwrite, on_event=on_event)
        made = completion(model, tokenizer, Path(done.files[0]))
    typer.echo(f"ONNX Runtime: {made.onnx}\nPyTorch:      {made.torch}")
    if not made.same:
        raise CheckFailed("ONNX Runtime completes the text otherwise than PyTorch")


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        typer.echo(VERSION)
        raise typer.Exit


def _asked(
    it: Any,
    task: str | None,
    size: list[str] | None,
    shape: list[str] | None,
    output: list[str] | None,
    inputs_embeds: bool,
    *,
    opset: int | None,
    dtype: str,
    atol: float | None,
    rtol: float | None,
    fuse: str,
    split: bool,
) -> Any:
    """The spec that flags ask for, of a configuration, or of a model that no row speaks of."""
    from onnxfn.export.lookup.lookup import checkpoint_task, spec_for
    from onnxfn.graphs.passes.fusing import ONNXRUNTIME
    from onnxfn.graphs.passes.opsets import ATTENTION_OPSET
    from onnxfn.specs.compose import compose
    from onnxfn.specs.dummies import known_sizes, sized
    from onnxfn.specs.edits.behaviors import split as model_part
    from onnxfn.specs.edits.extra_outputs import with_outputs
    from onnxfn.specs.edits.tensors import with_dtypes, with_opset, with_shapes, with_tolerance
    from onnxfn.specs.edits.token_embeddings import with_inputs_embeds
    from onnxfn.specs.plan.planning import plan
    from onnxfn.specs.tasks import for_some_task

    spec = spec_for(it, task or checkpoint_task(it))
    opset = opset or (ATTENTION_OPSET if fuse == ONNXRUNTIME else None)
    spec = with_tolerance(spec if opset is None else with_opset(spec, opset), atol=atol, rtol=rtol)
    spec = with_dtypes(model_part(for_some_task(spec)) if split else spec, float=dtype)
    spec = with_shapes(with_outputs(spec, *(output or ())), **_sizes("--shape", shape or []))
    sizes = _sizes("--size", size or [])
    known_sizes(plan(spec, it).parts[0].spec, sizes)
    asked = compose(spec, sized(**sizes))
    return with_inputs_embeds(asked) if inputs_embeds else asked


def _loaded(name: str, config: Any, spec: Any, on_event: Callable[[Event], None]) -> Any:
    from onnxfn.export.lookup.loading import load_model

    on_event(Event("load", name))
    return load_model(name, config, spec)


def _export(spec: Any, model: Any, out: Path, folder: Path, **options: Any) -> Any:
    from onnxfn.export.pipeline import export

    done = export(spec, model, out, checkpoint=folder, **options)
    typer.echo(done)
    return done


def _sizes(flag: str, words: list[str]) -> dict[str, int]:
    """`["sequence_length=32"]` as a dict."""
    pairs = [word.partition("=") for word in words]
    for name, _, number in pairs:
        if not number.isdecimal():
            raise InvalidSpec(f"{flag} {name} says no number; write it as {flag} {name or 'sequence_length'}=32")
    return {name: int(number) for name, _, number in pairs}


@contextmanager
def _refusals() -> Iterator[None]:
    """What onnxfn refuses is one line on the error stream and exit code 1."""
    try:
        yield
    except OnnxfnError as refused:
        typer.echo(f"error: {refused}", err=True)
        raise typer.Exit(1) from None


@contextmanager
def _progress() -> Iterator[Callable[[Event], None]]:
    """A line that says what is being done, on the error stream."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("export") as status:

        def on_event(event: Event) -> None:
            if event.seconds is None:
                status.update(f"{event.stage} {event.part}")
            else:
                console.print(f"{event.stage} {event.part}: {event.seconds:.2f} s", style="dim", highlight=False)

        yield on_event
