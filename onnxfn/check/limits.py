"""The sizes at which a file is wrong, and the limits that leave them out."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from onnxfn.check.cases import references
from onnxfn.check.check import checked_session, compared_file
from onnxfn.check.texts.decoded_texts import SessionOpener
from onnxfn.check.verdict.case_comparisons import CheckedFile, case_comparisons
from onnxfn.check.verdict.verdict import Comparison, ExactOutputs, rounding_decides
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.conditions import Condition, as_ranges
from onnxfn.specs.plan.size_cases import Sizes, harmful, simplest
from onnxfn.specs.stored.reports import CheckFailed, Tick


@frozen
class FoundLimits:
    """The sizes at which a file is wrong, none if it is right nowhere; and the conditions that leave them out."""

    limits: tuple[Condition, ...] = ()
    wrong: tuple[Sizes, ...] = ()


def found_limits(
    model: Any,
    part: Part,
    file: Path,
    session_for: SessionOpener,
    exact: ExactOutputs,
    guards: Callable[[], Sequence[Condition]],
    tick: Tick,
) -> FoundLimits:
    """The limits of a file from its check: those that explain failures, tried at other sizes until none is wrong."""
    checked = compared_file(model, part, file, exact, tick)
    session, compared = checked_session(checked, session_for, tick), list[Comparison]()
    right, wrong, limits = list[Sizes](), list[Sizes](), tuple[Condition, ...]()
    for _ in range(4):
        stated, before = (*references.stated_limits(file), *limits), len(wrong)
        traced, planned = references.CheckCase("the trace", part.spec), references.check_cases(part, limits=stated)
        for case in (traced, *planned, *references.other_sizes(part, file, limits)):
            sizes = known_sizes(case.spec, {})
            agrees = None if sizes in (*right, *wrong) else _agrees(checked, case, session, compared)
            (right if agrees else wrong).extend([] if agrees is None else [sizes])
        conditions = references.trace_conditions(file)
        explaining = right and (harmful(conditions, wrong, right) or simplest(guards(), wrong, right))
        explaining = explaining or (right and harmful(conditions, wrong, right, all_alike=False))
        if not explaining or len(wrong) == before:
            break
        limits = tuple(end for each in explaining for end in as_ranges(each))
    return FoundLimits(limits, tuple(wrong) if right else ())


def _agrees(checked: CheckedFile, case: references.CheckCase, session: Any, compared: list[Comparison]) -> bool | None:
    """Whether a file agrees with PyTorch in a case; None if PyTorch refuses it, memory is short or rounding decides."""
    reference = references.possible_reference(checked.model, checked.part, case, checked.dtype)
    checked.tick()
    try:
        run = partial(references.with_outputs, lambda: session, None, checked.file, checked.part)
        arrays = run(reference)[1] if reference else None
    except CheckFailed:
        return False
    if reference is None or arrays is None:
        return None
    comparisons = case_comparisons(checked, reference, arrays, compared)
    if case.may_be_refused and rounding_decides(comparisons):
        return None
    compared += comparisons if (agrees := all(each.passed for each in comparisons)) else ()
    return agrees
