"""Whether the check finds a fault: a model, its export, and the verdict on a changed copy of its files."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import fault_models
import numpy as np
import onnx
import onnxruntime
from attrs import frozen
from mutations import KINDS, NAMED
from structure_faults import INTERFACE, Kind
from value_faults import SPECIAL_TOKEN
from verdict_counts import ALLOWED, EQUIVALENT, FOUND, MISSED, NOT_RUN, RAW, counts
from wide_inputs import Arrays, distance, special_tokens, torch_answers, wide_inputs

import onnxfn
from onnxfn.check.cases.references import references
from onnxfn.check.verdict.compare import Exact, compare, valid_elements
from onnxfn.export.run import file_checks
from onnxfn.models.dtypes import in_dtype

MASKED = 1e30
"""Larger numbers stand for minus infinity."""

ROUNDINGS = 2.0
"""A fault changes an answer if the difference is larger than so many of PyTorch's own roundings.

The answers with and without a fault are rounded both: without a change they may differ by the sum of both errors.
"""


@frozen
class Subject:
    """A model, its spec, and the folder of its export."""

    name: str
    model: Any
    spec: onnxfn.ExportSpec
    exported: onnxfn.Exported
    folder: Path


@frozen
class Fault:
    """A fault of a model: the kind, the file, and the site in it."""

    model: str
    kind: str
    file: str
    site: str


@frozen
class Verdict:
    """What the check does with a fault. `roundings` is the largest change of an answer, for those that it passes."""

    fault: Fault
    status: str
    note: str = ""
    roundings: float = 0.0


@cache
def subject(name: str) -> Subject:
    """The export of a model of `fault_models.MODELS`, which is written once per process."""
    model, spec = fault_models.build(name)
    folder = Path(tempfile.mkdtemp(prefix=f"onnxfn-{name}-"))
    return Subject(name, model, spec, onnxfn.export(spec, model, folder, overwrite=True), folder)


def graph_files(name: str) -> dict[str, onnx.ModelProto]:
    tested = subject(name)
    files = {path.name: onnx.load(path) for path in sorted(tested.folder.glob("*.onnx"))}
    special = {SPECIAL_TOKEN + kind: str(token) for kind, token in special_tokens(tested.model).items()}
    for model in files.values():
        onnx.helper.set_model_props(model, special)
    return files


def faults(name: str, kinds: Mapping[str, Kind] = NAMED) -> list[Fault]:
    """All faults of these kinds that can be made in the files of a model."""
    return [
        Fault(name, kind, file, site)
        for file, model in graph_files(name).items()
        for kind, sites in kinds.items()
        for site, _ in sites(model)
    ]


def spread(every: Sequence[Fault], per_kind: int) -> list[Fault]:
    """At most so many faults of each kind and file: the first, the last, and some between."""
    groups: dict[tuple[str, str], list[Fault]] = {}
    for fault in every:
        groups.setdefault((fault.kind, fault.file), []).append(fault)
    return [
        group[index]
        for group in groups.values()
        for index in sorted({round(step) for step in np.linspace(0, len(group) - 1, per_kind)})
    ]


def drawn(every: Sequence[Fault], count: int, *, seed: int) -> list[Fault]:
    """Different faults at random: first the kind is drawn, then one of its faults."""
    random = np.random.default_rng(seed)
    by_kind: dict[str, list[Fault]] = {}
    for fault in every:
        by_kind.setdefault(fault.kind, []).append(fault)
    chosen: dict[Fault, None] = {}
    while len(chosen) < min(count, len(every)):
        group = by_kind[random.choice(list(by_kind))]
        chosen[group[int(random.integers(len(group)))]] = None
    return list(chosen)


def changed_files(fault: Fault) -> dict[str, onnx.ModelProto]:
    files = graph_files(fault.model)
    edit = next(edit for site, edit in KINDS[fault.kind](files[fault.file]) if site == fault.site)
    edit()
    return files


def verdict(fault: Fault) -> Verdict:
    """The verdict of `onnxfn.validate` on the files with a fault; the change of the answer if it passes."""
    tested = subject(fault.model)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(tested.folder, folder, dirs_exist_ok=True)
        onnx.save(changed_files(fault)[fault.file], Path(folder) / fault.file)  # its weights are inside
        try:
            report = validated(tested, Path(folder))
        except onnxfn.CheckFailed as error:
            return Verdict(fault, NOT_RUN if "ONNX Runtime cannot" in str(error) else FOUND, str(error)[:120])
        except onnxfn.OnnxfnError as error:
            return Verdict(fault, FOUND, str(error)[:120])
        except Exception as error:  # noqa: BLE001 - any other error is a fault of the check
            return Verdict(fault, RAW, f"{type(error).__name__}: {error}"[:200])
        if not report.passed:
            return Verdict(fault, FOUND)
        return survivor(fault, Path(folder))


def survivor(fault: Fault, folder: Path) -> Verdict:
    """The verdict on a fault that the check passed: whether an answer to wide inputs changes."""
    if fault.kind in INTERFACE:
        return Verdict(fault, MISSED, "the interface differs", np.inf)
    stem = fault.file.removesuffix(".onnx")
    (part,) = (part for part in subject(fault.model).exported.plan.parts if part.name == stem)
    session = onnxruntime.InferenceSession(folder / fault.file, quiet_options(), providers=["CPUExecutionProvider"])
    answers = [answered(session, part, arrays) for _, arrays in wide_cases(fault.model, part.name)]
    changes = [largest_change(fault.model, part, number, answer) for number, answer in enumerate(answers)]
    worst = int(np.argmax(changes))
    case, _ = wide_cases(fault.model, part.name)[worst]
    if changes[worst] <= ROUNDINGS:
        return Verdict(fault, EQUIVALENT, case, changes[worst])
    allowed = all(is_allowed(fault.model, part, number, answer) for number, answer in enumerate(answers))
    return Verdict(fault, ALLOWED if allowed else MISSED, case, changes[worst])


def answered(session: Any, part: onnxfn.Part, arrays: Arrays) -> list[np.ndarray] | None:
    try:
        return session.run([output.name for output in part.spec.outputs], arrays)
    except Exception:  # noqa: BLE001 - ONNX Runtime has many kinds of errors
        return None


def largest_change(name: str, part: onnxfn.Part, number: int, answer: list[np.ndarray] | None) -> float:
    """The largest change of an output in a wide case, in roundings of PyTorch; infinite if the graph does not run."""
    if answer is None:
        return np.inf
    _, arrays = wide_cases(name, part.name)[number]
    expected = wide_answers(name, part.name)[number]
    limits = zip(relative_roundings(name, part.name), map(largest, expected), strict=True)
    return max(
        distance(part, index, arrays, *pair) / (rounding * scale or 1.0)
        for index, (pair, (rounding, scale)) in enumerate(zip(zip(answer, expected, strict=True), limits, strict=True))
    )


def is_allowed(name: str, part: onnxfn.Part, number: int, answer: list[np.ndarray] | None) -> bool:
    """Whether the rule of the check allows all outputs of a wide case."""
    case, arrays = wide_cases(name, part.name)[number]
    own, exact = wide_torch(name, part.name)[number]
    return answer is not None and all(
        compare(part.spec, output.name, case, *pair, valid_elements(part.spec, output, arrays), exactly(wider)).passed
        for output, *pair, wider in zip(part.spec.outputs, answer, own, exact, strict=True)
    )


def exactly(array: np.ndarray) -> Exact:
    return Exact(lambda: ("float64", array))


def largest(array: np.ndarray) -> float:
    values = np.abs(array.astype(np.float64))
    return float(values[values < MASKED].max(initial=0.0))


def quiet_options() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


@cache
def wide_cases(name: str, part: str) -> tuple[tuple[str, Arrays], ...]:
    tested = subject(name)
    return tuple(wide_inputs(tested.model, part_of(tested, part)))


def part_of(tested: Subject, name: str) -> onnxfn.Part:
    return next(part for part in tested.exported.plan.parts if part.name == name)


@cache
def wide_session(name: str, part: str) -> Any:
    path = subject(name).folder / f"{part}.onnx"
    return onnxruntime.InferenceSession(path, quiet_options(), providers=["CPUExecutionProvider"])


@cache
def wide_answers(name: str, part_name: str) -> tuple[list[np.ndarray], ...]:
    outputs = [output.name for output in part_of(subject(name), part_name).spec.outputs]
    return tuple(wide_session(name, part_name).run(outputs, arrays) for _, arrays in wide_cases(name, part_name))


@cache
def relative_roundings(name: str, part_name: str) -> tuple[float, ...]:
    """PyTorch's own rounding of each output, relative to its largest element: the largest in a wide case."""
    part = part_of(subject(name), part_name)
    ratios = [
        [
            distance(part, index, arrays, *pair) / (largest(pair[0]) or 1.0)
            for index, pair in enumerate(zip(*both, strict=True))
        ]
        for (_, arrays), both in zip(wide_cases(name, part_name), wide_torch(name, part_name), strict=True)
    ]
    return tuple(map(max, zip(*ratios, strict=True)))


