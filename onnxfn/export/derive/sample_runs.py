"""The sizes and the values on which a module runs, found from those of a sample; the axes of its outputs in a trace."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from attrs import evolve

from onnxfn.check.cases.runnable_sizes import fixed_axes, runnable_limits
from onnxfn.export.derive.probe import Run, own_symbol, run, run_at_sizes, specs_at_sizes, summary
from onnxfn.export.derive.sample_arguments import SampleTensor
from onnxfn.export.derive.sample_inputs import LIKE, assumed_range, inner_config, sample_range, with_long_texts
from onnxfn.export.derive.trees import all_tensors
from onnxfn.graphs.capture.capture import tracing
from onnxfn.graphs.capture.output_formulas import output_words
from onnxfn.graphs.capture.trace_conditions import fake_outputs
from onnxfn.specs.algebra.compose import compose, named
from onnxfn.specs.algebra.dummies import known_sizes, sized, with_sizes_as_axes
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.algebra.spec import Dummies, ExportSpec
from onnxfn.specs.axes import pattern, symbols, terms, value
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, raise_no_memory
from onnxfn.specs.plan.check_cases import CASE_STEPS, batch_symbol, resized
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.plan.size_cases import Sizes, within
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
    named_generators = (evolve(generator, name=LIKE.format(name)) for name, generator in generators.items())
    return compose(base, ExportSpec(dummies=Dummies(generators=tuple(named_generators))))


def accepted_sizes(
    model: Any, base: ExportSpec, tensors: Sequence[SampleTensor], certain: dict[str, Generator]
) -> tuple[ExportSpec, Generators, Runs]:
    """The spec, its generators and the runs at unequal sizes if the module runs there; else with its limits."""
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
    """The generators with the widest values, all or each in turn, on which the module runs at all sizes; the runs."""
    wide = {sample.name: assumed_range(sample.name, sample.tensor) for sample in tensors} | certain
    with errors_dropped():  # the values may be none that the module accepts; the sample's are
        runs, has_nan = _runs(model, with_generators(base, wide), [])
        if not has_nan:
            return wide, runs
    generators = _like_sample(tensors, certain)
    runs, may_have_nan = first_runs(model, base, generators)
    for name in [name for name in generators if name not in certain]:
        wider = {**generators, name: wide[name]}
        with errors_dropped():
            wider_runs, has_nan = _runs(model, with_generators(base, wider), [])
            if may_have_nan or not has_nan:
                generators, runs = wider, wider_runs
    return generators, runs


def first_runs(model: Any, base: ExportSpec, generators: Generators) -> tuple[Runs, bool]:
    """The runs on values like the sample's, and whether a result has NaN; InvalidSpec if the module does not run."""
    spec, nan = with_generators(base, generators), list[bool]()
    try:
        return _runs(model, spec, nan)
    except Exception as error:
        raise_no_memory(error)
        failing = specs_at_sizes(with_long_text(model, spec))[len(nan)]
        sizes = ", ".join(f"{name}={size}" for name, size in known_sizes(failing, {}).items())
        where = f" at {sizes}" if nan else ""  # it fails at the sizes of the sample
        raise InvalidSpec(
            f"{base.name} does not run on tensors like this sample{where}: {summary(error)}; if a value is why, say "
            "`ranges`; if a size: `axes` names the axes that move, the others have the sizes of the sample"
        ) from error


def _runs(model: Any, spec: ExportSpec, nan: list[bool]) -> tuple[Runs, bool]:
    """The runs of a module at all sizes, and whether a result has NaN; `nan` gets the same of each run that ends."""
    takes_cache = any(builder.by == "cache_of_layers" for builder in spec.call.builders)

    def tensors(result: Any) -> Mapping[Any, Any]:
        tensors_of_result = all_tensors(result, caches=takes_cache)
        real = (tensor.float() for tensor in tensors_of_result.values() if tensor.is_floating_point())
        nan.append(any(bool(tensor.isnan().any()) for tensor in real))
        return tensors_of_result

    return run_at_sizes(model, with_long_text(model, spec), tensors), any(nan)


