"""The export of a job's checkpoint, for the command line and for batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from onnxfn.export.clients.side_files import with_remarks
from onnxfn.export.find.lookup import has_row, loader_spec
from onnxfn.export.jobs.jobs import ExportJob, build_of
from onnxfn.export.load.loading import checkpoint_folder, load_configuration, load_model
from onnxfn.export.load.quantized import checked_quantization
from onnxfn.export.run.events import OnEvent, ignore, stage_timer
from onnxfn.export.run.pipeline import export
from onnxfn.export.run.planned_files import plan_of_variants
from onnxfn.export.run.spec_edits import edited_spec, spec_dtype, suffixed_dtypes
from onnxfn.models.casting import in_float32
from onnxfn.specs.algebra.planned import Plan, PlannedSpec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.write import resolved_write_options

OnPlan = Callable[[Plan], None]
"""Is called with the plan of an export before weights are read, or after they are where the spec is derived."""


def export_job(job: ExportJob, on_event: OnEvent = ignore, on_plan: OnPlan = ignore) -> Exported:
    """Exports the checkpoint of a job.

    Raises:
        OnnxfnError: As `export` raises it, and LoadFailed for a checkpoint that cannot be loaded.
    """
    folder = checkpoint_folder(job.checkpoint)
    checked_quantization(job.checkpoint, dequantize=job.dequantize)
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
    return export_loaded(job, spec, model, folder, on_event)


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
