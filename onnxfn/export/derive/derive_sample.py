"""A spec that is derived from a module and a sample of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, cast

import numpy as np
from attrs import evolve, frozen

from onnxfn.architectures import ARCHITECTURES
from onnxfn.export.derive.auto_tables import row_of
from onnxfn.export.derive.index_bounds import Bounds, index_bounds
from onnxfn.export.derive.probe import (
    Run,
    all_tensors,
    outputs_spec,
    run,
    run_at_sizes,
    specs_at_sizes,
    summary,
)
from onnxfn.export.derive.sample_arguments import SampleTensor, sample_arguments
from onnxfn.export.derive.sample_inputs import (
    Range,
    assumed_range,
    check_module,
    check_results,
    generator_name,
    indexed_range,
    inner_config,
    inner_models,
    sample_inputs,
    sample_range,
    specified_range,
    with_long_texts,
    with_own_buffers,
)
from onnxfn.export.derive.steps import found_limits
from onnxfn.export.derive.traced_axes import at_sizes, with_traced_axes
from onnxfn.models.dtypes import float_dtype, float_dtypes
from onnxfn.models.model_state import model_copy
from onnxfn.specs.algebra.compose import compose, named
from onnxfn.specs.algebra.dummies import known_sizes
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.algebra.spec import Call, Dummies, ExportSpec, FloatDtype, Target
from onnxfn.specs.axis_symbols import AxisFacts
from onnxfn.specs.conditions import Condition, range_of, symbols_of
from onnxfn.specs.converters import Path
from onnxfn.specs.edits.tensors import FLOAT_DTYPES
from onnxfn.specs.errors import InvalidSpec, raise_no_memory, refuse_unknown
from onnxfn.specs.plan.check_cases import CASE_STEPS, resized
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.plan.size_cases import within
from onnxfn.specs.plan.thresholds import thresholds
from onnxfn.specs.records import Generator, Patch

SLIDING_WINDOW_CACHE = Patch(
    "transformers.cache_utils:DynamicSlidingWindowLayer.update",
    "attention.updated_states",
    why="branches on the length of the text",
)
"""The patch for a cache with sliding windows that the model creates itself."""

FROM_SAMPLE = ", from a sample"
HOW_TO_SPECIFY = "write the spec yourself: derived(model, sample={name: tensor}) or compose(takes(...), gives(...))"
"""The end of what a spec was derived from, if it was a sample."""

Generators = Mapping[str, Generator]
"""The generator of each input, by the name of the input."""


@frozen
class Runs:
    """The runs of a module at all sizes.

    Attributes:
        runs: The sizes and shapes of each.
        has_nan: Whether a result has NaN.
        complex_paths: Where results have complex numbers.
    """

    runs: tuple[Run, ...]
    has_nan: bool
    complex_paths: tuple[Path, ...]


def derive_from_sample(
    model: Any, sample: Any, axes: Mapping[str, str], ranges: Mapping[str, Range], task: str | None
) -> ExportSpec:
    """The spec of any module whose inputs are like the tensors of a sample. The module runs on dummy inputs.

    UnknownName if `forward` has no argument with a name of the sample, InvalidSpec if `forward` fails.
    """
    check_module(model)
    tensors, call = sample_arguments(model, sample)
    names = [tensor.name for tensor in tensors]
    for name in (*ranges, *axes):
        refuse_unknown("tensor", name, names, of="the sample")
    base = compose(
        ExportSpec(name=type(model).__name__, task=task, target=_target(model, tensors)),
        ExportSpec(call=evolve(call, patches=_inner_patches(model))),
        sample_inputs(tensors, axes, str(float_dtype(model)).removeprefix("torch.")),
    )
    copied = model_copy(model)
    if copied is not model:
        with_own_buffers(copied)
    certain = _certain(copied, base, tensors, ranges)
    base, generators, runs = _accepted_sizes(copied, base, tensors, certain)
    check_results(type(model).__name__, runs.runs, runs.complex_paths)
    provenance = ExportSpec(derived=_provenance(model, tensors, call))
    spec = compose(_with_generators(base, generators), outputs_spec(runs.runs, names), provenance)

    def does_run(changed: ExportSpec) -> bool:
        with suppress(InvalidSpec):
            return bool(_first_runs(copied, changed, {}))
        return False

    return with_traced_axes(copied, spec, does_run)


def _target(model: Any, tensors: Sequence[SampleTensor]) -> Target:
    """The float dtype of a module without weights: that of the sample, if its real tensors have one."""
    reals = (sample.tensor for sample in tensors if sample.tensor.is_floating_point())
    dtypes = {str(tensor.dtype).removeprefix("torch.") for tensor in reals}
    has_one = len(dtypes) == 1 and dtypes <= {*FLOAT_DTYPES} - {"float32"} and not float_dtypes(model)
    return Target(float_dtype=cast("FloatDtype", dtypes.pop())) if has_one else Target()


def _inner_patches(model: Any) -> Collection[Patch]:
    """The patches of the rows of the transformers models inside a module."""
    types = {str(getattr(module.config, "model_type", None)) for module in inner_models(model)}
    patches: Collection[Patch] = (SLIDING_WINDOW_CACHE,) if any(thresholds(inner_config(model))) else ()
    for row in filter(None, (row_of(name, ARCHITECTURES) for name in sorted(types))):
        patches = named(patches, row.call.patches)
    return patches


def _with_long_text(model: Any, spec: ExportSpec) -> PlannedSpec:
    """The planned spec, with a long text if there are thresholds inside: results may have other sizes beyond them."""
    planned = resolved(spec, {})
    return with_long_texts(model, Part("model", planned)).spec if any(thresholds(inner_config(model))) else planned


def with_texts_inside(model: Any, planned: Plan) -> Plan:
    """The plan of a spec from a sample with the long texts of the models inside a module."""
    return evolve(planned, parts=[with_long_texts(model, each) for each in planned.parts])


def _with_generators(base: ExportSpec, generators: Generators) -> ExportSpec:
    named_generators = (evolve(generator, name=generator_name(name)) for name, generator in generators.items())
    return compose(base, ExportSpec(dummies=Dummies(generators=tuple(named_generators))))


def _certain(
    model: Any, base: ExportSpec, tensors: Sequence[SampleTensor], ranges: Mapping[str, Range]
) -> dict[str, Generator]:
    """The generators of inputs whose range was given, or found in the runs at all sizes: the narrowest of these."""
    by_name = {sample.name: sample.tensor for sample in tensors}
    known = {name: specified_range(name, by_name[name], limits) for name, limits in ranges.items()}
    ranged = _with_generators(base, {name: sample_range(name, by_name[name]) for name in by_name} | known)
    bounds: Bounds = {}
    for spec in specs_at_sizes(_with_long_text(model, ranged)):
        bounds = index_bounds(model, spec, bounds)
    ordered = {name: limits for name, limits in bounds.items() if limits[0] < limits[1]}
    indices = {name: limits for name, limits in ordered.items() if str(by_name[name].dtype) != "torch.bool"}
    return {name: indexed_range(name, by_name[name], limits) for name, limits in indices.items()} | known


def _accepted_sizes(
    model: Any, base: ExportSpec, tensors: Sequence[SampleTensor], certain: dict[str, Generator]
) -> tuple[ExportSpec, Generators, Runs]:
    """The spec, its generators and the runs, at sizes that differ from axis to axis if the module runs at these.

    Torch would take two axes for one if a module compares them. If the module does not run, the spec has the limits of
    its sizes.
    """
    apart, sizes = dict[str, int](), known_sizes(resolved(base, {}), {})
    for name, size in sizes.items():
        apart[name] = next(other for other in count(size) if other not in apart.values())
    runs = _runs_at(model, _with_generators(base, _like_sample(tensors, certain)))
    moves = all(runs({**sizes, name: sizes[name] + CASE_STEPS[0]}) for name in sizes)
    for is_limited in (False, True) if moves else (True,):
        limits = found_limits(sizes, runs) if is_limited and runs(sizes) else ()
        limited = compose(base, ExportSpec(limits=limits, axes=_fixed(limits)))
        moved = {**sizes, **within(apart, limits)}
        for spec in (*([at_sizes(limited, moved, CASE_STEPS[1])] if moved != sizes else []), limited):
            with suppress(InvalidSpec):
                return spec, *_accepted(model, spec, tensors, certain)
    return base, *_accepted(model, base, tensors, certain)


def _like_sample(tensors: Sequence[SampleTensor], certain: Generators) -> dict[str, Generator]:
    """The generators of values between those of the sample, where no others are certain."""
    return {sample.name: sample_range(sample.name, sample.tensor) for sample in tensors} | dict(certain)


def _runs_at(model: Any, spec: ExportSpec) -> Callable[[Mapping[str, int]], bool]:
    """Whether a module runs at some sizes."""
    planned = resolved(spec, {})

    def runs(sizes: Mapping[str, int]) -> bool:
        try:
            run(model, resized(planned, sizes))
        except Exception as error:  # noqa: BLE001 - a module may raise anything
            raise_no_memory(error)
            return False
        return True

    return runs


def _fixed(limits: Sequence[Condition]) -> tuple[AxisFacts, ...]:
    """The axes that limits fix at one size."""
    ends = {name: range_of(limits, name) for limit in limits for name in symbols_of(limit.text)}
    return tuple(AxisFacts(name, low=low, high=high) for name, (low, high) in ends.items() if low == high)


def _accepted(
    model: Any, base: ExportSpec, tensors: Sequence[SampleTensor], certain: dict[str, Generator]
) -> tuple[Generators, Runs]:
    """The generators with the widest values on which the module runs at all sizes, and these runs.

    If it does not run on all wide ranges together, each input in turn keeps its own if the module then runs.
    """
    wide = {sample.name: assumed_range(sample.name, sample.tensor) for sample in tensors} | certain
    try:
        runs = _runs(model, _with_generators(base, wide))
        if not runs.has_nan:
            return wide, runs
    except Exception as error:  # noqa: BLE001 - the values may be none that the module accepts; the sample's are
        raise_no_memory(error)
    generators = _like_sample(tensors, certain)
    runs = _first_runs(model, base, generators)
    may_have_nan = runs.has_nan
    for name in [name for name in generators if name not in certain]:
        try:
            wider_runs = _runs(model, _with_generators(base, {**generators, name: wide[name]}))
        except Exception as error:  # noqa: BLE001
            raise_no_memory(error)
            continue
        if may_have_nan or not wider_runs.has_nan:
            generators, runs = {**generators, name: wide[name]}, wider_runs
    return generators, runs


def _first_runs(model: Any, base: ExportSpec, generators: Generators) -> Runs:
    """The runs on values like the sample's; InvalidSpec if the module does not run on them."""
    try:
        return _runs(model, _with_generators(base, generators))
    except Exception as error:
        raise_no_memory(error)
        where = _failing_sizes(model, _with_long_text(model, _with_generators(base, generators)))
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


def _runs(model: Any, spec: ExportSpec) -> Runs:
    """The runs of a module at all sizes."""
    nan: list[bool] = []
    complex_paths: list[Path] = []

    def tensors(result: Any) -> Mapping[Any, Any]:
        tensors_of_result = all_tensors(result)
        real = (tensor for tensor in tensors_of_result.values() if tensor.is_floating_point())
        nan.extend(bool(np.isnan(tensor.float().numpy()).any()) for tensor in real)
        complex_paths.extend(path for path, tensor in tensors_of_result.items() if tensor.is_complex())
        return tensors_of_result

    runs = run_at_sizes(model, _with_long_text(model, spec), tensors)
    return Runs(runs, any(nan), tuple(complex_paths))


def _provenance(model: Any, tensors: Sequence[SampleTensor], call: Call) -> str:
    names = (sample.name for sample in tensors)
    values = (f"{constant.name}={constant.value!r}" for constant in call.constants)
    return f"{type(model).__name__}.forward({', '.join((*names, *values))}){FROM_SAMPLE}"
