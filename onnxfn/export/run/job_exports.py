"""The export of a job's checkpoint, for the command line and for batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.export.clients.side_files import with_remarks
from onnxfn.export.find.lookup import has_row, loader_spec
from onnxfn.export.jobs.identity import kind_of
from onnxfn.export.jobs.jobs import ExportJob, build_of
from onnxfn.export.jobs.recipes import load_recipe, save_recipe
from onnxfn.export.load.loading import checkpoint_folder, load_configuration, load_model
from onnxfn.export.load.quantized import checked_quantization
from onnxfn.export.run.events import OnEvent, ignore, stage_timer
from onnxfn.export.run.pipeline import export, export_from_recipe
from onnxfn.export.run.planned_files import plan_of_variants
from onnxfn.export.run.spec_edits import edited_spec, spec_dtype, suffixed_dtypes
from onnxfn.graphs.build import BuildOptions, trace_all_layers
from onnxfn.models.casting import in_float32
from onnxfn.specs.algebra.planned import Plan, PlannedSpec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.write import LINK, resolved_write_options

OnPlan = Callable[[Plan], None]
"""Is called with the plan of an export before weights are read, or after they are where the spec is derived."""


def ignore_plan(_: Plan) -> None:
    """Ignores a plan."""


def export_job(job: ExportJob, on_event: OnEvent = ignore, on_plan: OnPlan = ignore_plan) -> Exported:
    """Exports the checkpoint of a job.

    An unchecked export of a checkpoint that differs from an earlier one in its weights alone loads no model.

    Raises:
        OnnxfnError: As `export` raises it, and LoadFailed for a checkpoint that cannot be loaded.
    """
    folder = checkpoint_folder(job.checkpoint)
    checked_quantization(job.checkpoint, dequantize=job.dequantize)
    job = evolve(job, build=build_of(job))
    key = kind_of(job, folder)
    exported = None if job.check != "none" else _from_recipe(job, folder, key, on_event)
    if exported is not None:
        on_plan(exported.plan)
        return exported
    return _from_model(job, folder, key, on_event, on_plan)


def job_plan(job: ExportJob, spec: ExportSpec, config_or_model: Any) -> Plan:
    """The plan of a job, with what the clients of its layout cannot load of it."""
    layout, dtypes = resolved_write_options(job.write).layout, suffixed_dtypes(job.dtypes, job.write.layout)
    planned = plan_of_variants(spec, dtypes, lambda each: plan(each, config_or_model, decoders=job.decoders), layout)
    return with_remarks(planned, config_or_model, layout)


def job_spec(job: ExportJob, config_or_model: Any) -> ExportSpec:
    """The spec of a job: its own, or that for the checkpoint with its edits, in its dtype if files get no suffix."""
    if job.spec is not None:
        return job.spec
    return edited_spec(config_or_model, job.edits, spec_dtype(job.dtypes, job.write.layout))


def export_loaded(
    job: ExportJob, spec: ExportSpec, model: Any, checkpoint: Path | None, on_event: OnEvent = ignore
) -> Exported:
    """Exports a model that is loaded, as a job says."""
    return export(
        spec,
        model,
        job.path,
        checkpoint=checkpoint,
        adapter=job.adapter,
        decoders=job.decoders,
        dtypes=suffixed_dtypes(job.dtypes, job.write.layout),
        check=job.check,
        floors=job.floors,
        overwrite=job.overwrite,
        build=build_of(job),
        write=job.write,
        on_event=on_event,
    )


def _from_recipe(job: ExportJob, folder: Path, key: str | None, on_event: OnEvent) -> Exported | None:
    """Exports without loading the model; None if there is no recipe, or a template of it is missing."""
    build = build_of(job)
    recipe = load_recipe(build.template_cache, key)
    if recipe is None or build.template_cache is None:
        return None
    return export_from_recipe(
        recipe,
        folder,
        job.path,
        template_cache=build.template_cache,
        overwrite=job.overwrite,
        write=job.write,
        on_event=on_event,
    )


def _from_model(job: ExportJob, folder: Path, key: str | None, on_event: OnEvent, on_plan: OnPlan) -> Exported:
    """Loads the model and exports it; saves a recipe for checkpoints of the same kind."""
    config = load_configuration(folder, trust_remote_code=job.trust_remote_code)
    if job.spec is not None or has_row(config):
        spec = job_spec(job, config)
        planned = job_plan(job, spec, config)
        on_plan(planned)
        model = _loaded(job, config, planned.parts[0].spec, on_event)
    else:
        # The spec is derived from the model, so the model is loaded first. It runs in float32, which its inputs have.
        model = _loaded(job, config, loader_spec(config, job.task), on_event)
        with in_float32(model):
            spec = job_spec(job, model)
        on_plan(job_plan(job, spec, model))
    exported = export_loaded(job, spec, model, folder, on_event)
    _save_recipe(job, key, model, exported, folder)
    return exported


def _save_recipe(job: ExportJob, key: str | None, model: Any, exported: Exported, folder: Path) -> None:
    """Saves a recipe of an export; after a check only if there is none, since a checked export reads none."""
    build = build_of(job)
    cache = build.template_cache
    has_variants = bool(suffixed_dtypes(job.dtypes, job.write.layout))
    if key is None or cache is None or has_variants or (job.check != "none" and load_recipe(cache, key) is not None):
        return
    is_linked = job.write.weight_storage == LINK
    find_repeats = trace_all_layers if job.check == "none" else build.find_repeats
    options = BuildOptions(template_cache=cache, pretranspose=not is_linked, find_repeats=find_repeats)
    save_recipe(key, model, exported.plan, folder, Path(job.path), options)


def _loaded(job: ExportJob, config: Any, spec: ExportSpec | PlannedSpec, on_event: OnEvent) -> Any:
    """The model of a checkpoint; the stage `load` runs meanwhile."""
    with stage_timer(on_event) as (timed, _), timed("load", job.checkpoint) as tick:
        return load_model(
            job.checkpoint,
            config,
            spec,
            trust_remote_code=job.trust_remote_code,
            as_stored=True,
            dequantize=job.dequantize,
            tick=tick,
        )
