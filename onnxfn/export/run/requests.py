"""The export of a request: its checkpoint is loaded, its spec found and edited, its files written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve

from onnxfn.export.find.lookup import has_row, loader_spec
from onnxfn.export.jobs.options import TRANSFORMERS
from onnxfn.export.jobs.request import ExportRequest, build_of, recorded_values
from onnxfn.export.load.folders import checkpoint_folder, refuse_revision_of_files
from onnxfn.export.load.loading import load_configuration, load_library_model, load_model, model_without_weights
from onnxfn.export.load.quantized import checked_quantization, is_gguf, load_gguf, load_gguf_tokenizer
from onnxfn.export.run.events import OnEvent, ignore, stage_timer
from onnxfn.export.run.pipeline import export_model
from onnxfn.export.run.spec_edits import plan_of, spec_of, suffixed_of
from onnxfn.export.run.weight_sizes import with_checked_buffers, with_weight_bytes
from onnxfn.models.casting import cast_on_use
from onnxfn.specs.algebra.planned import Plan, PlannedSpec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.side_files import Checkpoint, check_unchanged, read_checkpoint


def export_request(
    request: ExportRequest, on_event: OnEvent = ignore, on_plan: Callable[[Plan], None] = ignore
) -> Exported:
    """Exports the model of a request: a checkpoint of transformers, a GGUF file, or a model of another library."""
    if request.library != TRANSFORMERS or is_gguf(request.checkpoint):
        with _loaded_elsewhere(request, on_event) as (model, other):
            spec = spec_of(request, model)
            on_plan(plan_of(request, spec, model))
            return _export_loaded(request, spec, model, other, on_event)
    checkpoint = read_checkpoint(checkpoint_folder(request.checkpoint, revision=request.revision))
    config = _configuration(request, checkpoint.folder)
    if request.spec is not None or has_row(config):
        spec = spec_of(request, config)
        planned = plan_of(request, spec, config)
        on_plan(planned)
        model = _loaded(request, config, planned.parts[0].spec, checkpoint.folder, on_event)
    else:
        import torch

        # The spec is derived from the model, so the model is loaded first. It runs in float32, which its inputs have.
        model = _loaded(request, config, loader_spec(config, request.task), checkpoint.folder, on_event)
        with cast_on_use(model, torch.float32):
            spec = spec_of(request, model)
        on_plan(plan_of(request, spec, model))
    return _export_loaded(request, spec, model, checkpoint, on_event)


def request_plan(request: ExportRequest, on_event: OnEvent = ignore) -> Plan:
    """The plan of a request, with the bytes of its weights. Of a checkpoint with a configuration no weight is read."""
    if request.library not in (TRANSFORMERS, "timm"):
        raise InvalidSpec(
            f"--dry-run reads no weight, and {request.library} makes no model without its weights; leave --dry-run "
            "out, or name a folder in it with a checkpoint of transformers, with --library transformers"
        )
    if request.library != TRANSFORMERS or is_gguf(request.checkpoint):
        with _loaded_elsewhere(request, on_event, with_weights=False) as (model, _):
            planned = plan_of(request, spec_of(request, model), model)
            return with_checked_buffers(model, with_weight_bytes(planned, model))
    config = _configuration(request, checkpoint_folder(request.checkpoint, revision=request.revision))
    try:
        spec = spec_of(request, config)
    except InvalidSpec as error:
        if has_row(config):
            raise
        raise InvalidSpec(f"{config.model_type} has no row; leave --dry-run out: {error}") from error
    planned = plan_of(request, spec, config)
    model = model_without_weights(config, planned.parts[0].spec, trust_remote_code=request.trust_remote_code)
    return with_checked_buffers(model, with_weight_bytes(planned, model))


def _configuration(request: ExportRequest, folder: Path) -> Any:
    """The configuration of a checkpoint. LoadFailed as `load_model` raises it for a quantized checkpoint."""
    checked_quantization(request.checkpoint, dequantize=request.dequantize)
    return load_configuration(folder, trust_remote_code=request.trust_remote_code)


def _export_loaded(
    request: ExportRequest, spec: ExportSpec, model: Any, checkpoint: Checkpoint | None, on_event: OnEvent
) -> Exported:
    """Exports a model that is loaded, as a request says. LoadFailed if its checkpoint changed meanwhile."""
    if checkpoint is not None:
        check_unchanged(checkpoint)
    of_model = (evolve(request, dtypes=suffixed_of(request)), spec, model, request.path, build_of(request))
    return export_model(*of_model, checkpoint=checkpoint, on_event=on_event, values=recorded_values(request))


def _loaded(
    request: ExportRequest, config: Any, spec: ExportSpec | PlannedSpec, folder: Path, on_event: OnEvent
) -> Any:
    """The model of a checkpoint, from the commit of its configuration; the stage `load` runs meanwhile."""
    revision = None if Path(request.checkpoint).is_dir() else folder.name
    with stage_timer(on_event) as (timed, _), timed("load", request.checkpoint) as tick:
        trust, dequantize = request.trust_remote_code, request.dequantize
        load = partial(load_model, request.checkpoint, config, spec, trust_remote_code=trust, dequantize=dequantize)
        return load(as_stored=True, revision=revision, tick=tick)


@contextmanager
def _loaded_elsewhere(
    request: ExportRequest, on_event: OnEvent, *, with_weights: bool = True
) -> Iterator[tuple[Any, Checkpoint | None]]:
    """The model of a GGUF file or of another library, and its other files if they are in a folder."""
    name, path = request.checkpoint, Path(request.checkpoint)
    if request.library == "diffusers":
        raise InvalidSpec(f"{name} is a pipeline of diffusers, which is an export for each part: export_pipeline")
    if request.library == TRANSFORMERS:  # a GGUF file
        refuse_revision_of_files(name, request.revision)
    with stage_timer(on_event) as (timed, _), TemporaryDirectory() as folder:
        if request.library != TRANSFORMERS:
            checkpoint = read_checkpoint(path) if path.is_dir() else None  # else a name on the hub
            with timed("load", name):
                how: dict[str, Any] = {"trust_remote_code": request.trust_remote_code, "revision": request.revision}
                model = load_library_model(request.library, name, with_weights=with_weights, **how)
            yield model, checkpoint
            return
        with timed("load", name) as tick:
            model = load_gguf(path, dequantize=request.dequantize, tick=tick)
        load_gguf_tokenizer(path).save_pretrained(folder)
        yield model, read_checkpoint(Path(folder))
