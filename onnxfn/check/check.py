"""Compares an ONNX file with PyTorch in the cases of its part, at other sizes than those it was traced with."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.check.cases.interface import interface_findings, size_findings
from onnxfn.check.cases.references import (
    OutputArrays,
    Reference,
    other_sizes,
    random_findings,
    references,
    stated_limits,
    unreached_sides,
    untried,
    with_outputs,
)
from onnxfn.check.texts.decoded_texts import SessionOpener, decoded_text_comparisons
from onnxfn.check.variants.file_weights import quantized_file
from onnxfn.check.variants.float_form import body_form, float_form, name_in_memory
from onnxfn.check.variants.proof import NO_PROOF, Proof, has_bodies, is_proven_apart, is_quantized, variant_measurements
from onnxfn.check.variants.quantized_weights import WeightError, quantized_weight_errors
from onnxfn.check.verdict.case_comparisons import CheckedFile, agreeing_with_any_case, case_comparisons
from onnxfn.check.verdict.verdict import Comparison, ExactOutputs, exact_outputs, rounding_decides
from onnxfn.graphs.traced_graphs import noted_conditions, with_assumed_limits, with_limits
from onnxfn.models.dtypes import in_dtype_if_small
from onnxfn.run.sessions import check_options, kept_session, open_check_session, silent_options, watched_session
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.quantization import REACH
from onnxfn.specs.stored.reports import CheckFailed, Difference, Report, Tick, no_tick
from onnxfn.weights.chunks import prefetched, result_of, stopped_on_error

BY_BODIES = " by bodies in standard operators"
"""What follows the name of a case in which no kernel of `com.microsoft` runs."""


def check(
    model: Any,
    part: Part,
    file: Path,
    plan: Plan | None = None,
    *,
    session_for: SessionOpener | None = None,
    expected: Callable[..., Iterable[Reference]] | None = None,
    exact: ExactOutputs | None = None,
    proof: Proof = NO_PROOF,
    tick: Tick = no_tick,
) -> Report:
    """Compares an ONNX file with PyTorch in every case of its part; the report says whether they agree.

    PyTorch has the quantized weights of the file. What quantization costs is measured with `proof`: see `measures.py`.
    `model` has the float dtype of the part. `plan`: the files of its other parts lie in the folder of `file`; None: the
    part is alone. `session_for` opens an ONNX file at its first call, see `kept_session`. `expected`: from a model, and
    the `dtype` that PyTorch computes in, to the references of the part. `exact` computes PyTorch's outputs in a wider
    dtype, by default with the weights of `model`. An exception of `tick` stops ONNX Runtime. CheckFailed if ONNX
    Runtime cannot run the file.
    """
    session_for = session_for or partial(kept_session, {}, tick)
    expected = expected or partial(references, part=part, limits=stated_limits(file), others=other_sizes(part, file))
    checked = compared_file(model, part, file, exact, tick)
    in_torch = expected(checked.model, dtype=checked.dtype)
    judged, (of_weights, errors) = _judged_with_weights(checked, session_for, in_torch, model)
    compares = checked.dtype is None
    decoded = decoded_text_comparisons(checked, plan or Plan((part,)), session_for) if compares else ()
    of_cases = None if compares else partial(expected, model, dtype=checked.dtype)
    measurements, of_shapes = variant_measurements(part, session_for(file), proof, of_cases, errors)
    return Report(
        (*judged.differences, *differences(part, decoded)),
        (*judged.cases, *(comparison.case for comparison in decoded)),
        (*of_weights, *judged.findings, *of_shapes),
        measurements,
        unchecked=(*untried(part, file), *judged.unchecked),
    )


def _judged_with_weights(
    checked: CheckedFile, session_for: SessionOpener, expected: Iterable[Reference], model: Any
) -> tuple[Report, tuple[tuple[str, ...], tuple[WeightError, ...]]]:
    """The report on the cases of a file and the result of `file_weights` for a model, computed in parallel."""
    part, file, tick = checked.part, checked.file, checked.tick
    run_options = silent_options("RunOptions")
    stop = partial(setattr, run_options, "terminate", True)

    def tick_of_thread(*_: int) -> None:
        if run_options.terminate:
            raise CheckFailed(f"the check of {file.name} was stopped")

    # PyTorch computes the first case while ONNX Runtime loads the file, and a case while it runs the case before.
    # A thread in which torch ran keeps threads of OpenMP until it ends. If these are more than the cores, all of them
    # sleep between two parallel loops, see GOMP_SPINCOUNT: a model of many short loops takes up to nine times as long.
    with ThreadPoolExecutor(2) as pool, stopped_on_error(stop):
        weights = pool.submit(file_weights, model, part, file, tick_of_thread)
        session = pool.submit(checked_session, checked, session_for, tick_of_thread)
        pool.shutdown(wait=False)  # so each ends with its work
        run = partial(with_outputs, session.result, run_options, file, part)
        with prefetched(run, expected, 4, tick=tick) as pairs, stopped_on_error(stop):
            judged = judged_cases(checked, with_bodies(checked, run_options, pairs))
        return judged, result_of(weights, tick)


def with_bodies(
    checked: CheckedFile, run_options: Any, pairs: Iterable[tuple[Reference, OutputArrays | None]]
) -> Iterator[tuple[Reference, OutputArrays | None]]:
    """The outputs of all cases; after the first case, also by the bodies of operators, if the file has some."""
    part, file = checked.part, checked.file
    for number, (reference, outputs) in enumerate(pairs):
        yield reference, outputs
        if number == 0 and has_bodies(file):
            content = body_form(file, checked.dtype and part.spec.target.float_dtype)
            case = evolve(reference, case=f"{reference.case}{BY_BODIES}")
            yield with_outputs(partial(open_check_session, file, checked.tick, content), run_options, file, part, case)


def checked_session(checked: CheckedFile, session_for: SessionOpener, tick: Tick) -> Any:
    """A session of the graph that is compared. One that is not the file's own is released after the cases."""
    if checked.content is None:
        return session_for(checked.file, tick)
    from onnxruntime import OrtValue

    options, in_memory = check_options(checked.file), checked.in_memory
    if not in_memory:
        return open_check_session(checked.file, tick, checked.content)
    values = [OrtValue.ortvalue_from_numpy(array) for array in in_memory.values()]
    options.add_external_initializers([*map(name_in_memory, in_memory)], values)
    shapes = {codes: array.shape for codes, array in in_memory.items()}
    content, _ = float_form(checked.file, checked.part.spec.target.float_dtype, shapes)
    return watched_session(checked.file, options, content, tick)


