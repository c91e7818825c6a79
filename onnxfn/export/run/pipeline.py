"""The steps of an export: plan, build the graphs, write files, check them, publish them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from onnxfn.check.variants.proof import check_floors
from onnxfn.check.variants.text_references import text_references
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.publish.publishing import publish, without_own_files
from onnxfn.export.publish.staging import Destination, check_destination, export_target, staging_folder
from onnxfn.export.run.arguments import check_values, merged_adapter, provenance_in_errors, with_checkpoint_weights
from onnxfn.export.run.attempts import build_variants, output_of
from onnxfn.export.run.complete import complete_folder, exported_result, with_quality, write_checkpoint_files
from onnxfn.export.run.events import OnEvent, ignore, limited, stage_timer
from onnxfn.export.run.file_checks import Job
from onnxfn.export.run.loaded import Loaded, write_to_file_object
from onnxfn.export.run.planned_files import plan_for_destination
from onnxfn.export.run.weight_sizes import sized_write_errors, with_checked_buffers
from onnxfn.graphs.build_options import BuildOptions
from onnxfn.models.casting import adapted_copy
from onnxfn.models.submodules import as_module
from onnxfn.models.torch_modes import idle_threads, ticking_operators
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.plan.real_inputs import real_inputs_by_part
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.layouts import layout_of
from onnxfn.weights.side_files import Checkpoint


def export_model(
    request: ExportRequest,
    spec: ExportSpec,
    model: Any,
    path: str | Path | BinaryIO | None,
    build: BuildOptions,
    *,
    config: Any = None,
    checkpoint: Checkpoint | None = None,
    preprocessor: Any = None,
    on_event: OnEvent = ignore,
    timeout: float | None = None,
    values: Mapping[str, Any] | None = None,
) -> Exported:
    """The export of a loaded model, with this spec, as a request says; the report records `values`, its options."""
    folder = None if checkpoint is None else checkpoint.folder
    model = with_checkpoint_weights(as_module(model), folder)
    check_values(model)
    with export_target(path) as (target, owner):
        check_destination(target, overwrite=request.overwrite)
        destination = Destination(target, layout_of(request.write.layout).subfolder)
        input_adapter = request.adapter if spec.target.adapter_inputs else None
        output = output_of(request, build, folder, destination.onnx_folder, input_adapter, preprocessor)
        writing, threads = sized_write_errors(target), idle_threads(request.threads)
        with stage_timer(limited(on_event, timeout)) as (timed, seconds), writing, provenance_in_errors(spec), threads:
            with timed("plan", "") as tick, ticking_operators(tick):
                copied = adapted_copy(model, merged_adapter(spec, request.adapter))
                of_plan = (config, destination, output.options.layout, request.decoders, request.dtypes)
                planned = with_checked_buffers(copied, plan_for_destination(spec, copied, *of_plan))
                real_inputs = real_inputs_by_part(planned, preprocessor)
                check_floors(planned, request.floors)
            texts = text_references(copied, preprocessor, folder)
            with sized_write_errors(target, planned, copied), staging_folder(destination) as staging:
                onnx_staging = staging / destination.onnx_folder.relative_to(destination.folder)
                onnx_staging.mkdir(exist_ok=True)
                of_check = (request.check, real_inputs, texts, request.floors, preprocessor)
                job = Job(copied, planned, onnx_staging, timed, *of_check)
                side_files: list[Path] = []
                if not destination.is_file:
                    written = write_checkpoint_files(model, checkpoint, staging)
                    side_files = without_own_files(written, staging, destination.folder)
                built = with_quality(build_variants(job, output))
                files: Iterable[Path] = built.files
                with timed("complete", "") as tick:
                    if not destination.is_file:
                        files = complete_folder(built, side_files, staging, destination, output.options, values, tick)
                # No event comes after this: what `on_event` raised would leave the files of an export that failed.
                published = publish(files, staging, destination, overwrite=request.overwrite)
        loaded = Loaded(str(target), map(str, published), owner)
        write_to_file_object(loaded, path)
        return exported_result(loaded, built, seconds)
