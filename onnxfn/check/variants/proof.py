"""Measures a quantized or 16-bit file against PyTorch in float32; the error of a check that failed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.check.cases.references import OutputArrays, Reference, with_outputs
from onnxfn.check.variants.measures import DYNAMIC, EIGHT_BITS, FOUR_BITS, HALF, MEASURES, STATIC, output_measures
from onnxfn.check.variants.quantized_weights import WeightError
from onnxfn.check.verdict.compare import valid_elements
from onnxfn.graphs.nodes.nodes import DOMAIN
from onnxfn.graphs.wide_values import WIDE
from onnxfn.run.sessions import run_session
from onnxfn.specs.algebra.dummies import Array, dtype_of
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.quantization import WeightRule
from onnxfn.specs.results.measurements import DEFAULT_FLOORS, Floors, Measurement, stated_floors
from onnxfn.specs.short_repr import counted, grouped_row, layer_groups
from onnxfn.specs.stored.reports import CheckFailed, Difference, Report
from onnxfn.weights.onnx_files import mentions, metadata, onnx_model

Values = Mapping[tuple[str, str], Array]
"""From the name of an output and of a measure to the values of some cases."""


@frozen
class Proof:
    """The inputs of a proof: the reference of the real text, the caller's floors, the model before its conversion."""

    text: Reference | None = None
    floors: Floors = field(default=DEFAULT_FLOORS)
    model: Any = None


NO_PROOF = Proof()

OF_INTEGERS: Mapping[str, str] = MappingProxyType({"dynamic": DYNAMIC, "static": STATIC})
"""The kind of a rule whose activations are integers, too -> the kind of variant."""


def is_quantized(spec: PlannedSpec) -> bool:
    """Whether the file of a part has quantized weights."""
    return bool(_rules(spec))


def variant_kind(spec: PlannedSpec) -> str | None:
    """The kind of variant that a part is, by its weights of the fewest bits; None for float32 and float64."""
    rules = _rules(spec)
    if not rules:
        # bfloat16 has 8 digits
        return {"float16": HALF, "bfloat16": EIGHT_BITS}.get(spec.target.float_dtype or "float32")
    bits = min(rule.bits for rule in rules)
    kinds = {rule.kind: OF_INTEGERS[rule.kind] for rule in rules if rule.bits == bits and rule.kind in OF_INTEGERS}
    return next(iter(kinds.values())) if kinds else {2: "2 bits", 4: FOUR_BITS, 8: EIGHT_BITS}[bits]


def as_written(plan: Plan, folder: Path) -> Plan:
    """A plan whose parts have no rules for dynamic integers if their files have none, as of q8 without convolutions."""
    return evolve(plan, parts=[_as_written(part, folder / f"{part.name}.onnx") for part in plan.parts])


def _as_written(part: Part, file: Path) -> Part:
    if variant_kind(part.spec) != DYNAMIC or not file.is_file() or mentions(file, "DynamicQuantizeLinear"):
        return part
    target = part.spec.target
    rules = [rule for rule in target.quantization if rule.kind != "dynamic"]
    return evolve(part, spec=evolve(part.spec, target=evolve(target, quantization=rules)))


def is_proven_apart(part: Part, file: Path) -> bool:
    """Whether a file is measured, and its graph proven in float32: with quantized weights, or some float32 values."""
    return is_quantized(part.spec) or (part.spec.target.float_dtype == "float16" and f"onnxfn.{WIDE}" in metadata(file))


def has_bodies(file: Path) -> bool:
    """Whether operators of a file have bodies: functions of the same domain and name."""
    return mentions(file, DOMAIN) and bool(onnx_model(file).functions)


def _rules(spec: PlannedSpec) -> list[WeightRule]:
    """The rules of a part that quantize weights."""
    return [rule for rule in spec.target.quantization if rule.kind != "as is"]


