"""The check of the files of a plan: each part, then the model as a whole."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, fields, frozen

from onnxfn.check.cases.references import far_cases, other_sizes, references, stated_limits
from onnxfn.check.check import check as check_part
from onnxfn.check.limits import FoundLimits, found_limits
from onnxfn.check.variants.proof import Proof, as_written, check_error, variant_kind
from onnxfn.check.variants.text_references import TextReferences
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.models.dtypes import in_dtype_if_small
from onnxfn.models.folded_norms import with_folded_norms
from onnxfn.models.forward import torch_outputs
from onnxfn.models.torch_modes import ticking_operators
from onnxfn.run.sessions import kept_session
from onnxfn.specs.algebra.dummies import Array, dummies
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.errors import ModelNotFound, OnnxfnError
from onnxfn.specs.results.measurements import CheckMode, Floors
from onnxfn.specs.stored.reports import Report, StageTimer, no_tick


@frozen
class Job:
    """The files of a plan in a folder, and a copy of the model, on its tensors, with which they are compared."""

    model: Any
    plan: Plan
    folder: Path
    timed: StageTimer
    check: CheckMode
    real_inputs: Mapping[str, Mapping[str, Array]]
    texts: TextReferences
    floors: Floors
    preprocessor: Any


def is_static(part: Part) -> bool:
    """Whether a part has weights whose activations are quantized with scales that are measured before."""
    return any(rule.kind == "static" for rule in part.spec.target.quantization)


def job_of_variant(job: Job, plan: Plan) -> Job:
    """The job of one of the variants of a plan. Static convolutions also do what the batch norms after them do."""
    inputs = ((part, dummies(part.spec, {})) for part in filter(is_static, plan.parts))
    runs = [partial(torch_outputs, part=part, arrays=arrays) for part, arrays in inputs]
    return evolve(job, plan=plan, model=with_folded_norms(job.model, runs) if runs else job.model)


def check_files(job: Job, *, must_pass: bool = False) -> Report:
    """The report on the files of a plan. CheckFailed if it `must_pass`; by sections, no text is decoded."""
    from onnxfn.check.sections.check import check_by_sections
    from onnxfn.check.sections.far_texts import far_text_report
    from onnxfn.check.wholes.whole_models import whole_model_report

    reports: list[Report] = []
    job = evolve(job, plan=as_written(job.plan, job.folder))
    dtype = job.plan.parts[0].spec.target.float_dtype
    model = in_dtype_if_small(job.model, dtype)
    exact = exact_outputs(model, dtype)
    sessions: dict[Path, Any] = {}
    for part in job.plan.parts:
        file, before = job.folder / f"{part.name}.onnx", len(reports)
        if not file.is_file():
            present = ", ".join(sorted(map(str, job.folder.glob("*.onnx")))) or "none"
            raise ModelNotFound(f"no {file.name} in {job.folder}; ONNX files there: {present}")
        with job.timed("check", part.name) as tick, ticking_operators(tick):
            text = None if variant_kind(part.spec) is None else job.texts(part, job.plan)
            of_part, proof = (model, part, file), Proof(text, job.floors, job.model)
            real, session_for = job.real_inputs.get(part.name), partial(kept_session, sessions, tick)
            if job.check == "sections":
                reports.append(check_by_sections(*of_part, exact=exact, proof=proof, real_inputs=real, tick=tick))
            else:
                limits = stated_limits(file)
                others = other_sizes(part, file)
                with_model = partial(references, part=part, real_inputs=real, limits=limits, others=others, tick=tick)
                checked = partial(check_part, *of_part, job.plan, exact=exact, tick=tick)
                reports.append(checked(session_for=session_for, expected=with_model, proof=proof))
            far = far_cases(*of_part) if reports[-1].passed else ()
            if far:
                reports.append(far_text_report(*of_part, far, tick=tick))
            if job.check == "whole" and part is job.plan.parts[-1] and joined(reports).passed:
                of_whole = partial(whole_model_report, model, job.plan, job.folder, session_for, exact, tick)
                reports.append(of_whole(job.preprocessor, Proof(None, job.floors, job.model)))
            tick(*[len(joined(reports[before:]).cases)] * 2)  # with those that only the files show to be needed
            if must_pass and part is job.plan.parts[-1] and not joined(reports).passed:
                raise check_error(joined(reports))
    return joined(reports)


def joined(reports: Sequence[Report]) -> Report:
    """The reports on the parts of a plan as a single one."""
    every = {
        each.name: [value for report in reports for value in getattr(report, each.name)] for each in fields(Report)
    }
    return Report(**{**every, "cases": dict.fromkeys(every["cases"])})


def faults_of(job: Job, graphs: Sequence[BuiltGraph]) -> tuple[FoundLimits, ...]:
    """Where the file of each part is wrong, which has this graph."""
    dtype = job.plan.parts[0].spec.target.float_dtype
    model = in_dtype_if_small(job.model, dtype)
    session_for, exact = partial(kept_session, {}, no_tick), exact_outputs(model, dtype)

    def found_in(part: Part, graph: BuiltGraph) -> FoundLimits:
        with job.timed("check", part.name) as tick, ticking_operators(tick):
            return found_limits(model, part, job.folder / f"{part.name}.onnx", session_for, exact, graph.guards, tick)

    try:
        return tuple(map(found_in, job.plan.parts, graphs))
    except OnnxfnError:  # a file cannot be loaded at all
        return ()
