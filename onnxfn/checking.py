"""Check: ONNX Runtime against PyTorch, on inputs that were not traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn.algebra import compose
from onnxfn.axes import names, symbols, terms
from onnxfn.capture import reference
from onnxfn.errors import CheckFailed
from onnxfn.generation import greedy
from onnxfn.generators import Array, dummies, padded
from onnxfn.records import ExportSpec, InputSpec, OutputSpec, Overlay, Part, Size
from onnxfn.results import Difference, Report

PROMPT, STEPS = 6, 16
"""Tokens of the prompts, and tokens written after them, when a decoder is checked by what it writes."""

ENORMOUS = 1e30
"""Beyond this a number stands for minus infinity, as masked scores do, and says nothing of the scale of a tensor."""

# A graph in half precision is measured against the model in full precision, so its own rounding counts. A step of
# float16 is 2**13 steps of float32, and one of bfloat16 2**16: an eighth of that is allowed, of each element a 64th.
ROUNDING: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"float32": (1.0, 1.0), "float16": (2.0**10, 2.0**7), "bfloat16": (2.0**13, 2.0**10)}
)


@frozen
class Trial:
    """One output in one case: the shape, the figures, and whether the case was passed."""

    output: str
    case: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    passed: bool


def check(model: Any, part: Part, file: Path, *, tell: Callable[[str], None] = lambda _: None) -> Report:
    """How far an ONNX file is from PyTorch in every case of the part; the caller judges by `report.passed`."""
    session = _session(file)
    trials: list[Trial] = []
    told: list[str] = []
    for overlay in cases(part.spec):
        arrays = feeds(model, part, compose(part.spec, overlay.spec))
        label = _label(part.spec, overlay, arrays)
        tell(label)
        expected = reference(model, part, arrays)
        answers = _ran(session, file, [one.name for one in part.spec.outputs], arrays, label)
        told.append(label)
        trials.extend(
            trial(part.spec, one.name, label, answer, truth, _judged(part.spec, one, arrays))
            for one, answer, truth in zip(part.spec.outputs, answers, expected, strict=True)
        )
    written = _written(model, part, session)
    trials.extend(written)
    told.extend(made.case for made in written)
    return Report(
        tuple(
            _difference(part, name, [made for made in trials if made.output == name])
            for name in dict.fromkeys(made.output for made in trials)
        ),
        tuple(told),
    )


def feeds(model: Any, part: Part, spec: ExportSpec) -> dict[str, Array]:
    """What both are fed in a case: dummies, and as the past what the model itself keeps of a text of that length.

    A past of noise is nothing that a trained model ever sees, and it answers with numbers that no two orders of
    summation agree on.
    """
    arrays = dummies(spec, {})
    lengths = _past_lengths(spec)
    if not any(arrays[one.name].shape[axis] for one in spec.inputs for axis in _axes_of(one, lengths)):
        return arrays
    sizes = {one.name: one.value for one in spec.sizes}
    prompt = dummies(spec, {**dict.fromkeys(lengths, 0), **{now: sizes[past] for past, now in lengths.items()}})
    kept = dict(zip((one.name for one in spec.outputs), reference(model, part, prompt), strict=True))
    return arrays | {one.name: kept[one.given].astype(arrays[one.name].dtype) for one in spec.carries}


def _judged(spec: ExportSpec, output: OutputSpec, arrays: Mapping[str, Array]) -> Callable[[Array], Array]:
    """The elements of an output that count: those at tokens, by the mask that the spec names, or all.

    The mask's last axis is a length, or a past and a length; an output that has the length alone is of the last tokens.
    """
    masking = next((one for one in spec.inputs if one.name == spec.judged_by), None)
    if masking is None:
        return _all
    batch, *_, length = symbols(masking.axes).values()
    axes = {symbol: axis for axis, symbol in symbols(output.axes).items()}
    along = next((axes[symbol] for symbol in (length, terms(length)[-1]) if symbol in axes), None)
    if along is None or axes.get(batch) != 0:
        return _all
    mask = arrays[masking.name].astype(bool)
    return lambda made: np.moveaxis(made, along, 1)[mask[:, mask.shape[1] - made.shape[along] :]]


def _all(made: Array) -> Array:
    return made


def _past_lengths(spec: ExportSpec) -> dict[str, str]:
    """The size that a past has -> the size that it grows by: `past_sequence_length`, `sequence_length`."""
    outputs = {one.name: one for one in spec.outputs}
    inputs = {one.name: one for one in spec.inputs}
    return {
        symbol: next(name for name in terms(grown) if name != symbol)
        for carry in spec.carries
        for axis, symbol in symbols(inputs[carry.name].axes).items()
        if (grown := symbols(outputs[carry.given].axes)[axis]) != symbol
    }


def _axes_of(one: InputSpec, lengths: Mapping[str, str]) -> list[int]:
    return [axis for axis, symbol in symbols(one.axes).items() if symbol in lengths]


def _written(model: Any, part: Part, session: Any) -> list[Trial]:
    """A text written token by token through the file, each token against PyTorch's logits of the whole text at once.

    PyTorch keeps no cache here, so a wrong cache shows. A token agrees when PyTorch's best is no better than it by more
    than the tolerance: then both would write the same, or are of two minds.
    """
    spec, lengths = part.spec, _past_lengths(part.spec)
    if (
        not {"input_ids", "logits"} <= {*part.inputs, *part.outputs}
        or not lengths
        or "encoder_hidden_states" in part.inputs
    ):
        return []  # what a decoder writes of what an encoder read is compared in tests/test_seq2seq.py
    ((past, now),) = lengths.items()
    prompts = dummies(compose(spec, padded("left")), {"batch_size": 2, past: 0, now: PROMPT})
    mask = prompts.get("attention_mask", np.ones_like(prompts["input_ids"]))
    texts = greedy(session, prompts["input_ids"], mask, steps=STEPS)
    logits = _whole(model, part, texts, mask, {"batch_size": 2, past: 0, now: texts.shape[1]})[:, PROMPT - 1 : -1]
    scale = _scale(logits[np.abs(logits) < ENORMOUS])
    absolute, relative = ROUNDING[spec.float_dtype or "float32"]
    behind = logits.max(axis=-1) - np.take_along_axis(logits, texts[:, PROMPT:, None], axis=-1)[..., 0]
    slack = 2 * ((spec.atol or 0.0) * absolute * scale + (spec.rtol or 0.0) * relative * np.abs(logits.max(axis=-1)))
    worst = float(behind.max())
    told = f"greedy ({STEPS} tokens after two left-padded prompts)"
    agree = bool((behind <= slack).all())
    return [Trial("greedy tokens", told, texts.shape, worst, worst / scale, float(slack.min()), agree)]


def _whole(model: Any, part: Part, texts: Array, mask: Array, sizes: Mapping[str, int]) -> Array:
    """PyTorch's logits of whole texts, with nothing kept from before."""
    seen = np.concatenate([mask, np.ones_like(texts[:, mask.shape[1] :])], axis=1)
    known = {"input_ids": texts, "attention_mask": seen, "position_ids": np.maximum(seen.cumsum(axis=1) - 1, 0)}
    arrays = dummies(part.spec, sizes)
    nothing = {one.name: np.zeros_like(arrays[one.name]) for one in part.spec.carries}
    told = {name: array.astype(arrays[name].dtype) for name, array in known.items() if name in arrays}
    fed = arrays | nothing | told
    return reference(model, part, fed)[list(part.outputs).index("logits")].astype(np.float64)