def case_values(part: Part, reference: Reference, outputs: OutputArrays) -> tuple[Values, tuple[str, ...]]:
    """The values of all measures in a case; and one line for each output whose shape or kind is not PyTorch's."""
    triples = list(zip(part.spec.outputs, outputs, reference.outputs, strict=True))
    findings = tuple(
        f"{part.name}: {output.name!r} is {actual.dtype}{list(actual.shape)} where PyTorch gives "
        f"{expected.dtype}{list(expected.shape)}, at {reference.case}"
        for output, actual, expected in triples
        if actual.shape != expected.shape or actual.dtype.kind != expected.dtype.kind
    )
    if findings:
        return {}, findings
    actual, expected = dict[str, Array](), dict[str, Array]()
    for output, *arrays in triples:
        select = valid_elements(part.spec, output, reference.inputs)
        actual[output.name], expected[output.name] = (_as_rows(select(array), array) for array in arrays)
    pairs = [(name, measure) for name in expected for measure in _case_measures(part.spec, name, expected[name])]
    return {(name, measure): MEASURES[measure].values(name, actual, expected) for name, measure in pairs}, ()


def _case_measures(spec: PlannedSpec, output: str, expected: Array) -> tuple[str, ...]:
    """The measures of an output in a case: those of the output, and the one that shows faults. Integers are equal."""
    measures = (*output_measures(spec, output), "cases") if expected.dtype.kind == "f" else ("agreement",)
    return measures if expected.size else ()


def _as_rows(selected: Array, array: Array) -> Array:
    """The selected elements of an array as rows along its last axis, where they are whole rows."""
    if selected.size == array.size:
        return array
    return selected if selected.size % array.shape[-1] else selected.reshape(-1, array.shape[-1])


