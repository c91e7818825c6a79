"""The first case of a check in which an ONNX file differs from PyTorch, at the smallest sizes at which it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from onnxfn.check.cases.references import CheckCase, Reference, case_reference
from onnxfn.check.verdict.case_comparisons import CheckedFile, output_comparisons
from onnxfn.check.verdict.verdict import Comparison
from onnxfn.specs.algebra.dummies import known_sizes, padded, sized
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import terms
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.errors import unknown
from onnxfn.specs.plan.check_cases import past_lengths, with_dummies

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
    return tuple(case if case.real_inputs is not None else case_at(case, sizes) for case in named)


def failing_case(checked: CheckedFile, session: Any, case: CheckCase) -> FailingCase | None:
    """The case with the output that differs most from PyTorch's in it; None if all outputs agree."""
    part, reference = checked.part, case_reference(checked.model, checked.part, case)
    outputs = session.run([output.name for output in part.spec.outputs], dict(reference.inputs))
    comparisons = output_comparisons(part, reference, outputs, checked.exact)
    differing = [comparison for comparison in comparisons if not comparison.passed]
    worst = max(differing, key=lambda comparison: comparison.max_rel, default=None)
    return None if worst is None else FailingCase(case, reference, worst)


def smallest_failing_case(checked: CheckedFile, session: Any, failing: FailingCase) -> FailingCase:
    """A failing case at the smallest sizes at which it fails, without padding if it then fails, too.

    The sizes are reduced one after another: batch, lengths, past. A case with real inputs stays as it is.
    """
    if failing.case.real_inputs is not None:
        return failing

    def at_sizes(sizes: Sizes) -> FailingCase | None:
        try:
            return failing_case(checked, session, case_at(failing.case, sizes))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a model may refuse a size, and raise anything
            return None

    sizes = smallest_sizes(
        case_sizes(checked.part, failing.case), least_sizes(checked.part.spec), lambda each: bool(at_sizes(each))
    )
    smallest = at_sizes(sizes) or failing
    return _without_padding(checked, session, smallest) or smallest


def case_at(case: CheckCase, sizes: Sizes) -> CheckCase:
    """A case with other sizes."""
    return evolve(case, spec=with_dummies(case.spec, sized(**sizes)))


def case_sizes(part: Part, case: CheckCase) -> Sizes:
    """The sizes of the dynamic axes of a case."""
    dynamic = {name for axes in part.inputs.values() for symbol in axes.values() for name in terms(symbol)}
    sizes = known_sizes(case.spec, {})
    return {name: size for name, size in sizes.items() if name in dynamic and name not in fixed_sizes(case.spec)}


def least_sizes(spec: PlannedSpec) -> Callable[[str], int]:
    """A function from a symbol to the smallest size that is tried: 0 for the length of a past, 1 for the batch, else 2.

    Attention to a single token does not depend on scores, and so hides faults in what they are computed from.
    """
    pasts = past_lengths(spec)
    return lambda name: 0 if name in pasts else 1 if name == spec.batch else 2


def smallest_sizes(sizes: Mapping[str, int], least: Callable[[str], int], fails: Callable[[Sizes], bool]) -> Sizes:
    """Sizes at which `fails` is true, each as small as it can be while the others stay.

    `fails` is true at `sizes`. Each size is tried at its least, then by bisection.

    >>> smallest_sizes({"a": 8, "b": 9}, lambda _: 1, lambda sizes: sizes["b"] > 3)
    {'a': 1, 'b': 4}
    """
    smallest = dict(sizes)
    for name in smallest:
        for size in _sizes_to_try(least(name), smallest, name):
            if fails({**smallest, name: size}):
                smallest[name] = size
    return smallest


def _sizes_to_try(least: int, smallest: Sizes, name: str) -> Iterator[int]:
    """Sizes between the least and the smallest that fails so far, which the caller lowers."""
    low = least
    if low < smallest[name]:
        yield low
    while low + 1 < smallest[name]:
        middle = (low + smallest[name]) // 2
        yield middle
        if smallest[name] != middle:
            low = middle


def _without_padding(checked: CheckedFile, session: Any, failing: FailingCase) -> FailingCase | None:
    """The case without padding, if it fails without it."""
    spec = with_dummies(failing.case.spec, padded("none"))
    return failing_case(checked, session, evolve(failing.case, spec=spec))
