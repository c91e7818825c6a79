"""Exports the checkpoint of a job, without its model where an earlier export of its kind left a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import asdict, evolve

from onnxfn.export.batch.records import ExportJob
from onnxfn.export.lookup.loading import checkpoint_folder, load_configuration, load_model
from onnxfn.export.lookup.lookup import has_row, loader_spec
from onnxfn.export.lookup.quantized import checked_quantization
from onnxfn.export.pipeline import export, export_from_recipe
from onnxfn.export.recipes import load_recipe, recipe_key, save_recipe
from onnxfn.export.spec_edits import edited_spec, spec_dtype, suffixed_dtypes
from onnxfn.graphs.build import BuildOptions, trace_all_layers
from onnxfn.graphs.cache_folder import default_cache_folder
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.reports import Exported
from onnxfn.specs.serialize import to_json


def export_job(job: ExportJob) -> Exported:
    """Exports the checkpoint of a job.

    An unchecked export of a checkpoint that differs from an earlier one in its weights alone loads no model.

    Raises:
        OnnxfnError: As `export` raises it, and LoadFailed for a checkpoint that cannot be loaded.
    """
    folder, build = checkpoint_folder(job.checkpoint), build_of(job)
    checked_quantization(job.checkpoint, dequantize=job.dequantize)
    key = kind_of(job, folder)
    exported = None if job.check else _from_recipe(job, folder, build, key)
    return exported or _from_model(job, folder, build, key)


def build_of(job: ExportJob) -> BuildOptions:
    """How the graphs of a job are built: as it says, or with the template cache of the user."""
    return job.build or BuildOptions(template_cache=default_cache_folder())


def kind_of(job: ExportJob, folder: Path) -> str | None:
    """A digest that jobs share whose exports differ in the values of the weights alone; None if it has none.

    Of such jobs the first one traces the model. The others get its graphs from the template cache.
    """
    build = build_of(job)
    if build.template_cache is None or job.write.weight_storage == "link" or not folder.is_dir():
        return None
    options = {
        **asdict(job.edits),
        **asdict(job.write),
        "spec": None if job.spec is None else to_json(job.spec),
        "dtypes": job.dtypes,
        "decoders": job.decoders,
        "fuse": build.fuse,
        "trace_all_layers": build.find_repeats is trace_all_layers,
    }
    return recipe_key(folder, options)


def _from_recipe(job: ExportJob, folder: Path, build: BuildOptions, key: str | None) -> Exported | None:
    """Exports without loading the model; None if there is no recipe, or a template of it is missing."""
    recipe = load_recipe(build.template_cache, key)
    if recipe is None or build.template_cache is None:
        return None
    cache, fuse = build.template_cache, build.fuse
    return export_from_recipe(
        recipe, folder, job.path, template_cache=cache, overwrite=job.overwrite, fuse=fuse, write=job.write
    )


def _from_model(job: ExportJob, folder: Path, build: BuildOptions, key: str | None) -> Exported:
    """Loads the model and exports it; saves a recipe for checkpoints of the same kind."""
    config = load_configuration(folder, trust_remote_code=job.trust_remote_code)
    if job.spec is not None or has_row(config):
        spec = job.spec or _spec_for(config, job)
        model = _load(job, config, plan(spec, config, decoders=_decoders(job)).parts[0].spec, as_stored=True)
    else:
        # The spec is derived from the model, so the model is loaded first.
        model = _load(job, config, loader_spec(config, job.edits.task), as_stored=False)
        spec = _spec_for(model, job)
    exported = export(
        spec,
        model,
        job.path,
        checkpoint=folder,
        decoders=_decoders(job),
        dtypes=suffixed_dtypes(job.dtypes, job.write.layout),
        check=job.check,
        floors=job.floors,
        overwrite=job.overwrite,
        build=build,
        write=job.write,
    )
    cache = build.template_cache
    if key is not None and cache is not None and not job.dtypes:
        save_recipe(key, model, exported.plan, folder, Path(job.path), build)
    return exported


def _spec_for(config_or_model: Any, job: ExportJob) -> Any:
    """The spec for the checkpoint with the edits of the job; in its dtype, if the files get no suffix."""
    edits = job.edits
    if job.dtypes:
        edits = evolve(edits, dtype=spec_dtype(job.dtypes, job.write.layout))
    return edited_spec(config_or_model, edits)


def _load(job: ExportJob, config: Any, spec: Any, *, as_stored: bool) -> Any:
    trust, dequantize = job.trust_remote_code, job.dequantize
    return load_model(job.checkpoint, config, spec, trust_remote_code=trust, as_stored=as_stored, dequantize=dequantize)


def _decoders(job: ExportJob) -> Any:
    return job.decoders
