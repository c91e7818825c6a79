"""Check: ONNX Runtime against PyTorch, on inputs that were not traced."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.check.compare import Comparison, compare
from onnxfn.check.decoded_texts import SessionOpener, decoded_text_comparisons
from onnxfn.check.sessions import open_check_session, runtime_message
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.axes import symbols, terms
from onnxfn.specs.dummies import Array, dummies, known_sizes, padded
from onnxfn.specs.errors import CheckFailed
from onnxfn.specs.plan.check_cases import cases, in_case, past_lengths, with_dummies
from onnxfn.specs.planned import Part, Plan, PlannedSpec
from onnxfn.specs.records import InputSpec, OutputSpec
from onnxfn.specs.reports import Difference, Report

OutputArrays = tuple[Array, ...]
"""What a part gives: an array an output of the plan."""


@frozen
class CheckCase:
    """What both are asked in a case: dummies of a spec, or a real input."""

    case: str
    spec: PlannedSpec
    seed: int = 0
    real: Mapping[str, Array] | None = None


@frozen
class Reference:
    """What both are fed in a case, and what PyTorch answers."""

    case: str
    arrays: Mapping[str, Array]
    outputs: OutputArrays


def check(
    model: Any,
    part: Part,
    file: Path,
    plan: Plan | None = None,
    *,
    session_for: SessionOpener | None = None,
    expected: Iterable[Reference] | None = None,
) -> Report:
    """How far an ONNX file is from PyTorch in every case of the part; the caller judges by `report.passed`.

    `made` is the plan that the part is of, whose other files stand beside this one; `opens` opens files as `session`
    does, and need not open one twice. `truths` are what is `answered` to the questions about the part, where that is
    known already.
    """
    session_for = session_for or cache(open_check_session)
    trials: list[Comparison] = []
    told: list[str] = []
    with ThreadPoolExecutor(1) as beside:  # PyTorch answers the first question while the file is read
        running = beside.submit(session_for, file)
        for known in references(model, part) if expected is None else expected:
            _as_named(part.spec, known.arrays, known.outputs)
            answers = _ran(running.result(), file, [one.name for one in part.spec.outputs], known.arrays, known.case)
            told.append(known.case)
            trials.extend(
                compare(part.spec, one.name, known.case, answer, wanted, _judged(part.spec, one, known.arrays))
                for one, answer, wanted in zip(part.spec.outputs, answers, known.outputs, strict=True)
            )
    texts = decoded_text_comparisons(model, part, plan or Plan((part,)), file.parent, session_for)
    trials.extend(texts)
    told.extend(one.case for one in texts)
    return Report(
        tuple(
            _difference(part, name, [made for made in trials if made.output == name])
            for name in dict.fromkeys(made.output for made in trials)
        ),
        tuple(told),
    )


def _as_named(spec: PlannedSpec, arrays: Mapping[str, Array], expected: Iterable[Array]) -> None:
    """What each layer gives has the sizes that its axes are called by; CheckFailed where windows are rows, say."""
    sizes = {
        axis.symbol: size
        for one in reversed(spec.inputs)  # the first says it: a past may come empty
        for axis, size in zip(one.axes.axes, arrays[one.name].shape, strict=True)
        if axis.kind == "dynamic"
    }
    for one, answer in zip(spec.outputs, expected, strict=True):
        called = symbols(one.axes) if one.layer is not None and len(one.place) == 2 else {}  # noqa: PLR2004
        if any(answer.shape[axis] != sizes.get(symbol, answer.shape[axis]) for axis, symbol in called.items()):
            told = f"{one.name!r} is {list(answer.shape)} and its axes are planned as {one.axes}"
            raise CheckFailed(f"{told}: say them with with_output(spec, {one.name!r}, axes, path={one.place})")


def check_cases(part: Part, real: Mapping[str, Array] | None = None) -> tuple[CheckCase, ...]:
    """What both are asked: each case, and what a preprocessor made of a `real` input, if it made one."""
    moves = any(part.inputs.values())
    made = tuple(
        # Where nothing moves, other cases have other values.
        CheckCase(overlay.name, in_case(part.spec, overlay), seed=0 if moves else number)
        for number, overlay in enumerate(cases(part.spec), start=1)
    )
    return (*made, CheckCase("preprocessed", part.spec, real=real)) if real else made


def references(model: Any, part: Part, real: Mapping[str, Array] | None = None) -> Iterator[Reference]:
    """What PyTorch answers to each question about a part."""
    questions = check_cases(part, real)
    left = _left(model, part, [one for one in questions if one.real is None and _goes_on(one.spec)])
    yield from (case_reference(model, part, one, left) for one in questions)


def case_reference(model: Any, part: Part, question: CheckCase, left: OutputArrays | None = None) -> Reference:
    """What PyTorch answers to one question about a part, going on from what a text `left`: it needs no file."""
    real = question.real
    arrays = case_inputs(model, part, question.spec, seed=question.seed, left=left) if real is None else real
    return Reference(_label(part.spec, question.case, arrays), arrays, torch_outputs(model, part, arrays))


def case_inputs(
    model: Any, part: Part, spec: PlannedSpec, *, seed: int = 0, left: OutputArrays | None = None
) -> dict[str, Array]:
    """What both are fed in a case: dummies, and as the past what the model itself keeps of a text of that length.

    A past of noise is nothing that a trained model ever sees, and it answers with numbers that no two orders of
    summation agree on; nor is one whose first tokens are hidden, which a trained model looks at all along. Where a text
    `left` a past that is long enough, its beginning is taken, unless the mask hides some of it as padding.
    """
    arrays = dummies(spec, {}, seed=seed)
    if not _goes_on(spec):
        return arrays
    past = None if left is None or _hides(spec, arrays) else _past(spec, arrays, left)
    return arrays | (past or _past_of_a_prompt(model, part, spec, arrays, seed))


def _goes_on(spec: PlannedSpec) -> bool:
    """Whether a case has a past that is not empty."""
    sizes = known_sizes(spec, {})
    return any(sizes[past] for past in past_lengths(spec))


def _left(model: Any, part: Part, questions: Sequence[CheckCase]) -> OutputArrays | None:
    """What a text leaves that is as long as the past of any case, and no padding: there, states are of nothing.

    None where less than two cases go on, or something else is longer in one of them: each has a text of its own then.
    """
    lengths = past_lengths(part.spec)
    here = {"batch_size", *lengths, *lengths.values()}
    sizes = [known_sizes(one.spec, {}) for one in questions]
    others = [{name: size for name, size in one.items() if name not in here} for one in sizes]
    if len(questions) < 2 or any(one != others[0] for one in others):  # noqa: PLR2004 - else nothing is shared
        return None
    most = {name: max(one[name] for one in sizes) for name in sizes[0]}
    return torch_outputs(model, part, dummies(with_dummies(questions[0].spec, padded("none")), _at_once(most, lengths)))


def _hides(spec: PlannedSpec, arrays: Mapping[str, Array]) -> bool:
    """Whether the mask says of some of the past that it is padding."""
    masks = [one for one in spec.inputs if one.name == spec.check.mask_input]
    sizes = known_sizes(spec, {})
    pasts = [sizes[past] for one in masks for past in past_lengths(spec) if past in terms(_last(one))]
    return any(not arrays[one.name][:, :past].all() for one in masks for past in pasts)


def _last(one: InputSpec) -> str:
    """What the last axis of an input is called; nothing where it does not move."""
    return symbols(one.axes).get(len(one.axes.axes) - 1, "")


def _past_of_a_prompt(
    model: Any, part: Part, spec: PlannedSpec, arrays: Mapping[str, Array], seed: int
) -> dict[str, Array]:
    prompt = dummies(spec, _at_once(known_sizes(spec, {}), past_lengths(spec)), seed=seed)
    kept = dict(zip((one.name for one in spec.outputs), torch_outputs(model, part, prompt), strict=True))
    return {one.input: kept[one.output].astype(arrays[one.input].dtype) for one in spec.feedback}


def _at_once(sizes: Mapping[str, int], lengths: Mapping[str, str]) -> dict[str, int]:
    """The sizes of a text that leaves a past of its whole length, read with no past."""
    return {**sizes, **dict.fromkeys(lengths, 0), **{now: sizes[past] for past, now in lengths.items()}}


def _past(spec: PlannedSpec, arrays: Mapping[str, Array], answers: OutputArrays) -> dict[str, Array] | None:
    """The beginning of what a text left, cut to the shapes of a case; None where it is too small."""
    kept = dict(zip((one.name for one in spec.outputs), answers, strict=True))
    inputs = {one.name: one for one in spec.inputs}
    lengths = {"batch_size", *past_lengths(spec)}
    begun: dict[str, Array] = {}
    for one in spec.feedback:
        wanted = arrays[one.input]
        beginning = _beginning(kept[one.output], wanted.shape, _axes_of(inputs[one.input], lengths))
        if beginning is None:
            return None
        begun[one.input] = beginning.astype(wanted.dtype)
    return begun


def _beginning(kept: Array, shape: tuple[int, ...], axes: Container[int]) -> Array | None:
    """The beginning of an array along these axes, in a shape; None where no cut there gives the shape."""
    if kept.ndim != len(shape):
        return None
    spare = [have - want for have, want in zip(kept.shape, shape, strict=True)]
    if any(more < 0 or (more and axis not in axes) for axis, more in enumerate(spare)):
        return None
    return kept[tuple(map(slice, shape))]


def _judged(spec: PlannedSpec, output: OutputSpec, arrays: Mapping[str, Array]) -> Callable[[Array], Array]:
    """The elements of an output that count: those at tokens, by the mask that the spec names, or all.

    The mask's last axis is a length, or a past and a length; an output that has the length alone is of the last tokens.
    """
    masking = next((one for one in spec.inputs if one.name == spec.check.mask_input), None)
    if masking is None:
        return _all
    batch, *_, length = symbols(masking.axes).values()
    axes = symbols(output.axes)
    along = [axis for axis, symbol in axes.items() if symbol in (length, terms(length)[-1])]
    if not along or axes.get(0) != batch:
        return _all
    mask = arrays[masking.name].astype(bool)
    return lambda made: made[_kept(mask, made.shape, along)]


def _kept(mask: Array, shape: tuple[int, ...], along: Iterable[int]) -> Array:
    """Which elements of an array are of tokens along each of these axes, the last tokens of those of the mask."""
    kept = np.ones(shape, dtype=bool)
    for axis in along:
        tokens = mask[:, mask.shape[1] - shape[axis] :]
        kept &= tokens.reshape([len(mask), *(shape[axis] if other == axis else 1 for other in range(1, len(shape)))])
    return kept


def _all(made: Array) -> Array:
    return made


def _axes_of(one: InputSpec, lengths: Container[str]) -> list[int]:
    return [axis for axis, symbol in symbols(one.axes).items() if symbol in lengths]


def check_error(report: Report) -> CheckFailed:
    """The error for a report that did not pass: it names each output, where it was worst, and by how much."""
    lines = [
        f"{one.part}: {one.output!r} is {one.max_abs:.2e} away from PyTorch at {one.worst_case} "
        f"(atol {one.tolerance:.1e})"
        for one in report.differences
        if not one.passed
    ]
    problem = CheckFailed("; ".join(lines) or "nothing was checked")
    problem.report = report
    return problem


def _ran(session: Any, file: Path, outputs: list[str], arrays: Mapping[str, Array], label: str) -> list[Array]:
    try:
        answers: list[Array] = session.run(outputs, dict(arrays))
    except Exception as problem:
        raise CheckFailed(f"ONNX Runtime cannot run {file.name} at {label}: {runtime_message(problem)}") from problem
    return answers


def _label(spec: PlannedSpec, name: str, arrays: Mapping[str, Array]) -> str:
    sizes: dict[str, int] = {}
    for one in spec.inputs:
        for index, made in enumerate(one.axes.axes):
            if made.kind == "dynamic":
                sizes.setdefault(made.symbol, arrays[one.name].shape[index])
    return f"{name} ({', '.join(f'{axis}={size}' for axis, size in sizes.items())})"


def _difference(part: Part, output: str, trials: list[Comparison]) -> Difference:
    worst = max(trials, key=lambda made: (not made.passed, made.max_abs))
    return Difference(
        part=part.name,
        output=output,
        shapes=tuple(made.shape for made in trials),
        max_abs=max(made.max_abs for made in trials),
        max_rel=max(made.max_rel for made in trials),
        tolerance=worst.tolerance,
        worst_case=worst.case,
        passed=all(made.passed for made in trials),
    )