@cache
def wide_torch(name: str, part_name: str) -> tuple[tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]], ...]:
    """PyTorch's answers to the wide inputs, in the dtype of the export and in float64."""
    tested = subject(name)
    part = part_of(tested, part_name)
    return tuple(torch_answers(tested.model, part, arrays) for _, arrays in wide_cases(name, part_name))


def validated(tested: Subject, folder: Path) -> onnxfn.Report:
    original = file_checks.references
    file_checks.references = lambda _, part, *__, **___: known_references(tested.name, part.name)
    try:
        return onnxfn.validate(tested.spec, tested.model, folder)
    finally:
        file_checks.references = original


@cache
def known_references(name: str, part_name: str) -> tuple[Any, ...]:
    """PyTorch's outputs in the cases of the check, in the dtype of the export."""
    tested = subject(name)
    part = part_of(tested, part_name)
    return tuple(references(in_dtype(tested.model, part.spec.target.float_dtype), part))


# Summaries


def lines(verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each verdict of a survivor: its place, the change, and the inputs of the largest change."""
    return [
        f"{one.status}: {one.fault.model}, {one.fault.kind}, {one.fault.file}: {one.fault.site} "
        f"({one.roundings:.3g} roundings; {one.note})"
        for one in verdicts
        if one.status not in (FOUND, NOT_RUN)
    ]


def recorded(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """The counts of verdicts, and a line for each survivor."""
    every = list(verdicts)
    rows = [(one.fault.model, one.fault.kind, one.status) for one in every]
    (numbers,) = counts(rows, 0).values()
    return {**numbers, "survivors": lines(every)}
