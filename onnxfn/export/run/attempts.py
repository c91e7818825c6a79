"""Builds the graphs of a plan, writes them to files and checks these; in other ways if the first graphs are wrong."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from onnxfn.check.check import limited_to_tried
from onnxfn.check.variants.proof import check_error, differs_by_rounding
from onnxfn.export.jobs.request import ExportRequest
from onnxfn.export.load.calibration import Left, Source, calibrated, left_lines
from onnxfn.export.load.mixed_bits import with_chosen_bits
from onnxfn.export.load.quantized import weights_text
from onnxfn.export.run import retries
from onnxfn.export.run.arguments import check_layers, check_with_adapter, provider_remarks, write_input_adapter
from onnxfn.export.run.file_checks import Job, check_files, faults_of, is_static, job_of_variant, joined
from onnxfn.export.run.retries import Failure, Output
from onnxfn.graphs.build import build_graph, captured_once, drop_templates, traced_fully
from onnxfn.graphs.build_options import BuildOptions, trace_all_layers, with_functions
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.models.dtypes import has_dtype, without_values
from onnxfn.models.torch_modes import ticking_operators
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, OnnxfnError, TimedOut, WriteFailed, listed
from onnxfn.specs.plan.variants import plans_by_dtype
from onnxfn.specs.stored.reports import CheckFailed, Report
from onnxfn.weights.write import LINK, resolved_write_options, with_checkpoint_entries, write_graphs

RETRACED = "all layers were traced because the graph built from repeated or cached layers failed the check"


def output_of(
    request: ExportRequest,
    build: BuildOptions,
    checkpoint: Path | None,
    folder: Path,
    adapter: Path | None,
    preprocessor: Any,
) -> Output:
    """How a request builds and writes its graphs. Linked weights stay as in the checkpoint: none may be transposed."""
    options = with_checkpoint_entries(
        resolved_write_options(request.write), checkpoint, folder, overwrite=request.overwrite
    )
    pretranspose = build.pretranspose and options.weight_storage != LINK
    source = Source(request.calibration, preprocessor, checkpoint)
    return Output(evolve(build, pretranspose=pretranspose), options, source, adapter)


@frozen
class Built:
    """The graphs of a plan, written to files as from `write_graphs`; the report is None without a check."""

    plan: Plan
    graphs: tuple[BuiltGraph, ...]
    files: Mapping[Path, str]
    report: Report | None
    traced_layers: tuple[str, ...]
    weights_from: str = ""


def build_variants(job: Job, output: Output) -> Built:
    """Builds the graphs of each variant of a plan, writes and checks them, one variant after the other."""
    if job.check == "none":
        output = evolve(output, build=evolve(output.build, find_repeats=trace_all_layers))
    built, plans = [], plans_by_dtype(job.plan)
    for dtype, plan in plans.items():
        with _dtype_in_errors(dtype if len(plans) > 1 else None):
            if any(rule.within for part in plan.parts for rule in part.spec.target.quantization):
                plan = with_chosen_bits(output.source, job.model, plan, job.timed)  # noqa: PLW2901 - its rules state bits
            own = job_of_variant(job, plan)
            of_model = output if own.model is job.model else evolve(output, unbound_graph=captured_once())
            built.append(build_until_checked(own, of_model))
    return built[0] if len(built) == 1 else _joined_variants(built)


@contextmanager
def _dtype_in_errors(dtype: str | None) -> Iterator[None]:
    """Adds to an error the dtype of the variant that failed, and what to do."""
    try:
        yield
    except OnnxfnError as error:
        if dtype is not None and not isinstance(error, TimedOut | WriteFailed):  # these fail for any dtype
            advice = f"no file of any dtype was written; leave {dtype!r} out of dtypes to export the others"
            error.args = (f"{dtype}: {error}; {advice}",)
        raise


def _joined_variants(built: Sequence[Built]) -> Built:
    """The graphs, files and reports of all variants as those of one plan."""
    first, reports = built[0], [each.report for each in built if each.report is not None]
    return Built(
        evolve(
            first.plan,
            parts=tuple(part for each in built for part in each.plan.parts),
            chosen=tuple(chosen for each in built for chosen in each.plan.chosen),
            remarks=dict.fromkeys(remark for each in built for remark in each.plan.remarks),
        ),
        tuple(graph for each in built for graph in each.graphs),
        {file: digest for each in built for file, digest in each.files.items()},
        joined(reports) if reports else None,
        tuple(dict.fromkeys(line for each in built for line in each.traced_layers)),
        "; ".join(dict.fromkeys(each.weights_from for each in built if each.weights_from)),
    )


def build_until_checked(job: Job, output: Output) -> Built:
    """Builds, writes and checks the graphs of a plan; after a failure again, as RETRIES say, each with an event."""
    attempt, failures, reasons = (job, output), list[Failure](), dict[str, str]()
    first = result = _tried(*attempt)
    may_overflow = any(part.spec.target.float_dtype == "float16" for part in job.plan.parts)
    if job.check == "whole" and may_overflow:
        attempt, result = _without_overflow(*attempt, first, reasons)
        failures += [first] if isinstance(first, Failure) and isinstance(result, Failure) else []
    searched = result
    for stage, change in retries.RETRIES:
        if isinstance(result, Built) or _is_rounding(result.error):
            break
        failures.append(result)
        changed = change(job, output, _telling(failures))
        if changed is not None:
            attempt, result = changed, _retried(job, stage, *changed)
    if isinstance(result, Failure):
        raise next(failure.error for failure in (result, *reversed(failures)) if failure.plan is job.plan)
    if job.check == "whole" and may_overflow and result is not searched:
        attempt, result = _without_overflow(*attempt, result, reasons)
        if isinstance(result, Failure):
            raise result.error
    both = retries.with_other_sides(job, *attempt, result.graphs)
    if both is not None:
        wider = _retried(job, "both sides", *both)
        if isinstance(wider, Failure) and any(fault.limits for fault in wider.faults):
            within = retries.limited(*both, wider)
            wider = wider if within is None else _retried(job, "limits of sizes", *within)
        result = wider if isinstance(wider, Built) else _retried(job, "one side", *attempt)
        assert isinstance(result, Built)
    retries.check_asked_ranges(job, result.graphs)
    retraced = [reason for failure in failures if (reason := _reason_to_retrace(failure))]
    lines = retries.unsearched_lines(job, result.graphs, reasons) if may_overflow else []
    plan = _with_lines(result.plan, [*retries.outside_limits(job, result.graphs), *lines])
    return evolve(result, plan=plan, traced_layers=tuple(retraced[:1]) or result.traced_layers)


def _telling(failures: Sequence[Failure]) -> Failure:
    """Of failures whose wrong sizes are known, the one with limits and the fewest of them; else the first."""

    def wrong(failure: Failure) -> tuple[bool, int]:
        return not any(fault.limits for fault in failure.faults), sum(len(fault.wrong) for fault in failure.faults)

    return min((each for each in failures if each.faults), key=wrong, default=failures[0])


def _without_overflow(
    job: Job, output: Output, first: Built | Failure, reasons: dict[str, str]
) -> tuple[tuple[Job, Output], Built | Failure]:
    """The last of more attempts that keep values in float32, until none overflows; the first if only they are wrong."""
    attempt, result = (job, output), first
    for _ in range(3):  # what is larger without bounds may make more values overflow
        if isinstance(result, Failure) and not isinstance(result.error, CheckFailed):
            break
        models = [graph.model for graph in result.graphs]
        changed = retries.with_wide_values(*attempt, models, reasons, in_all_cases=isinstance(result, Failure))
        if changed is None:
            break
        attempt, result = changed, _retried(job, "float32 values", *changed, result.graphs)
    if isinstance(result, Failure) and isinstance(first, Built):
        remarks = [remark.removesuffix(retries.KEPT) for remark in attempt[0].plan.remarks]
        attempt = evolve(job, plan=evolve(job.plan, remarks=remarks)), output
        result = _retried(job, "float16 values", *attempt)
    return attempt, result


def _retried(
    job: Job, stage: str, changed: Job, output: Output, graphs: tuple[BuiltGraph, ...] = ()
) -> Built | Failure:
    """Another attempt, with an event of its stage before."""
    with job.timed(stage, ""):
        pass
    try:
        return _tried(changed, output, graphs)
    except InvalidSpec as error:  # no inputs have the sizes of this attempt
        return Failure(error, changed.plan, graphs)


def _is_rounding(error: Exception) -> bool:
    return isinstance(error, CheckFailed) and differs_by_rounding(error.report)


def _reason_to_retrace(failure: Failure) -> str:
    """Why all layers were traced after a failure; an empty text if all had been traced before."""
    if all(map(traced_fully, failure.graphs)):
        return ""
    error = failure.error
    return RETRACED if isinstance(error, OnnxfnError) else f"{RETRACED}: {type(error).__name__} {error}"


def _tried(job: Job, output: Output, graphs: tuple[BuiltGraph, ...] = ()) -> Built | Failure:
    """The graphs of a plan, written and checked, or why they failed. Without graphs, they are built."""
    try:
        graphs = graphs or _graphs(job, output)
        return _written(job, output, graphs)
    except (CaptureFailed, CheckFailed, KeyError, TypeError) as error:
        drop_templates(output.build, graphs)
        is_checked = isinstance(error, CheckFailed) and not _is_rounding(error) and job.check == "whole"
        return Failure(error, job.plan, graphs, faults_of(job, graphs) if is_checked else ())


def _graphs(job: Job, output: Output) -> tuple[BuiltGraph, ...]:
    """The graph of each part. A model is traced without values; its weights are converted when they are written."""
    traced = cache(partial(_traced_model, job))
    build = partial(build_graph, unbound_graph=output.unbound_graph)
    graphs = tuple(
        build(traced(part.spec.target.float_dtype), part, job.timed, output.build, job.model) for part in job.plan.parts
    )
    unused = set.intersection(*({*graph.unused_patches} for graph in graphs))
    if unused:
        raise InvalidSpec(
            f"the patch of {listed(sorted(unused))} has no effect: {type(job.model).__name__} does not call that; "
            "patch what it calls, such as package.module:Class.forward, or a function in the module that imports it"
        )
    return graphs


def _traced_model(job: Job, dtype: str | None) -> Any:
    """The model to trace in a float dtype. The stage `convert` runs while it is made."""
    if dtype is None or has_dtype(job.model, dtype):
        return job.model
    with job.timed("convert", "") as tick, ticking_operators(tick):
        return without_values(job.model, dtype)


def _with_codes(job: Job, output: Output, part: Part, graph: Any, left: Any) -> Any:
    """The graph of a part with what its rules choose by runs on real inputs, if any does. `left`: see `calibrated`."""
    if not is_static(part) and not any(rule.calibrated for rule in part.spec.target.quantization):
        return graph
    return calibrated(output.source, job.model, part, job.plan, graph, job.timed, left)


def _written(job: Job, output: Output, graphs: tuple[BuiltGraph, ...]) -> Built:
    """Writes the files, and checks them if the job says so. Raises CheckFailed if the check does not pass."""
    pairs = zip(job.plan.parts, graphs, strict=True)
    graphs = tuple(limited_to_tried(*pair, is_checked=job.check == "whole") for pair in pairs)
    remarks = provider_remarks(job.plan, [graph.model for graph in graphs])
    pairs = zip(job.plan.parts, graphs, strict=True)
    left: Left = {}
    models = [_with_codes(job, output, part, graph.model, left) for part, graph in pairs]
    if output.wide:
        retries.keep_values(job.plan, output, models)
    check_layers(job.model, job.plan, models)
    written = [*map(with_functions, models)] if output.options.functions else models
    files = write_graphs(job.plan, written, job.folder, output.options, job.timed, check=job.check != "none")
    if output.adapter is not None:
        files |= dict.fromkeys(write_input_adapter(output.adapter, job.plan, models, job.folder), "")
    report = check_files(job, must_pass=True) if job.check != "none" else None
    if report is not None and output.adapter is not None:
        reports = check_with_adapter(job.model, job.plan, models, job.folder, output.adapter, job.timed, job.floors)
        report = joined((report, *reports))
        if not report.passed:
            raise check_error(report)
    traced = dict.fromkeys(graph.traced_layers for graph in graphs if graph.traced_layers)
    stored = {name for graph in graphs for name in graph.stored}
    plan = _with_lines(job.plan, (*remarks, *(left_lines(left) if left else ())))
    return Built(plan, graphs, files, report, tuple(traced), weights_text(job.model, stored))


def _with_lines(plan: Plan, lines: Sequence[str]) -> Plan:
    """A plan with more remarks; the plan itself without any."""
    return evolve(plan, remarks=dict.fromkeys((*plan.remarks, *lines))) if lines else plan
