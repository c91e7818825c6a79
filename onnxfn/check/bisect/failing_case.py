"""The case of a check in which an ONNX file differs from PyTorch."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from onnxfn.check.cases.references import CheckCase, Reference, case_reference
from onnxfn.check.verdict.case_comparisons import CheckedFile, output_comparisons
from onnxfn.check.verdict.verdict import Comparison
from onnxfn.specs.algebra.dummies import known_sizes, sized
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axes import terms
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.errors import unknown
from onnxfn.specs.plan.check_cases import with_dummies

Sizes = dict[str, int]
"""From the symbol of a dynamic axis to its size."""


@frozen(eq=False)
class FailingCase:
    """A case in which an output differs.

    Attributes:
        case: The case.
        reference: Its inputs, and PyTorch's outputs.
        worst: The comparison of the output that differs most.
    """

    case: CheckCase
    reference: Reference
    worst: Comparison


def selected_cases(cases: tuple[CheckCase, ...], part: Part, name: str | None, sizes: Sizes) -> tuple[CheckCase, ...]:
    """The cases of a part, with these sizes; if there is a name, only the case of this name.

    UnknownName if no case has it.
    """
    named = [case for case in cases if name in (None, case.name)]
    if not named:
        raise unknown("case", str(name), [case.name for case in cases], of=part.name)
    resized = (evolve(case, spec=with_dummies(case.spec, sized(**sizes))) for case in named)
    return tuple(case if case.real_inputs is not None else other for case, other in zip(named, resized, strict=True))


def failing_case(checked: CheckedFile, session: Any, case: CheckCase) -> FailingCase | None:
    """The case with the output that differs most from PyTorch's in it; None if all outputs agree."""
    part, reference = checked.part, case_reference(checked.model, checked.part, case)
    outputs = session.run([output.name for output in part.spec.outputs], dict(reference.inputs))
    comparisons = output_comparisons(part, reference, outputs, checked.exact)
    differing = [comparison for comparison in comparisons if not comparison.passed]
    worst = max(differing, key=lambda comparison: comparison.max_rel, default=None)
    return None if worst is None else FailingCase(case, reference, worst)


def case_sizes(part: Part, case: CheckCase) -> Sizes:
    """The sizes of the dynamic axes of a case."""
    dynamic = {name for axes in part.inputs.values() for symbol in axes.values() for name in terms(symbol)}
    sizes = known_sizes(case.spec, {})
    return {name: size for name, size in sizes.items() if name in dynamic and name not in fixed_sizes(case.spec)}
