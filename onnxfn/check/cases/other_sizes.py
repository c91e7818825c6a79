"""The cases that try what the trace of a file took for true: see `size_cases.py`."""

from __future__ import annotations

from math import prod
from pathlib import Path

from onnxfn.check.cases.references import CheckCase, check_cases, stated_limits
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.axis_symbols import fixed_sizes, ranges
from onnxfn.specs.conditions import Condition, is_true, read_conditions, symbols_of
from onnxfn.specs.plan.check_cases import past_lengths, resized
from onnxfn.specs.plan.size_cases import Sizes, other_sides, small_and_far_sizes
from onnxfn.weights.onnx_files import metadata


def trace_conditions(file: Path) -> tuple[Condition, ...]:
    """What was true of the sizes in the trace of a file, as the model's own code evaluated it."""
    return read_conditions(metadata(file).get("onnxfn.conditions", ""))


def other_sizes(part: Part, file: Path) -> tuple[CheckCase, ...]:
    """The cases on the other side of each condition of a file; for a derived spec also small, far and prime sizes.

    They are within the limits of the file and the ranges of the part. PyTorch may refuse such sizes.
    """
    spec, limits, moved = part.spec, stated_limits(file), ranges(part.spec)
    known = known_sizes(spec, {})
    conditions = [each for each in trace_conditions(file) if known.keys() >= {*symbols_of(each.text)}]
    if not conditions and (spec.derived is None or past_lengths(spec)):
        return ()
    done = [known_sizes(case.spec, {}) for case in check_cases(part, limits=limits)]
    alike = [sizes for sizes in (known, *done) if all(is_true(each.text, sizes) for each in conditions)]
    smallest = min(alike, key=lambda sizes: prod(sizes.values()), default=known)
    base = {name: size for name, size in smallest.items() if name not in fixed_sizes(spec)}

    def allowed(sizes: Sizes) -> bool:
        in_ranges = all(low <= sizes.get(name, low) <= high for name, (low, high) in moved.items())
        return in_ranges and all(is_true(each.text, known | dict(sizes)) for each in limits)

    found = list(other_sides(base, conditions, allowed))
    if base and spec.derived is not None and not past_lengths(spec):
        found += small_and_far_sizes(base, allowed)
    new = [case for case in found if known | dict(case.sizes) not in done]
    return tuple(CheckCase(case.reason, resized(spec, case.sizes), seed=1, may_be_refused=True) for case in new)
