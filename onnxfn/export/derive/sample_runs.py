"""The sizes and the values on which a module runs, found from those of a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve

from onnxfn.check.cases.runnable_sizes import fixed_axes, runnable_limits
from onnxfn.export.derive.probe import Run, run, run_at_sizes, specs_at_sizes, summary
from onnxfn.export.derive.sample_arguments import SampleTensor
from onnxfn.export.derive.sample_inputs import (
    assumed_range,
    generator_name,
    inner_config,
    sample_range,
    with_long_texts,
)
from onnxfn.export.derive.trees import all_tensors
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import known_sizes, sized
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.algebra.spec import Dummies, ExportSpec
from onnxfn.specs.errors import InvalidSpec, raise_no_memory
from onnxfn.specs.plan.check_cases import CASE_STEPS, batch_symbol, resized
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.plan.size_cases import within
from onnxfn.specs.plan.text_cases import thresholds
from onnxfn.specs.records import Generator

Generators = Mapping[str, Generator]
"""The generator of each input, by the name of the input."""


Runs = tuple[Run, ...]
"""The runs of a module at all sizes."""


@contextmanager
def errors_dropped() -> Iterator[None]:
    """Ends what is inside at an error, which is dropped: a module may raise anything. MemoryError passes."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        raise_no_memory(error)


def with_long_text(model: Any, spec: ExportSpec) -> PlannedSpec:
    """The planned spec, with a long text if there are thresholds inside: results may have other sizes beyond them."""
    planned = resolved(spec, {})
    return with_long_texts(model, Part("model", planned)).spec if any(thresholds(inner_config(model))) else planned


def with_generators(base: ExportSpec, generators: Generators) -> ExportSpec:
    """The spec with a generator for each input."""
    named_generators = (evolve(generator, name=generator_name(name)) for name, generator in generators.items())
    return compose(base, ExportSpec(dummies=Dummies(generators=tuple(named_generators))))


def accepted_sizes(
    model: Any, base: ExportSpec, tensors: Sequence[SampleTensor], certain: dict[str, Generator]
) -> tuple[ExportSpec, Generators, Runs]:
    """The spec, its generators and the runs, at sizes that differ from axis to axis if the module runs at these.

    Torch would take two axes for one if a module compares them. If the module does not run, the spec has the limits of
    its sizes.
    """
    apart, sizes = dict[str, int](), known_sizes(resolved(base, {}), {})
    for name, size in sizes.items():
        apart[name] = next(other for other in count(size) if other not in apart.values())
    runs = runs_at(model, with_generators(base, _like_sample(tensors, certain)))
    moves = all(runs({**sizes, name: sizes[name] + CASE_STEPS[0]}) for name in sizes)
    for is_limited in (False, True) if moves else (True,):
        limits = runnable_limits(sizes, runs) if is_limited and runs(sizes) else ()
        limited = compose(base, ExportSpec(limits=limits, axes=fixed_axes(limits)))
        moved = {**sizes, **within(apart, limits)}
        for spec in (*([at_sizes(limited, moved)] if moved != sizes else []), limited):
            with suppress(InvalidSpec):
                return spec, *_accepted(model, spec, tensors, certain)
    return base, *_accepted(model, base, tensors, certain)


def _like_sample(tensors: Sequence[SampleTensor], certain: Generators) -> dict[str, Generator]:
    """The generators of values between those of the sample, where no others are certain."""
    return {sample.name: sample_range(sample.name, sample.tensor) for sample in tensors} | dict(certain)


def runs_at(model: Any, spec: ExportSpec) -> Callable[[Mapping[str, int]], bool]:
    """Whether a module runs at some sizes."""
    planned = resolved(spec, {})

    def runs(sizes: Mapping[str, int]) -> bool:
        with errors_dropped():
            run(model, resized(planned, sizes))
            return True
        return False

    return runs


def _accepted(
    model: Any, base: ExportSpec, tensors: Sequence[SampleTensor], certain: dict[str, Generator]
) -> tuple[Generators, Runs]:
    """The generators with the widest values on which the module runs at all sizes, and these runs.

    If it does not run on all wide ranges together, each input in turn keeps its own if the module then runs.
    """
    wide = {sample.name: assumed_range(sample.name, sample.tensor) for sample in tensors} | certain
    with errors_dropped():  # the values may be none that the module accepts; the sample's are
        runs, has_nan = _runs(model, with_generators(base, wide))
        if not has_nan:
            return wide, runs
    generators = _like_sample(tensors, certain)
    runs, may_have_nan = first_runs(model, base, generators)
    for name in [name for name in generators if name not in certain]:
        wider = {**generators, name: wide[name]}
        with errors_dropped():
            wider_runs, has_nan = _runs(model, with_generators(base, wider))
            if may_have_nan or not has_nan:
                generators, runs = wider, wider_runs
    return generators, runs


def first_runs(model: Any, base: ExportSpec, generators: Generators) -> tuple[Runs, bool]:
    """The runs on values like the sample's, and whether a result has NaN; InvalidSpec if the module does not run."""
    try:
        return _runs(model, with_generators(base, generators))
    except Exception as error:
        raise_no_memory(error)
        where = _failing_sizes(model, with_long_text(model, with_generators(base, generators)))
        raise InvalidSpec(
            f"{base.name} does not run on tensors like this sample{where}: {summary(error)}; name its dynamic axes "
            "in `axes`"
        ) from error


def _failing_sizes(model: Any, spec: PlannedSpec) -> str:
    """The sizes at which a module does not run, for a message; nothing if it fails at the sizes of the sample."""
    for seed, sized_spec in enumerate(specs_at_sizes(spec)):
        try:
            run(model, sized_spec, seed)
        except Exception as error:  # noqa: BLE001 - a module may raise anything
            raise_no_memory(error)
            sizes = (f"{name}={size}" for name, size in known_sizes(sized_spec, {}).items())
            return f" at {', '.join(sizes)}" if seed else ""
    return ""


def _runs(model: Any, spec: ExportSpec) -> tuple[Runs, bool]:
    """The runs of a module at all sizes, and whether a result has NaN."""
    nan: list[bool] = []
    takes_cache = any(builder.by == "cache_of_layers" for builder in spec.call.builders)

    def tensors(result: Any) -> Mapping[Any, Any]:
        tensors_of_result = all_tensors(result, caches=takes_cache)
        real = (tensor for tensor in tensors_of_result.values() if tensor.is_floating_point())
        nan.extend(bool(np.isnan(tensor.float().numpy()).any()) for tensor in real)
        return tensors_of_result

    return run_at_sizes(model, with_long_text(model, spec), tensors), any(nan)


def at_sizes(
    spec: ExportSpec, sizes: Mapping[str, int], several: Mapping[str, int] = MappingProxyType({})
) -> ExportSpec:
    """The spec that is traced at other sizes, with cases for larger ones; the case `sample` has those that it had."""
    planned = resolved(spec, {})
    before, batch = known_sizes(planned, {}), batch_symbol(planned)
    lengths = {name: size for name, size in sizes.items() if name != batch}
    larger = ({name: size + step for name, size in lengths.items()} for step in CASE_STEPS)
    cases = dict(zip(("one", "several"), larger, strict=True))
    cases["several"] |= {name: size for name, size in several.items() if name != batch}
    if before != sizes:
        cases["sample"] = {name: before[name] for name in lengths}
    return compose(spec, sized(**sizes), *(case(name, sized(**of_case)) for name, of_case in cases.items()))