def cases(spec: ExportSpec) -> tuple[Overlay, ...]:
    """The cases that a planned spec is checked in: its own, or one of batch 1 and one of batch 3, all else longer."""
    if spec.cases:
        return spec.cases
    used = dict.fromkeys(name for one in spec.inputs for name in names(one.axes))
    traced = {one.name: one.value for one in spec.sizes if one.name in used}
    single = {name: 1 if name == "batch_size" else size + 3 for name, size in traced.items()}
    several = {name: 3 if name == "batch_size" else size + 5 for name, size in traced.items()}
    return tuple(
        Overlay(name, ExportSpec(sizes=tuple(Size(*size) for size in sizes.items())))
        for name, sizes in (("one", single), ("several", several))
    )


def trial(
    spec: ExportSpec,
    output: str,
    case: str,
    answer: Array,
    truth: Array,
    judged: Callable[[Array], Array] = lambda made: made,
) -> Trial:
    """One answer of ONNX Runtime against PyTorch's.

    An element agrees when it is at most `atol * max(1, r) + rtol * |truth|` away, where r is the root mean square of
    the truth: rounding grows with the scale of a tensor, and an element near 0 is as uncertain as its neighbours.
    Numbers that are not finite must be the same. Another shape, or another type of number, never agrees. `judged`
    picks the elements that count.
    """
    if answer.shape != truth.shape or answer.dtype.kind != truth.dtype.kind:
        told = f"{case}: {answer.dtype}{list(answer.shape)} where PyTorch gives {truth.dtype}{list(truth.shape)}"
        return Trial(output, told, answer.shape, np.inf, np.inf, 0.0, passed=False)
    got, wanted = judged(answer).astype(np.float64), judged(truth).astype(np.float64)
    finite = np.isfinite(wanted)
    ordinary = finite & (np.abs(wanted) < ENORMOUS)
    exact = truth.dtype.kind != "f"
    scale = _scale(wanted[ordinary])
    absolute, relative = (0.0, 0.0) if exact else ROUNDING[spec.float_dtype or "float32"]
    atol, rtol = (spec.atol or 0.0) * absolute * scale, (spec.rtol or 0.0) * relative
    apart = _apart(got, wanted)
    agree = np.where(finite, apart <= atol + rtol * np.abs(wanted), apart == 0)
    worst = float(apart[ordinary].max(initial=0.0))
    return Trial(output, case, answer.shape, worst, worst / scale, atol, bool(agree.all()))