def compared_file(
    model: Any, part: Part, file: Path, exact: ExactOutputs | None = None, tick: Tick = no_tick
) -> CheckedFile:
    """A file and the model that it is compared with, in the part's dtype; a quantized one with the file's weights."""
    if is_proven_apart(part, file):
        return quantized_file(model, part, file, tick)
    return CheckedFile(model, part, file, exact or exact_outputs(model, part.spec.target.float_dtype), tick)


def adapter_report(
    model: Any, part: Part, file: Path, arrays: Mapping[str, Array], tick: Tick = no_tick, proof: Proof = NO_PROOF
) -> Report:
    """The report on a file whose inputs `arrays` of an adapter fill, against `model` merged with the adapter."""
    dtype = part.spec.target.float_dtype
    model, exact = in_dtype_if_small(model, dtype), exact_outputs(model, dtype)
    session, names = open_check_session(file, tick), [output.name for output in part.spec.outputs]
    is_apart = is_proven_apart(part, file)
    plain = references(model, part, dtype="float32" if is_apart else None, tick=tick)
    expected = (evolve(each, case=f"{each.case} with the adapter", inputs={**each.inputs, **arrays}) for each in plain)
    if is_apart:
        known = [*expected]
        measurements, findings = variant_measurements(part, session, proof, lambda: known)
        return Report((), [each.case for each in known], findings, measurements)
    pairs = ((each, tuple(session.run(names, dict(each.inputs), silent_options("RunOptions")))) for each in expected)
    return judged_cases(CheckedFile(model, part, file, exact, tick), pairs)


