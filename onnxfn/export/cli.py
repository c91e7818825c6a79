"""The command line: flags become records, records go to one call, and its result is printed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from attrs import asdict, evolve, frozen

from onnxfn.export import cli_flags as flags
from onnxfn.export.cli_batch import batch_command
from onnxfn.export.cli_demo import demo_completion, demo_similarities
from onnxfn.export.cli_errors import one_line_errors
from onnxfn.export.cli_files import bench_command, inspect_command, push_command, verify_command
from onnxfn.export.cli_progress import stage_line
from onnxfn.export.clients.remarks import with_remarks
from onnxfn.export.destination import check_destination
from onnxfn.export.diffusers import export_pipeline
from onnxfn.export.events import OnEvent
from onnxfn.export.lookup.gguf import checked_gguf, is_gguf, load_gguf, load_gguf_tokenizer
from onnxfn.export.lookup.loading import (
    checkpoint_folder,
    load_configuration,
    load_library_model,
    load_model,
    model_without_weights,
)
from onnxfn.export.lookup.lookup import has_row, loader_spec, tasks_for
from onnxfn.export.lookup.quantized import checked_quantization
from onnxfn.export.pipeline import export as export_model
from onnxfn.export.pipeline import export_from_recipe
from onnxfn.export.planned_files import plan_of_variants
from onnxfn.export.recipes import load_recipe, recipe_key, save_recipe
from onnxfn.export.spec_edits import SpecEdits, edited_spec, parsed_shapes, parsed_sizes, spec_dtype, suffixed_dtypes
from onnxfn.export.weight_sizes import with_weight_bytes
from onnxfn.graphs.build import BuildOptions, trace_all_layers
from onnxfn.graphs.cache_folder import cache_entries, clear_cache, default_cache_folder
from onnxfn.graphs.passes.fusing import ONNXRUNTIME
from onnxfn.graphs.passes.opsets import ATTENTION_OPSET
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.measurements import Floors, parsed_floors
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.planned import Plan, PlannedSpec
from onnxfn.specs.reports import Event, Exported
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.version import VERSION
from onnxfn.weights.write import WriteOptions, resolved_write_options

DRY_RUN_LIBRARIES = ("transformers", "timm")
"""The libraries that make a model of a folder without its weights."""

app: typer.Typer = typer.Typer(
    name="onnxfn",
    help="Export PyTorch and Hugging Face models to ONNX and check the files against PyTorch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@frozen
class ExportRequest:
    """What the flags of the command `export` ask for."""

    model: str
    out: Path
    edits: SpecEdits
    dtypes: tuple[str, ...]
    decoders: Any
    adapter: Path | None
    build: BuildOptions
    write: WriteOptions
    check: bool
    floors: Floors
    overwrite: bool
    trust_remote_code: bool
    dequantize: bool
    dry_run: bool


@app.command()
def export(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The folder of a checkpoint, a GGUF file, or a name on the hub.")],
    out: flags.Out,
    task: flags.Task = None,
    library: flags.Library = "transformers",
    opset: flags.Opset = None,
    atol: flags.Atol = None,
    rtol: flags.Rtol = None,
    dtype: flags.Dtypes = None,
    io_dtype: flags.IoDtype = None,
    size: flags.Sizes = None,
    shape: flags.Shapes = None,
    output: flags.Outputs = None,
    with_input: flags.Inputs = None,
    inputs_embeds: flags.InputsEmbeds = False,
    adapter: flags.Adapter = None,
    adapter_input: flags.AdapterInputs = None,
    layout: flags.Layout = None,
    alias: flags.Alias = False,
    external_data_suffix: flags.ExternalDataSuffix = None,
    weights: flags.Weights = None,
    template_cache: flags.TemplateCache = None,
    no_template_cache: flags.NoTemplateCache = False,
    trace_all: flags.TraceAllLayers = False,
    decoders: flags.Decoders = "merged",
    split: flags.Split = False,
    fuse: flags.Fuse = "standard",
    check: flags.Check = True,
    floor: flags.FloorValues = None,
    dry_run: flags.DryRun = False,
    overwrite: flags.Overwrite = False,
    trust_remote_code: flags.TrustRemoteCode = False,
    dequantize: flags.Dequantize = False,
    debug: flags.Debug = False,
) -> None:
    """Export a checkpoint, with its configuration and tokenizer files."""
    with one_line_errors(debug=debug):
        layout = flags.layout_name(layout, library)
        edits = SpecEdits(
            task=task,
            opset=ATTENTION_OPSET if opset is None and fuse == ONNXRUNTIME else opset,
            dtype=spec_dtype(dtype or (), layout),
            io_dtype=io_dtype,
            atol=atol,
            rtol=rtol,
            sizes=parsed_sizes("--size", size or ()),
            shapes=parsed_shapes("--shape", shape or ()),
            outputs=tuple(output or ()),
            inputs=tuple(with_input or ()),
            inputs_embeds=inputs_embeds,
            split=split,
            adapter_inputs=tuple(adapter_input or ()),
        )
        cache = None if no_template_cache else template_cache or default_cache_folder()
        build = flags.build_options(cache, fuse, trace_all=trace_all)
        write = flags.write_options(layout, weights, external_data_suffix, alias=alias)
        choices = (check, parsed_floors("--floor", floor or ()), overwrite, trust_remote_code, dequantize)
        dtypes = suffixed_dtypes(dtype or (), layout)
        request = ExportRequest(model, out, edits, dtypes, decoders, adapter, build, write, *choices, dry_run)
        _export_from_library(library, request, context)


def _export_from_library(library: str, request: ExportRequest, context: typer.Context) -> None:
    """Exports what a library loads: a checkpoint of transformers, a pipeline of diffusers, or another model."""
    check_destination(request.out, overwrite=request.overwrite)
    if request.dry_run and library not in DRY_RUN_LIBRARIES:
        raise InvalidSpec(
            f"--dry-run reads no weight, and {library} makes no model without its weights; leave --dry-run out, or "
            "name a folder in it with a checkpoint of transformers, with --library transformers"
        )
    if library == "transformers":
        _export_checkpoint(request)
    elif library == "diffusers":
        flags.check_no_spec_flags(context)
        _export_pipeline(request)
    else:
        _export_library_model(library, request)


app.command("verify")(verify_command)
app.command("inspect")(inspect_command)
app.command("bench")(bench_command)
app.command("push")(push_command)
app.command("batch")(batch_command)


@app.command()
def tasks(
    model_type: Annotated[str, typer.Argument(help="A model type, such as bert.")], debug: flags.Debug = False
) -> None:
    """List the tasks of a model type."""
    with one_line_errors(debug=debug):
        typer.echo("\n".join(tasks_for(model_type)))


@app.command()
def cache(
    folder: Annotated[Path | None, typer.Option(help="The cache folder. Default: that of the user.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the files of the cache.")] = False,
    debug: flags.Debug = False,
) -> None:
    """Show the cache of graphs without weights: its folder, the number of its files, their size."""
    with one_line_errors(debug=debug):
        folder = folder or default_cache_folder()
        entries = (clear_cache if clear else cache_entries)(folder)
        size = sum(entry.size for entry in entries)
        typer.echo(f"{folder}: {'deleted ' if clear else ''}{len(entries)} files, {size / 2**20:.1f} MiB")


@app.command()
def demo(
    out: flags.Out,
    generate: Annotated[bool, typer.Option("--generate", help="Complete a text with SmolLM2 instead.")] = False,
    overwrite: flags.Overwrite = False,
    debug: flags.Debug = False,
) -> None:
    """Export a real model, check it, and use it: all-MiniLM-L6-v2 compares sentences."""
    with one_line_errors(debug=debug):
        check_destination(out, overwrite=overwrite)
        (demo_completion if generate else demo_similarities)(out, overwrite=overwrite)


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        typer.echo(VERSION)
        raise typer.Exit


def _export_checkpoint(request: ExportRequest) -> None:
    """Exports a checkpoint of transformers: from a recipe if there is one and no check is asked for."""
    if is_gguf(request.model):
        _export_gguf(Path(request.model), request)
        return
    folder = checkpoint_folder(request.model)
    checked_quantization(request.model, dequantize=request.dequantize)
    key = _recipe_key(request, folder)
    if request.check or not _export_from_recipe(request, folder, key):
        _export_from_model(request, folder, key)


def _export_gguf(file: Path, request: ExportRequest) -> None:
    """Exports the model in a GGUF file, with its tokenizer."""
    checked_gguf(file, dequantize=request.dequantize)
    with stage_line() as on_event, TemporaryDirectory() as folder:
        on_event(Event("load", request.model))
        model = load_gguf(file, dequantize=request.dequantize)
        load_gguf_tokenizer(file).save_pretrained(folder)
        spec = edited_spec(model, request.edits)
        _printed_plan(spec, model.config, request)
        _export(spec, model, Path(folder), request, on_event)


def _recipe_key(request: ExportRequest, folder: Path) -> str | None:
    """The key of the recipe for this request; None if the request cannot use a recipe."""
    local = folder == Path(request.model)
    if request.build.template_cache is None or not local or request.write.weight_storage == "link" or request.adapter:
        return None
    if request.dtypes or request.dry_run:
        return None
    options = {
        **asdict(request.edits),
        **asdict(request.write),
        "decoders": request.decoders,
        "fuse": request.build.fuse,
        "trace_all_layers": request.build.find_repeats is trace_all_layers,
        "file": request.out.name if request.out.suffix == ".onnx" else None,
    }
    return recipe_key(folder, options)


def _export_from_recipe(request: ExportRequest, folder: Path, key: str | None) -> bool:
    """Exports a checkpoint without loading its model; False if there is no recipe, or a template of it is missing."""
    cache = request.build.template_cache
    recipe = load_recipe(cache, key)
    if recipe is None or cache is None:
        return False
    with stage_line() as on_event:
        exported = export_from_recipe(
            recipe,
            folder,
            request.out,
            template_cache=cache,
            overwrite=request.overwrite,
            fuse=request.build.fuse,
            write=request.write,
            on_event=on_event,
        )
    if exported is None:
        return False
    _print_plan(exported.plan, request.edits.task)
    typer.echo(exported)
    return True


def _export_from_model(request: ExportRequest, folder: Path, key: str | None) -> None:
    """Loads the model of a checkpoint and exports it; saves a recipe for checkpoints of the same kind."""
    config = load_configuration(folder, trust_remote_code=request.trust_remote_code)
    with stage_line() as on_event:
        if has_row(config) or request.dry_run:
            spec = edited_spec(config, request.edits) if has_row(config) else _spec_without_weights(config, request)
            planned = _printed_plan(spec, config, request)
            if request.dry_run:
                return
            model = _load(request, config, planned.parts[0].spec, on_event, as_stored=True)
        else:
            # The spec is derived from the model, so the model is loaded first.
            model = _load(request, config, loader_spec(config, request.edits.task), on_event)
            spec = edited_spec(model, request.edits)
            _printed_plan(spec, config, request)
        exported = _export(spec, model, folder, request, on_event)
    cache = request.build.template_cache
    if key is not None and cache is not None and (not request.check or load_recipe(cache, key) is None):
        build = BuildOptions(template_cache=cache, fuse=request.build.fuse)
        save_recipe(key, model, exported.plan, folder, request.out, build)


def _spec_without_weights(config: Any, request: ExportRequest) -> ExportSpec:
    """The spec of a model type without a row, derived from a model without weights; InvalidSpec if that cannot run."""
    try:
        return edited_spec(config, request.edits)
    except InvalidSpec as error:
        raise InvalidSpec(f"{config.model_type} has no row; leave --dry-run out: {error}") from error


def _export_library_model(library: str, request: ExportRequest) -> None:
    """Exports a model of timm or sentence_transformers; the template cache is not used."""
    request = evolve(request, build=evolve(request.build, template_cache=None))
    with stage_line() as on_event:
        on_event(Event("load", request.model))
        model = load_library_model(library, request.model, with_weights=not request.dry_run)
        if request.dry_run:
            _printed_plan(edited_spec(model, request.edits), model, request)
            return
        folder = Path(request.model)
        checkpoint = folder if folder.is_dir() else None  # a name on the hub
        _export(edited_spec(model, request.edits), model, checkpoint, request, on_event)


def _export_pipeline(request: ExportRequest) -> None:
    """Exports each part of a pipeline of diffusers; the template cache is not used."""
    with stage_line() as on_event:
        on_event(Event("load", request.model))
        exported = export_pipeline(
            load_library_model("diffusers", request.model),
            request.out,
            check=request.check,
            overwrite=request.overwrite,
            build=evolve(request.build, template_cache=None),
            write=request.write,
            on_event=on_event,
        )
        for name, part in exported.items():
            typer.echo(f"{name}: {part}")


def _printed_plan(spec: ExportSpec, known: Any, request: ExportRequest) -> Plan:
    """The plan of an export, after it was printed; `known` is a configuration, or a model."""
    layout = resolved_write_options(request.write).layout
    planned = plan_of_variants(spec, request.dtypes, lambda each: plan(each, known, decoders=request.decoders), layout)
    planned = with_remarks(planned, known, layout)
    if request.dry_run:
        trust, first = request.trust_remote_code, planned.parts[0].spec
        is_model = hasattr(known, "state_dict")
        model = known if is_model else model_without_weights(known, first, trust_remote_code=trust)
        planned = with_weight_bytes(planned, model)
    _print_plan(planned, request.edits.task)
    return planned


def _print_plan(plan: Plan, task: str | None) -> None:
    typer.echo(f"task: {plan.task}{'' if task else ' (found)'}\n{plan}")


def _load(
    request: ExportRequest,
    config: Any,
    spec: ExportSpec | PlannedSpec,
    on_event: OnEvent,
    *,
    as_stored: bool = False,
) -> Any:
    on_event(Event("load", request.model))
    trust = request.trust_remote_code
    return load_model(
        request.model, config, spec, trust_remote_code=trust, as_stored=as_stored, dequantize=request.dequantize
    )


def _export(
    spec: ExportSpec, model: Any, checkpoint: Path | None, request: ExportRequest, on_event: OnEvent
) -> Exported:
    exported = export_model(
        spec,
        model,
        request.out,
        checkpoint=checkpoint,
        adapter=request.adapter,
        decoders=request.decoders,
        dtypes=request.dtypes,
        check=request.check,
        floors=request.floors,
        overwrite=request.overwrite,
        build=request.build,
        write=request.write,
        on_event=on_event,
    )
    typer.echo(exported)
    return exported