def _scale(ordinary: Array) -> float:
    return max(1.0, float(np.sqrt(np.mean(ordinary**2)))) if ordinary.size else 1.0


def _apart(got: Array, wanted: Array) -> Array:
    """How far each element is off: 0 for the same infinity and for two that are no number, infinite for one that is."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(got - wanted)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def failed(report: Report) -> CheckFailed:
    """The error for a report that did not pass: it names each output, where it was worst, and by how much."""
    lines = [
        f"{one.part}: {one.output!r} is {one.max_abs:.2e} away from PyTorch at {one.worst} (atol {one.tolerance:.1e})"
        for one in report.differences
        if not one.passed
    ]
    problem = CheckFailed("; ".join(lines) or "nothing was checked")
    problem.report = report
    return problem


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as problem:
        raise CheckFailed(f"ONNX Runtime cannot load {file.name}: {_told(problem)}") from problem


def _ran(session: Any, file: Path, outputs: list[str], arrays: Mapping[str, Array], label: str) -> list[Array]:
    try:
        answers: list[Array] = session.run(outputs, dict(arrays))
    except Exception as problem:
        raise CheckFailed(f"ONNX Runtime cannot run {file.name} at {label}: {_told(problem)}") from problem
    return answers


def _told(problem: Exception) -> str:
    """ONNX Runtime's first line, and what to do about the commonest cause."""
    line = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
    missing = "; its CPU kernels lack this type: export in float32, or with check=False for another device"
    return line + (missing if "Could not find an implementation" in line else "")


def _label(spec: ExportSpec, overlay: Overlay, arrays: Mapping[str, Array]) -> str:
    sizes: dict[str, int] = {}
    for one in spec.inputs:
        for index, made in enumerate(one.axes.axes):
            if made.kind == "dynamic":
                sizes.setdefault(made.symbol, arrays[one.name].shape[index])
    return f"{overlay.name} ({', '.join(f'{name}={size}' for name, size in sizes.items())})"


def _difference(part: Part, output: str, trials: list[Trial]) -> Difference:
    worst = max(trials, key=lambda made: (not made.passed, made.max_abs))
    return Difference(
        part=part.name,
        output=output,
        shapes=tuple(made.shape for made in trials),
        max_abs=max(made.max_abs for made in trials),
        max_rel=max(made.max_rel for made in trials),
        tolerance=worst.tolerance,
        worst=worst.case,
        passed=all(made.passed for made in trials),
    )