def at_sizes(spec: ExportSpec, sizes: Mapping[str, int], several: Mapping[str, int] | None = None) -> ExportSpec:
    """The spec that is traced at other sizes, with cases for larger ones; the case `sample` has those that it had."""
    planned = resolved(spec, {})
    before, batch = known_sizes(planned, {}), batch_symbol(planned)
    lengths = {name: size for name, size in sizes.items() if name != batch}
    larger = ({name: size + step for name, size in lengths.items()} for step in CASE_STEPS)
    cases = dict(zip(("one", "several"), larger, strict=True))
    cases["several"] |= {name: size for name, size in (several or {}).items() if name != batch}
    if before != sizes:
        cases["sample"] = {name: before[name] for name in lengths}
    return compose(spec, sized(**sizes), *(case(name, sized(**of_case)) for name, of_case in cases.items()))


def with_traced_axes(model: Any, spec: ExportSpec, run: Run) -> ExportSpec:
    """The spec with the axes that its outputs have in a trace; a size without a formula has a symbol of its own."""
    # No trace is needed if outputs have the axes of the spec at far sizes, and at small ones if the module runs there.
    part, traced = Part("model", resolved(spec, {})), tuple[tuple[str, ...], ...]()
    sizes, ((far, after), small) = known_sizes(part.spec, {}), _far_and_small_runs(model, part)
    if _is_right_at(spec, run, far, after) and (None in small or sizes in small or _is_right_at(spec, run, *small)):
        return spec
    with suppress(CaptureFailed, InvalidSpec):  # the export says so
        traced = output_words(model, part)
    outputs, own = [], dict[str, str]()
    for number, (output, of_trace) in enumerate(zip(spec.outputs, traced, strict=False)):
        words = pattern(output.axes).split()
        for at, word in enumerate(of_trace):
            if not word.isdecimal() and not (spec.limits and words[at] in sizes):
                # A trace may assume that a number of elements is even, as it is in the sample.
                is_wrong = "[" in word or (after is not None and value(word, far) != after[number].shape[at])
                words[at] = own.setdefault(word, own_symbol(output.name, at)) if is_wrong else word
        outputs.append(evolve(output, axes=" ".join(words)))
    return _with_moving_outputs(model, evolve(spec, outputs=named(spec.outputs, outputs)))


def _far_and_small_runs(model: Any, part: Part) -> list[tuple[Sizes, tuple[Any, ...] | None]]:
    """Sizes where lengths are 2, 3, ... times as large, then 2, 3, ..., each with the outputs, None if it has none."""
    near, batch = known_sizes(part.spec, {}), batch_symbol(part.spec)
    lengths = list(enumerate([name for name in near if name != batch], 2))
    # An image that a model resizes to a fixed height has the same width at twice its size.
    others = {name: near[name] * times + 1 for times, name in lengths}, {name: small for small, name in lengths}
    moved = [within({**near, **each}, part.spec.limits) for each in others]
    part = with_sizes_as_axes(part)
    with tracing(model, part, {}):
        return [(each, fake_outputs(model, part, each)) for each in moved]


def _is_right_at(spec: ExportSpec, run: Run, far: Sizes, after: tuple[Any, ...] | None) -> bool:
    """Whether each axis of the outputs has the size of one of the inputs, or one size, also at these other sizes."""
    moving = [symbols(output.axes) for output in spec.outputs]
    is_known = all(far.keys() >= {*terms(symbol)} for each in moving for symbol in each.values())
    if after is None or far == known_sizes(resolved(spec, {}), {}) or not is_known:
        return False
    before = [run.shapes[output.forward_path] for output in spec.outputs]
    return all(
        far_output.shape == tuple(value(each[at], far) if at in each else size for at, size in enumerate(near_shape))
        for each, near_shape, far_output in zip(moving, before, after, strict=True)
    )


def _with_moving_outputs(model: Any, spec: ExportSpec) -> ExportSpec:
    """The spec with a larger second case, if the module runs at it, where an axis like `samples//160` does not move."""
    sizes = known_sizes(resolved(spec, {}), {})
    of_outputs = {symbol for output in spec.outputs for symbol in symbols(output.axes).values()}
    formulas = [symbol for symbol in of_outputs if sizes.keys() >= {*terms(symbol)}]
    steps = (CASE_STEPS[1] << doublings for doublings in range(16))
    grown = ({name: size + step for name, size in sizes.items()} for step in steps)
    larger = next((each for each in grown if all(value(of, each) != value(of, sizes) for of in formulas)), sizes)
    if any(larger[name] > size + CASE_STEPS[1] for name, size in sizes.items()):
        with suppress(InvalidSpec):
            moving_spec = at_sizes(spec, sizes, several=larger)
            first_runs(model, moving_spec, {})
            return moving_spec
    return spec
