"""Tiny models at sizes that no case of their check has: odd, prime, smaller and larger than the traced ones."""

import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from math import gcd
from pathlib import Path
from typing import Any

import every_head
import swept
from attrs import evolve
from real_sizes import chosen_task
from time_limits import limited

import onnxfn
from onnxfn.architectures import audio, decoders, detection, multimodal, seq2seq, series, text, vision
from onnxfn.check.cases.references import references
from onnxfn.check.check import check
from onnxfn.check.variants.proof import check_error
from onnxfn.export.run.runnable_images import IMAGE_AXES, image_sizes
from onnxfn.models.model_state import model_copy
from onnxfn.specs.algebra.dummies import known_sizes, padded
from onnxfn.specs.axes import names
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.conditions import Condition, is_true, symbols_of
from onnxfn.specs.plan.check_cases import in_case, past_lengths, resized
from onnxfn.specs.tasks.tasks import task_names

NAME = "other_sizes"
"""The name of the file of results."""

SECONDS = 120
"""The limit of processor time for a model."""

NOT_TRIED = f"{swept.NOT}tried: "
"""How a line starts when PyTorch or the file takes no other size."""

FAMILIES = (text, vision, detection, multimodal, audio, series, seq2seq, decoders)

SCALES = {"smaller": 0.6, "odd": 1.0, "larger": 1.7}
"""The sizes of a case are the primes above so many times the traced sizes."""

TEXT_SIDES = ("left", "right")


def pairs() -> tuple[tuple[str, str], ...]:
    rows = chain.from_iterable(family.ROWS.items() for family in FAMILIES)
    return tuple({name: (name, chosen_task(task_names(row)).removesuffix("-with-past")) for name, row in rows}.values())


def prime_above(number: float) -> int:
    candidate = max(3, int(number) + 1)
    while candidate % 2 == 0 or any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate += 1
    return candidate


def other_sizes(part: onnxfn.Part) -> dict[str, dict[str, int]]:
    spec = part.spec
    free = {name for input_ in spec.inputs for name in names(input_.axes)} - {spec.batch, *fixed_sizes(spec)}
    known = {name: size for name, size in known_sizes(spec, {}).items() if name in free - past_lengths(spec).keys()}
    images = image_sizes(spec)
    cases = {
        name: {
            axis: prime_above(scale * size + (3 * IMAGE_AXES.index(axis) if axis in IMAGE_AXES else 0))
            for axis, size in known.items()
        }
        for name, scale in SCALES.items()
    }
    if images:
        low, high = cases["smaller"], cases["larger"]
        cases["uneven"] = {**low, "width": high["width"]}
        others = (size for case in spec.cases for size in image_sizes(in_case(spec, case)).values())
        unit = gcd(*images.values(), *others)
        cases["multiples"] = {**low, **{axis: unit * prime_above(images[axis] / unit + 1) for axis in images}}
    return cases


def cases_of(part: onnxfn.Part, limits: Sequence[Condition]) -> Iterator[onnxfn.Case]:
    for name, sizes in other_sizes(part).items():
        known = known_sizes(part.spec, {}) | sizes
        of_part = (each.text for each in limits if known.keys() >= {*symbols_of(each.text)})
        within = all(is_true(text, known) for text in of_part)
        sides = TEXT_SIDES if part.spec.check.mask_input else ("right",)
        for side in sides if within else ():
            yield resized(onnxfn.Case(f"{name}, padded {side}", padded(side).dummies), sizes)


def runs(model: Any, part: onnxfn.Part, cases: tuple[onnxfn.Case, ...]) -> bool:
    """Whether PyTorch can run a model in some cases. The size of a batch depends on a case's place among them."""
    try:
        list(references(model, with_cases(part, cases)))
    except onnxfn.CaptureFailed:
        return False
    return True


def with_cases(part: onnxfn.Part, cases: tuple[onnxfn.Case, ...]) -> onnxfn.Part:
    return evolve(part, spec=evolve(part.spec, cases=cases))


def tried(spec: onnxfn.ExportSpec, model: Any, folder: Path, **options: Any) -> str:
    """The line of a model: how far its files are from PyTorch at other sizes, and how many cases there are."""
    result = onnxfn.export(spec, model, folder, check=False, **options)
    copied, worst, count = model_copy(model).eval(), 0.0, 0
    for part in result.plan.parts:
        cases = tuple[onnxfn.Case, ...]()
        for case in cases_of(part, result.limits):
            cases += (case,) if runs(copied, part, (*cases, case)) else ()
        if cases:
            report = check(copied, with_cases(part, cases), folder / f"{part.name}.onnx", result.plan)
            if not report.passed:
                raise check_error(report)
            worst = max(worst, *(difference.max_abs for difference in report.differences))
        count += len(cases)
    return f"max abs diff {worst:.0e} in {count} cases" if count else f"{NOT_TRIED}no other size runs"


def line(model_type: str, task: str) -> str:
    with tempfile.TemporaryDirectory() as folder, limited(SECONDS):
        try:
            model = every_head.tiny_model(model_type, task)
            return tried(onnxfn.spec_for(model, task), model, Path(folder) / "out")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the result of the sweep is the error
            return every_head.failure(swept.NOT, error)
