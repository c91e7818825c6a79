"""What the command `export` does: it finds the spec, loads the model, exports it, prints the plan and the result."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import asdict, evolve

from onnxfn.export.cli_print import say
from onnxfn.export.cli_progress import stages
from onnxfn.export.cli_request import ExportRequest
from onnxfn.export.cli_results import pipeline_text, plan_text, result_text
from onnxfn.export.clients.remarks import with_remarks
from onnxfn.export.destination import Destination, check_destination
from onnxfn.export.diffusers import export_pipeline
from onnxfn.export.events import OnEvent, stage_timer
from onnxfn.export.lookup.gguf import checked_gguf, is_gguf, load_gguf, load_gguf_tokenizer
from onnxfn.export.lookup.loading import (
    checkpoint_folder,
    load_configuration,
    load_library_model,
    load_model,
    model_without_weights,
)
from onnxfn.export.lookup.lookup import has_row, loader_spec
from onnxfn.export.lookup.quantized import checked_quantization
from onnxfn.export.pipeline import export as export_model
from onnxfn.export.pipeline import export_from_recipe
from onnxfn.export.planned_files import plan_of_variants
from onnxfn.export.recipes import load_recipe, recipe_key, save_recipe
from onnxfn.export.result_json import json_text, pipeline_content, plan_content, result_content
from onnxfn.export.spec_edits import edited_spec
from onnxfn.export.weight_sizes import with_weight_bytes
from onnxfn.graphs.build import BuildOptions, trace_all_layers
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.planned import Plan, PlannedSpec
from onnxfn.specs.reports import Exported
from onnxfn.specs.spec import ExportSpec
from onnxfn.weights.write import resolved_write_options

DRY_RUN_LIBRARIES = ("transformers", "timm")
"""The libraries that make a model of a folder without its weights."""


def export_from_library(library: str, request: ExportRequest) -> None:
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
        _export_pipeline(request)
    else:
        _export_library_model(library, request)


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
    with TemporaryDirectory() as folder:
        with stages(request.form) as on_event:
            with stage_timer(on_event) as (timed, _), timed("load", request.model) as tick:
                model = load_gguf(file, dequantize=request.dequantize, tick=tick)
            load_gguf_tokenizer(file).save_pretrained(folder)
            spec = edited_spec(model, request.edits)
            _printed_plan(spec, model.config, request)
            exported = None if request.dry_run else _exported(spec, model, Path(folder), request, on_event)
        _print_result(exported, request)


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
    with stages(request.form) as on_event:
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
    _print_plan(exported.plan, request)
    _print_result(exported, request)
    return True


def _export_from_model(request: ExportRequest, folder: Path, key: str | None) -> None:
    """Loads the model of a checkpoint and exports it; saves a recipe for checkpoints of the same kind."""
    config = load_configuration(folder, trust_remote_code=request.trust_remote_code)
    with stages(request.form) as on_event:
        if has_row(config) or request.dry_run:
            spec = edited_spec(config, request.edits) if has_row(config) else _spec_without_weights(config, request)
            planned = _printed_plan(spec, config, request)
            if request.dry_run:
                return
            model = _loaded(request, config, planned.parts[0].spec, on_event, as_stored=True)
        else:
            # The spec is derived from the model, so the model is loaded first.
            model = _loaded(request, config, loader_spec(config, request.edits.task), on_event)
            spec = edited_spec(model, request.edits)
            _printed_plan(spec, config, request)
        exported = _exported(spec, model, folder, request, on_event)
    _print_result(exported, request)
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
    with stages(request.form) as on_event:
        with stage_timer(on_event) as (timed, _), timed("load", request.model):
            model = load_library_model(library, request.model, with_weights=not request.dry_run)
        spec = edited_spec(model, request.edits)
        _printed_plan(spec, model, request)
        folder = Path(request.model)
        checkpoint = folder if folder.is_dir() else None  # a name on the hub
        exported = None if request.dry_run else _exported(spec, model, checkpoint, request, on_event)
    _print_result(exported, request)


def _export_pipeline(request: ExportRequest) -> None:
    """Exports each part of a pipeline of diffusers; the template cache is not used."""
    with stages(request.form) as on_event:
        with stage_timer(on_event) as (timed, _), timed("load", request.model):
            pipeline = load_library_model("diffusers", request.model)
        exported = export_pipeline(
            pipeline,
            request.out,
            check=request.check,
            overwrite=request.overwrite,
            build=evolve(request.build, template_cache=None),
            write=request.write,
            on_event=on_event,
        )
    match request.form:
        case "json":
            say(json_text(pipeline_content(str(request.out), exported)))
        case "verbose":
            say("\n".join(f"{name}: {part}" for name, part in exported.items()))
        case _:
            say(pipeline_text(str(request.out), exported))


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
    _print_plan(planned, request)
    return planned


def _print_plan(plan: Plan, request: ExportRequest) -> None:
    """Prints the task, and the plan where it is all that is printed, or where everything is."""
    if request.form == "json":
        if request.dry_run:
            destination = Destination(request.out, resolved_write_options(request.write).layout.subfolder)
            say(json_text(plan_content(plan, destination)))
        return
    say(f"task: {plan.task}{'' if request.edits.task else ' (found)'}")
    if request.form == "verbose":
        say(plan)
    elif request.dry_run:
        say(plan_text(plan))


def _print_result(exported: Exported | None, request: ExportRequest) -> None:
    """Prints the result of an export in the form that is asked for; nothing if nothing was exported."""
    if exported is None:
        return
    match request.form:
        case "json":
            say(json_text(result_content(exported)))
        case "verbose":
            say(exported)
        case _:
            say(result_text(exported))


def _loaded(
    request: ExportRequest,
    config: Any,
    spec: ExportSpec | PlannedSpec,
    on_event: OnEvent,
    *,
    as_stored: bool = False,
) -> Any:
    """The model of a checkpoint; the stage `load` runs meanwhile."""
    trust, dequantize = request.trust_remote_code, request.dequantize
    with stage_timer(on_event) as (timed, _), timed("load", request.model) as tick:
        return load_model(
            request.model,
            config,
            spec,
            trust_remote_code=trust,
            as_stored=as_stored,
            dequantize=dequantize,
            tick=tick,
        )


def _exported(
    spec: ExportSpec, model: Any, checkpoint: Path | None, request: ExportRequest, on_event: OnEvent
) -> Exported:
    return export_model(
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
