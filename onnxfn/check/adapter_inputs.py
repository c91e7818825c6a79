"""Compares ONNX files that take an adapter as inputs with PyTorch, which computes with the merged weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.check.cases.references import Reference, references
from onnxfn.check.check import differences, judged_cases
from onnxfn.check.variants.proof import NO_PROOF, Proof, is_quantized, measured_cases, variant_measurements
from onnxfn.check.verdict.case_comparisons import CheckedFile
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.models.dtypes import in_dtype_if_small
from onnxfn.run.sessions import open_check_session, silent_run_options
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.results.measurements import DEFAULT_FLOORS, Floors
from onnxfn.specs.stored.reports import Report, Tick, no_tick


def adapter_report(
    model: Any,
    part: Part,
    file: Path,
    arrays: Mapping[str, Array],
    tick: Tick = no_tick,
    floors: Floors = DEFAULT_FLOORS,
) -> Report:
    """The report on a file that gets the arrays of an adapter in each case of its part.

    Args:
        model: The PyTorch model, whose weights are merged with the adapter.
        part: The part of the plan that the file was exported for.
        file: The ONNX file.
        arrays: The inputs that the adapter fills, by name.
        tick: Is called in each case.
        floors: The least that a quantized file must be worth in all cases: its outputs are measured, not compared.
    """
    dtype = part.spec.target.float_dtype
    model, exact = in_dtype_if_small(model, dtype), exact_outputs(model, dtype)
    session, names = open_check_session(file, tick), [output.name for output in part.spec.outputs]
    expected = _with_adapter(references(model, part, tick=tick), arrays)
    if is_quantized(part.spec):
        known = [*expected]
        values, findings = measured_cases(part, session, NO_PROOF, lambda: known)
        measurements = variant_measurements(part, session, Proof(None, floors), values)
        return Report((), [each.case for each in known], findings, measurements)
    pairs = ((each, tuple(session.run(names, dict(each.inputs), silent_run_options()))) for each in expected)
    judged = judged_cases(CheckedFile(model, part, file, exact, tick), pairs)
    return Report(differences(part, judged.comparisons), judged.cases, judged.findings)


def _with_adapter(expected: Iterator[Reference], arrays: Mapping[str, Array]) -> Iterator[Reference]:
    """References with the arrays of an adapter among their inputs; their names say that it is active."""
    return (evolve(each, case=f"{each.case}, with the adapter", inputs={**each.inputs, **arrays}) for each in expected)