def judged_cases(checked: CheckedFile, pairs: Iterable[tuple[Reference, OutputArrays | None]]) -> Report:
    """The report on a file in all cases; other sizes where rounding decides, or memory is short, are unchecked."""
    part, findings = checked.part, tuple[str, ...]()
    comparisons, cases, undecided = list[Comparison](), list[str](), list[str]()
    for reference, outputs in pairs:
        checked.tick()
        if outputs is None:
            undecided.append(f"{checked.file.name}: {reference.case}, which needs more memory than there is")
            continue
        findings += () if cases else interface_findings(part, checked.file, reference)
        findings += size_findings(part, reference) if not findings else ()
        compared = case_comparisons(checked, reference, outputs, comparisons)
        if reference.is_of_other_sizes and rounding_decides(compared):
            undecided.append(f"{checked.file.name}: {reference.case}, where rounding decides the outputs")
            continue
        cases.append(reference.case)
        if checked.dtype is not None:
            compared = tuple(evolve(each, reference=_with_weights(part, each.reference)) for each in compared)
        comparisons.extend(compared)
        if not findings and not all(comparison.passed for comparison in compared):
            findings += random_findings(checked.model, part, reference, checked.dtype)
        if reference.is_of_other_sizes and not all(comparison.passed for comparison in compared):
            break  # `found_limits` looks at the others
    return Report(differences(part, comparisons), cases, (*checked.findings, *findings), unchecked=undecided)


def _with_weights(part: Part, reference: str) -> str:
    """The text about what an output of a quantized file was compared with. PyTorch computes in float32 there."""
    in_float32 = reference.replace(f"PyTorch in {part.spec.target.float_dtype}", "PyTorch in float32", 1)
    return reference and in_float32 + ", with the weights of the file"


def file_weights(model: Any, part: Part, file: Path, tick: Tick) -> tuple[tuple[str, ...], tuple[WeightError, ...]]:
    """The faults of the weights of a file, and the errors of its quantized weights."""
    from onnxfn.check.variants.weight_bytes import weight_findings

    findings = weight_findings(model, part, file, tick)
    if not is_quantized(part.spec):
        return findings, ()
    reach = REACH * any(rule.calibrated for rule in part.spec.target.quantization)
    errors, unknown = quantized_weight_errors(model, file, tick, reach)
    outside = (str(error) for error in sorted(errors, key=lambda error: -error.outside) if error.outside)
    return (*findings, *(f"{part.name}: {finding}" for finding in (*unknown, *outside))), errors


def differences(part: Part, comparisons: Sequence[Comparison]) -> tuple[Difference, ...]:
    """One difference for each output, over all cases."""
    return tuple(
        _difference(part, output, agreeing_with_any_case(part, [each for each in comparisons if each.output == output]))
        for output in dict.fromkeys(comparison.output for comparison in comparisons)
    )


def _difference(part: Part, output: str, comparisons: Sequence[Comparison]) -> Difference:
    worst = max(comparisons, key=lambda each: (not each.passed, each.of_bound, each.max_abs))
    own_errors = [comparison.own_error for comparison in comparisons if comparison.own_error is not None]
    return Difference(
        part=part.name,
        output=output,
        shapes=tuple(comparison.shape for comparison in comparisons),
        max_abs=worst.max_abs,
        max_rel=max(comparison.max_rel for comparison in comparisons),
        tolerance=worst.tolerance,
        worst_case=worst.case,
        passed=all(comparison.passed for comparison in comparisons),
        own_error=max(own_errors, default=None) if worst.own_error is None else worst.own_error,
        errors=tuple((comparison.case, comparison.max_abs, comparison.tolerance) for comparison in comparisons),
        references=tuple(dict.fromkeys(comparison.reference for comparison in comparisons if comparison.reference)),
        within_own_error=worst.within_own_error and all(each.passed or each.within_own_error for each in comparisons),
    )


def limited_to_tried(part: Part, built: Any, *, is_checked: bool) -> Any:
    """A graph with limits for what no case tries: the other side of a branch, if its sizes are too large for one."""
    if not is_checked:
        return with_assumed_limits(built)
    return with_limits(built, unreached_sides(part, noted_conditions(built), built.limits))
