"""The cases of a check: the sizes and dummy inputs of each case of a part."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, frozen

from onnxfn.specs.algebra.dummies import Array, dummies, known_sizes
from onnxfn.specs.algebra.planned import Case, Part, PlannedSpec
from onnxfn.specs.limits import stated_limits
from onnxfn.specs.plan.check_cases import cases, in_affordable_batches, in_case
from onnxfn.specs.plan.text_cases import LONG_PAST, LONG_TEXT, LONGEST
from onnxfn.specs.records import DummySize
from onnxfn.weights.onnx_files import metadata

SHORTEST_LONG_TEXT, LONG_TEXT_BUDGET = 64, 800_000_000
"""The tokens that a long text always may have, and the parameters times tokens that a longer one may cost."""

NO_LIMITS: Mapping[str, int] = MappingProxyType({})


@frozen
class CheckCase:
    """A case of a check: the spec of its dummy inputs and their seed, or real inputs in their place."""

    name: str
    spec: PlannedSpec
    seed: int = 0
    real_inputs: Mapping[str, Array] | None = None


def longest_text(model: Any) -> int:
    """How many tokens the long text of a check has at most, so that it costs little beside the other cases.

    The cost of a token is that of the weights that it is multiplied with: all matrices but embedding tables.
    """
    return max(SHORTEST_LONG_TEXT, LONG_TEXT_BUDGET // max(1, multiplied_parameters(model)))


def multiplied_parameters(model: Any) -> int:
    """The number of the parameters of all matrices of a model but embedding tables."""
    import torch

    tables = {module.weight for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    matrices = (parameter for parameter in model.parameters() if parameter.dim() > 1)
    return sum(parameter.numel() for parameter in matrices if parameter not in tables)


def largest_sizes(file: Path) -> dict[str, int]:
    """From each axis symbol for which a graph is not valid at every size to its largest size, as the file says.

    An axis of a single size is not among them: if the plan has others, the check has to find that the file lacks them.
    """
    return {limit.name: limit.high for limit in stated_limits(metadata(file)) if limit.high not in (None, limit.low)}


def check_cases(
    part: Part,
    real_inputs: Mapping[str, Array] | None = None,
    *,
    longest: int = LONGEST,
    largest: Mapping[str, int] = NO_LIMITS,
) -> tuple[CheckCase, ...]:
    """The cases that a planned part is checked in; the last is `real_inputs` from a preprocessor, if there are any.

    Long texts have at most `longest` tokens, all cases at most the sizes of `largest`: see `largest_sizes`.
    """
    has_other_sizes = all(part.inputs.values())
    within_limits = [_within_limits(case, longest, largest) for case in cases(part.spec)]
    every_case = in_affordable_batches(part.spec, within_limits)
    planned = tuple(
        # An input without dynamic axes has the same size in all cases. Then each case gets other values.
        CheckCase(case.name, in_case(part.spec, case), seed=0 if has_other_sizes else number)
        for number, case in enumerate(every_case, start=1)
    )
    planned = _distinct(planned)
    return (*planned, CheckCase("preprocessed", part.spec, real_inputs=real_inputs)) if real_inputs else planned


def _distinct(every_case: Sequence[CheckCase]) -> tuple[CheckCase, ...]:
    """The cases without those that have the inputs of an earlier one, such as padding where no input is a mask."""
    distinct: list[CheckCase] = []
    for case in every_case:
        if not any(_has_equal_inputs(case, earlier) for earlier in distinct):
            distinct.append(case)
    return tuple(distinct)


def _has_equal_inputs(case: CheckCase, other: CheckCase) -> bool:
    """Whether two cases have the same inputs. With a cache they may not: PyTorch computes it from a prompt."""
    if case.spec.feedback or case.seed != other.seed or known_sizes(case.spec, {}) != known_sizes(other.spec, {}):
        return False
    pair = (dummies(each.spec, {}, seed=each.seed) for each in (case, other))
    return all(map(np.array_equal, *(arrays.values() for arrays in pair)))


def file_cases(
    model: Any, part: Part, file: Path, real_inputs: Mapping[str, Array] | None = None
) -> tuple[CheckCase, ...]:
    """The cases in which a file is checked: long texts are such that the model and the file can take them."""
    return check_cases(part, real_inputs, longest=longest_text(model), largest=largest_sizes(file))


def _within_limits(case: Case, longest: int, largest: Mapping[str, int]) -> Case:
    """A case with sizes of at most `largest`; one for long texts also with at most `longest` tokens.

    A size above LONGEST is no number of tokens: a waveform beside a long text keeps its length.
    """
    is_long = case.name in (LONG_TEXT, LONG_PAST)

    def within_limits(size: DummySize) -> DummySize:
        is_length = isinstance(size.value, int) and size.value <= LONGEST
        most = longest if is_long and is_length else sys.maxsize
        return evolve(size, value=min(size.value, most, largest.get(size.name, sys.maxsize)))

    return evolve(case, dummies=evolve(case.dummies, sizes=tuple(map(within_limits, case.dummies.sizes))))