def variant_measurements(
    part: Part,
    session: Any,
    proof: Proof,
    expected: Callable[[], Iterable[Reference]] | None,
    weights: Sequence[WeightError] = (),
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """The measurements of a part and findings, on the text or on `expected`, the references of its cases."""
    references = expected() if proof.text is None and expected is not None else ()
    answers = (with_outputs(lambda: session, None, Path(f"{part.name}.onnx"), part, each) for each in references)
    pairs = [case_values(part, each, outputs) for each, outputs in answers if outputs is not None]
    cases, findings = [values for values, _ in pairs], tuple(line for _, lines in pairs for line in lines)

    def measured(several: Sequence[Values], words: str) -> list[Measurement]:
        arrays = {key: [values[key] for values in several if key in values] for each in several for key in each}
        return [measurement(part, *key, np.concatenate(arrays[key]), proof.floors, words) for key in arrays]

    of_text = [] if proof.text is None else measured([_text_values(part, session, proof.text)], proof.text.case)
    of_cases = measured(cases, counted(len(cases), "cases"))
    worst = min(weights, key=lambda error: error.cosine, default=None)
    of_worst = {} if worst is None else {(worst.weight, "weights"): np.array([worst.cosine])}
    return (*of_text, *of_cases, *measured([of_worst], counted(len(weights), "weights"))), findings


def measurement(part: Part, output: str, name: str, values: Array, floors: Floors, cases: str) -> Measurement:
    """The measurement of an output by the named measure, from its values in all cases."""
    # The floor is that of the caller, else that of the kind of variant; None if it has none.
    measure, stated = MEASURES[name], stated_floors(floors).get(name)
    floor = measure.floors.get(variant_kind(part.spec) or "") if stated is None else stated
    value = float(measure.whole(values)) if values.size else float("nan")
    return Measurement(part.name, output, name, value, floor, cases, measure.passed(value, floor))


def _text_values(part: Part, session: Any, text: Reference) -> Values:
    """The values of the measures of the outputs for the text, without a cache: the cases measure it."""
    fed_back = {feedback.output for feedback in part.spec.feedback}
    outputs = run_session(session, [*part.outputs], feeds_of(part, text.inputs), f"{part.name}.onnx on {text.case}")
    values, _ = case_values(part, text, outputs)
    return {key: array for key, array in values.items() if key[0] not in fed_back and key[1] != "cases"}


def feeds_of(part: Part, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of a part in the dtypes of its file."""
    pairs = [(each, inputs[each.name]) for each in part.spec.inputs]
    return {
        each.name: array.astype(dtype_of(part.spec, each)) if array.dtype.kind == "f" else array
        for each, array in pairs
    }


def check_floors(plan: Plan, floors: Floors) -> None:
    """Raises InvalidSpec if a floor is stated for a measure that no output of the plan has."""
    specs = [part.spec for part in plan.parts if variant_kind(part.spec) is not None]
    measures = {name for spec in specs for output in spec.outputs for name in output_measures(spec, output.name)}
    known = sorted(measures | ({"weights", "cases"} if any(map(is_quantized, specs)) else set()))
    for name in stated_floors(floors):
        if name not in known:
            why = f"its measures are {listed(known)}" if known else "only quantized and 16-bit files are measured"
            raise InvalidSpec(f"there is a floor for {name!r}, which measures no output of this export: {why}")


def failed_measurements(measurements: Iterable[Measurement]) -> list[str]:
    """One line for each measurement below its floor; the last names the weight that is farthest from the model's."""
    every = tuple(measurements)
    lines = [
        f"{each.part}: {each.measure} of {each.output!r} is {each.value:.4g} over {each.cases} "
        f"({'at most' if MEASURES[each.measure].least else 'at least'} {each.floor:g})"
        for each in every
        if not each.passed
    ]
    worst = min((each for each in every if each.measure == "weights"), key=lambda each: each.value, default=None)
    return [*lines, *([f"the worst weight is {worst.output} (cosine {worst.value:.4g})"] if lines and worst else [])]


HOW_TO_BISECT = "to see in which module: export with check=False, then onnxfn.bisect(spec, model, path)"

AMPLIFIED = (
    "PyTorch in the dtype of the export is about as far from float64: these weights amplify rounding, or the model "
    "casts to fewer bits, so the outputs do not decide whether the file is right; allow such a difference by "
    "with_tolerance(spec, atol=...), or export with check=False"
)
"""The end of the message about outputs that differ by no more than PyTorch's own error allows."""


def check_error(report: Report) -> CheckFailed:
    """The error for a report that did not pass: its findings, and the worst case of each output that differs."""
    failed = [each for each in report.differences if not each.passed]
    names = [(f"{each.part}: {each.output!r}",) for each in failed]
    differences = [
        _difference_text(grouped_row([names[index] for index in group])[0], [failed[index] for index in group])
        for group in layer_groups(names)
    ]
    hint = [AMPLIFIED if differs_by_rounding(report) else HOW_TO_BISECT] if differences and not report.sections else []
    measured = failed_measurements(report.measurements)
    lines = [*report.findings, *_failed_sections(report), *differences, *hint, *measured]
    return CheckFailed("; ".join(lines) or "nothing was checked", report)


def _difference_text(name: str, differences: Sequence[Difference]) -> str:
    """How far outputs that differ in the layer alone are off: the figures of the worst."""
    worst = max(differences, key=lambda each: (each.of_bound, each.max_abs))
    own = "" if worst.own_error is None else f"; the error of PyTorch itself is {worst.own_error:.1e}"
    allowed = f"(allowed are {worst.tolerance:.1e}{own})"
    return f"{name} is {worst.max_abs:.2e} away from PyTorch at {worst.worst_case} {allowed}"


def differs_by_rounding(report: Report) -> bool:
    """Whether rounding explains all that is wrong in a report: a right graph would differ as much, see `Difference`."""
    failed = [difference for difference in report.differences if not difference.passed]
    explained = bool(failed) and all(difference.within_own_error for difference in failed)
    return explained and not report.findings and not failed_measurements(report.measurements)


def _failed_sections(report: Report) -> list[str]:
    """A line with the names of the sections that differ; if none does, that all errors together are too large."""
    failed = [each for each in report.sections if not each.passed]
    if not failed:
        return ["no section alone differs by more than is allowed"] if report.sections else []
    first = failed[0]
    allowed = "" if first.tolerance is None else f" (allowed are {first.tolerance:.1e})"
    names = listed([f"{each.part}: {each.section}" for each in failed])
    return [f"{names} differ: {first.output!r} of the first is {first.max_abs:.2e} away from PyTorch{allowed}"]
