"""`ExportJob`: what to export and how, as data; the export of its checkpoint, for the command line and for batches."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, field, frozen

from onnxfn.export.clients.remarks import with_remarks
from onnxfn.export.events import OnEvent, ignore, stage_timer
from onnxfn.export.lookup.loading import checkpoint_folder, load_configuration, load_model
from onnxfn.export.lookup.lookup import has_row, loader_spec
from onnxfn.export.lookup.quantized import checked_quantization
from onnxfn.export.pipeline import export, export_from_recipe
from onnxfn.export.planned_files import plan_of_variants
from onnxfn.export.recipes import load_recipe, recipe_key, save_recipe
from onnxfn.export.spec_edits import SpecEdits, edited_spec, spec_dtype, suffixed_dtypes
from onnxfn.graphs.build import BuildOptions, trace_all_layers
from onnxfn.graphs.cache_folder import default_cache_folder
from onnxfn.graphs.capture.casting import in_float32
from onnxfn.specs.check_modes import CheckMode, check_mode
from onnxfn.specs.converters import as_tuple
from onnxfn.specs.field_types import typed_fields
from onnxfn.specs.measurements import DEFAULT_FLOORS, Floors
from onnxfn.specs.plan.planning import Decoders, plan
from onnxfn.specs.planned import Plan, PlannedSpec
from onnxfn.specs.reports import Exported
from onnxfn.specs.serialize import to_json
from onnxfn.specs.short_repr import short_repr
from onnxfn.specs.spec import ExportSpec
from onnxfn.weights.layouts import HUB
from onnxfn.weights.write import LINK, WriteOptions, resolved_write_options

HUB_LAYOUT = WriteOptions(layout=HUB)


def _as_text(value: str | PathLike[str]) -> Any:
    return fspath(value) if isinstance(value, str | PathLike) else value


def _as_path(value: str | PathLike[str] | None) -> Any:
    return Path(value) if isinstance(value, str | PathLike) else value


@frozen(field_transformer=typed_fields)
class ExportJob:
    """What to export: a checkpoint, where its files go, and how.

    Attributes:
        checkpoint: The folder of a checkpoint of transformers, or a name on the hub.
        path: The folder of the export.
        spec: The spec; None: the spec for the checkpoint, with `edits`.
        edits: What is changed of the spec for the checkpoint, such as its task. They have no effect with `spec`.
        dtypes: Names of dtypes, as for `export`. Empty: the dtype of the spec.
        decoders: The decoder files, as for `export`.
        adapter: The folder of a LoRA adapter that PEFT wrote, as for `export`.
        check: How the files are compared with PyTorch: `whole`, `sections` or `none`, as for `export`.
        floors: What quantized and 16-bit files must reach.
        overwrite: Whether `path` may exist.
        dequantize: Whether a quantized checkpoint is exported with float weights.
        trust_remote_code: Whether code of the checkpoint may run.
        write: How files are laid out. Default: the layout `hub`.
        build: How graphs are built. None: with the template cache of the user.

    >>> ExportJob("models/bert", "onnx/bert").check
    'whole'
    """

    __repr__ = short_repr

    checkpoint: str = field(converter=_as_text)
    path: str = field(converter=_as_text)
    spec: ExportSpec | None = None
    edits: SpecEdits = SpecEdits()
    dtypes: tuple[str, ...] = field(default=(), converter=as_tuple)
    decoders: Decoders = "merged"
    adapter: Path | None = field(default=None, converter=_as_path)
    check: CheckMode = field(default="whole", converter=check_mode)
    floors: Floors = DEFAULT_FLOORS
    overwrite: bool = False
    dequantize: bool = False
    trust_remote_code: bool = False
    write: WriteOptions = HUB_LAYOUT
    build: BuildOptions | None = None


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


def build_of(job: ExportJob) -> BuildOptions:
    """How the graphs of a job are built: as it says, or with the template cache of the user."""
    return job.build or BuildOptions(template_cache=default_cache_folder())


def kind_of(job: ExportJob, folder: Path) -> str | None:
    """A digest that jobs share whose exports differ in the values of the weights alone; None if it has none.

    Of such jobs the first one traces the model. The others get its graphs from the template cache. It is the key of
    their recipe, too.
    """
    build, is_local = build_of(job), folder == Path(job.checkpoint)
    if build.template_cache is None or not is_local or job.adapter:
        return None
    options = {
        **asdict(job.edits),
        **asdict(job.write),
        "spec": None if job.spec is None else to_json(job.spec),
        "dtypes": job.dtypes,
        "decoders": job.decoders,
        "trace_all_layers": build.find_repeats is trace_all_layers,
        "file": Path(job.path).name if job.path.endswith(".onnx") else None,
    }
    return recipe_key(folder, options)


def job_plan(job: ExportJob, spec: ExportSpec, config_or_model: Any) -> Plan:
    """The plan of a job, with what the clients of its layout cannot load of it."""
    layout, dtypes = resolved_write_options(job.write).layout, suffixed_dtypes(job.dtypes, job.write.layout)
    planned = plan_of_variants(spec, dtypes, lambda each: plan(each, config_or_model, decoders=job.decoders), layout)
    return with_remarks(planned, config_or_model, layout)


def job_spec(job: ExportJob, config_or_model: Any) -> ExportSpec:
    """The spec of a job: its own, or that for the checkpoint with its edits, in its dtype if files get no suffix."""
    if job.spec is not None:
        return job.spec
    dtype = spec_dtype(job.dtypes, job.write.layout) if job.dtypes else job.edits.dtype
    return edited_spec(config_or_model, evolve(job.edits, dtype=dtype))


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
        model = _loaded(job, config, loader_spec(config, job.edits.task), on_event)
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
    options = BuildOptions(template_cache=cache, pretranspose=not is_linked)
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
