"""A spec that is derived from a module and a sample of its arguments."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from attrs import evolve

from onnxfn.architectures import ARCHITECTURES
from onnxfn.export.derive import sample_inputs as inputs
from onnxfn.export.derive.auto_tables import row_of
from onnxfn.export.derive.index_bounds import Bounds, Lookups, index_bounds, table_limits
from onnxfn.export.derive.probe import outputs_spec, specs_at_sizes
from onnxfn.export.derive.sample_arguments import SampleTensor, sample_arguments
from onnxfn.export.derive.sample_runs import accepted_sizes, runs_at, with_generators, with_long_text, with_traced_axes
from onnxfn.models.dtypes import float_dtype, float_dtypes
from onnxfn.models.model_state import model_copy
from onnxfn.models.submodules import submodule_of
from onnxfn.specs.algebra.compose import EMPTY, compose, named
from onnxfn.specs.algebra.facts import case
from onnxfn.specs.algebra.spec import ExportSpec, FloatDtype, Target
from onnxfn.specs.conditions import Condition, range_of
from onnxfn.specs.edits.tensors import FLOAT_DTYPES
from onnxfn.specs.errors import InvalidSpec, listed, refuse_unknown
from onnxfn.specs.plan.text_cases import thresholds
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


def derive_from_sample(
    model: Any,
    sample: Any,
    axes: str | Mapping[str, str],
    ranges: Mapping[str, inputs.Range],
    task: str | None,
    method: str | None = None,
) -> ExportSpec:
    """The spec of any module whose inputs are like a sample: it, or a method such as `self.decode`, runs on dummies."""
    called = submodule_of(model, method)
    inputs.check_module(called)
    tensors, call = sample_arguments(called, sample, () if isinstance(axes, str) else axes)
    names = [tensor.name for tensor in tensors]
    if isinstance(axes, str):
        if len(names) > 1:
            how = "write a pattern for each: axes={name: ...}"
            raise InvalidSpec(f"the sample has the tensors {listed(names)}; {how}")
        axes = dict.fromkeys(names, axes)
    for name in (*ranges, *axes):
        refuse_unknown("tensor", name, names, of="the sample")
    base = compose(
        ExportSpec(name=type(model).__name__, task=task, target=_target(model, tensors)),
        ExportSpec(call=evolve(call, patches=_inner_patches(model), submodule=method)),
        inputs.sample_inputs(tensors, axes, str(float_dtype(model)).removeprefix("torch.")),
    )
    copied = model_copy(model)
    if copied is not model:
        inputs.with_own_buffers(copied)
    certain, limits = _certain(copied, base, tensors, ranges, inputs.size_generators(tensors, axes))
    base = compose(base, ExportSpec(limits=limits))
    base, generators, runs = accepted_sizes(copied, base, tensors, certain)
    _refuse_still_axes(base, axes, [name for name in names if name not in axes])
    inputs.check_results(type(model).__name__, runs)
    values = (f"{constant.name}={constant.value!r}" for constant in call.constants)
    provenance = ExportSpec(derived=f"{type(model).__name__}.forward({', '.join((*names, *values))}){FROM_SAMPLE}")
    masks = _masks_of_one_value(generators, tensors)
    spec = compose(with_generators(base, generators), outputs_spec(runs, names), provenance, masks)
    return with_traced_axes(copied, spec, runs[0])


def _refuse_still_axes(base: ExportSpec, axes: Mapping[str, str], unnamed: Sequence[str]) -> None:
    """InvalidSpec if an axis that `axes` names has one size, and others may follow it: tensors without a pattern."""
    words = dict.fromkeys(word for pattern in axes.values() for word in pattern.split())
    still = {word: low for word in words for low, high in [range_of(base.limits, word)] if low == high}
    if still and unnamed:
        alone = listed(f"{word} == {size}" for word, size in still.items())
        raise InvalidSpec(f"{base.name} runs with {alone} alone; add to `axes`: {listed(unnamed)}")


def _masks_of_one_value(generators: Mapping[str, Generator], tensors: Sequence[SampleTensor]) -> ExportSpec:
    """A case whose masks have one value, as in the sample: a model may branch on that, and dummies have both values."""
    masks = {}
    for each in tensors:
        generator = generators[each.name]
        if generator.function == "two_values" and each.tensor.unique().numel() == 1:
            first = dict(generator.arguments)["first"]
            masks[each.name] = evolve(generator, arguments={"first": first, "second": first})
    of_masks = case("masks of one value", with_generators(EMPTY, masks))
    return compose(case("one"), case("several"), of_masks) if masks else EMPTY


def _target(model: Any, tensors: Sequence[SampleTensor]) -> Target:
    """The float dtype of a module without weights: that of the sample, if its real tensors have one."""
    reals = (sample.tensor for sample in tensors if sample.tensor.is_floating_point())
    dtypes = {str(tensor.dtype).removeprefix("torch.") for tensor in reals}
    has_one = len(dtypes) == 1 and dtypes <= {*FLOAT_DTYPES} - {"float32"} and not float_dtypes(model)
    return Target(float_dtype=cast("FloatDtype", dtypes.pop())) if has_one else Target()


def _inner_patches(model: Any) -> Collection[Patch]:
    """The patches of the rows of the transformers models inside a module."""
    types = {str(getattr(module.config, "model_type", None)) for module in inputs.inner_models(model)}
    patches: Collection[Patch] = (SLIDING_WINDOW_CACHE,) if any(thresholds(inputs.inner_config(model))) else ()
    for row in filter(None, (row_of(name, ARCHITECTURES) for name in sorted(types))):
        patches = named(patches, row.call.patches)
    return patches


def _certain(
    model: Any,
    base: ExportSpec,
    tensors: Sequence[SampleTensor],
    ranges: Mapping[str, inputs.Range],
    sizes: Mapping[str, Generator],
) -> tuple[dict[str, Generator], tuple[Condition, ...]]:
    """The generators of inputs of known ranges, of sizes, and of integers that must be as given; limits by tables."""
    by_name = {sample.name: sample.tensor for sample in tensors}
    known = {name: inputs.specified_range(name, by_name[name], limits) for name, limits in ranges.items()} | dict(sizes)
    like_sample = {name: inputs.sample_range(name, tensor) for name, tensor in by_name.items()}
    exact = {name: each for name, tensor in by_name.items() if (each := inputs.sample_itself(name, tensor))}
    tried = ({}, *({name: each} for name, each in exact.items()), exact)
    taken = (each | known for each in tried if runs_at(model, with_generators(base, like_sample | each | known))({}))
    known = next(taken, known)
    ranged = with_generators(base, like_sample | known)
    bounds: Bounds = {}
    lookups = list[Lookups]()
    for spec in specs_at_sizes(with_long_text(model, ranged)):
        bounds = index_bounds(model, spec, bounds, lookups)
    ordered = {name: limits for name, limits in bounds.items() if limits[0] < limits[1]}
    indices = {name: limits for name, limits in ordered.items() if str(by_name[name].dtype) != "torch.bool"}
    by_index = {name: inputs.indexed_range(name, by_name[name], limits) for name, limits in indices.items()}
    return by_index | known, table_limits(lookups)
