"""The inputs and outputs of caches; caches in a shared buffer, and in buffers of one length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from attrs import evolve

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.config_values import Snapshot, layer_indices, read_config
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.algebra.spec import Cache, ExportSpec
from onnxfn.specs.axes import AxisMap, axis, symbols, terms
from onnxfn.specs.axis_symbols import AxisFacts, graph_axes
from onnxfn.specs.conditions import Condition
from onnxfn.specs.converters import Path
from onnxfn.specs.edits.caches import LAYER, NEXT, PAST
from onnxfn.specs.errors import InvalidSpec, MissingValue, shortened
from onnxfn.specs.records import CacheRow, Constant, InputSpec, NestedDummy, OutputSpec, Source

WIDTH_STEP = 8
"""The width of a head is a multiple of this number for the GroupQueryAttention of ONNX Runtime 1.31."""

LENGTH_AXIS = 2
"""The axis of the length in keys and values, `[batch, heads, length, width]`."""

LENGTHS = ("input_ids", "attention_mask")
"""The inputs whose axis 1 is the number of new tokens, and the length of the whole text."""


def growing_inputs(spec: PlannedSpec) -> tuple[str, ...]:
    """The inputs that are keys and values of the past, which grow by each call; no states of constant size."""
    axes = {each.input: symbols(spec.inputs[each.input].axes) for each in spec.feedback}
    return tuple(name for name, names in axes.items() if names.get(LENGTH_AXIS) == PAST)


def unshared_reason(spec: PlannedSpec) -> str:
    """Why a cache cannot lie in a shared buffer; empty if nothing is known against it."""
    growing = growing_inputs(spec)
    missing = [name for name in LENGTHS if name not in spec.inputs]
    if missing or not growing:
        return f"the graph takes no {missing[0] if missing else 'keys and values that grow'}"
    widths = {name: graph_axes(spec, spec.inputs[name]).axes[-1].symbol for name in growing}
    for key, value in zip(growing[::2], growing[1::2], strict=True):
        if widths[key] != widths[value]:
            return f"keys are {widths[key]} wide, and values {widths[value]}"
    odd = next((width for width in widths.values() if width.isdecimal() and int(width) % WIDTH_STEP), None)
    return f"a head is {odd} wide, and GroupQueryAttention takes multiples of {WIDTH_STEP}" if odd else ""


WRITE_INDICES = "write_indices"
"""The input of a static cache: the index in the buffers at which the keys and values of the new tokens are written."""

BUFFER = "max_cache_length"
"""The axis of the length of the buffers; its size is fixed."""

SCATTER_OPSET = 24
"""The first opset with TensorScatter, and with the lengths of texts as an input of Attention."""

Sized = TypeVar("Sized", InputSpec, OutputSpec, Constant)


def in_buffers(spec: ExportSpec) -> ExportSpec:
    """The spec of a file with keys and values in buffers of one length, if its target has a static cache.

    A graph that returns keys and values then also takes their buffers, and the index at which it writes. A mask over
    the past and the new tokens covers the buffer; it is 0 behind the new tokens. InvalidSpec for an earlier opset.
    """
    length, cache = spec.target.static_cache, spec.cache
    written = [row for row in cache.rows if row.grows and row.output_name is not None]
    if length is None or cache.past is None or not written:
        return spec
    if (opset := spec.target.opset or 0) < SCATTER_OPSET:
        raise InvalidSpec(f"a static cache needs opset {SCATTER_OPSET} or later, and the spec has opset {opset}")
    past, new = (terms(symbols(axes)[LENGTH_AXIS])[-1] for axes in (written[0].input_axes, written[0].output_axes))
    place = InputSpec(WRITE_INDICES, "1", WRITE_INDICES, "int64", (written[0].input_path[0], WRITE_INDICES))
    masks = [each for each in spec.inputs if _covers(each.axes, past)]
    rows = (row if cache.past == "both" or row in written else evolve(row, input_name=None) for row in cache.rows)
    changed = evolve(
        spec,
        inputs=(
            *(
                evolve(_over_buffer(each, past), generator=f"{each.generator} in buffer") if each in masks else each
                for each in spec.inputs
            ),
            place,
        ),
        outputs=tuple(_over_buffer(output, past) for output in spec.outputs),
        call=evolve(spec.call, constants=tuple(_over_buffer(each, past) for each in spec.call.constants)),
        cache=Cache(rows=tuple(_row_over_buffer(row, past) for row in rows), past="both"),
        axes=(*spec.axes, AxisFacts(BUFFER, low=length, high=length)),
        limits=(*spec.limits, Condition(f"{past} + {new} <= {length}")),
    )
    nested = (
        generates(f"{each.generator} in buffer", "in_buffer", tokens=NestedDummy(each.generator, each.axes))
        for each in masks
    )
    return compose(changed, generates(WRITE_INDICES, "size", of=NestedDummy("uniform", past)), *nested)


def _covers(axes: AxisMap | None, past: str) -> bool:
    """Whether an axis is as long as the past, or as the past and the new tokens."""
    return axes is not None and any(past in terms(symbol) for symbol in symbols(axes).values())


def _over_buffer(tensor: Sized, past: str) -> Sized:
    """A tensor with the length of the buffer where its axes have that of the past."""
    return evolve(tensor, axes=_buffer_axes(tensor.axes, past)) if _covers(tensor.axes, past) else tensor


def _row_over_buffer(row: CacheRow, past: str) -> CacheRow:
    return evolve(row, input_axes=_buffer_axes(row.input_axes, past), output_axes=_buffer_axes(row.output_axes, past))


def _buffer_axes(axes: AxisMap, past: str) -> AxisMap:
    own = (axis(BUFFER) if each.kind == "dynamic" and past in terms(each.symbol) else each for each in axes.axes)
    return AxisMap(tuple(own))


def cache_tensors(spec: ExportSpec, config: Snapshot) -> Iterator[tuple[InputSpec | None, OutputSpec | None]]:
    """The cache, by layers and then rows: each tensor as an input, and as an output; None where it is not one."""
    rows = [(layer, row) for row in spec.cache.rows for layer in _layers(spec, config, row.layers, row.name)]
    for layer, row in sorted(rows, key=itemgetter(0)):
        past: InputSpec | None = None
        present: OutputSpec | None = None
        if row.input_name is not None:
            name, path = _in_layer(row.input_name, layer), _path(row.input_path, layer, str)
            past = InputSpec(name, row.input_axes, "past_states", "float", path, layer=layer)
        if row.output_name is not None:
            name, path = _in_layer(row.output_name, layer), _path(row.output_path, layer, int)
            present = OutputSpec(name, row.output_axes, path, layer=layer, kind="float")
        yield past, present


def per_layer(spec: ExportSpec, config: Snapshot, output: OutputSpec) -> Iterator[OutputSpec]:
    """The outputs that an output stands for: one for each of its layers, or itself."""
    if output.layers is None:
        yield output
        return
    for layer in _layers(spec, config, output.layers, output.name):
        name, path = _in_layer(output.name, layer), _path(output.path, layer, int)
        yield evolve(output, name=name, path=path, layer=layer, layers=None, when=None)


def needed_value(spec: ExportSpec, config: Snapshot, source: int | Source, where: str) -> Any:
    """The value that a source reads; a number stays. A missing one is a MissingValue that says where it is needed."""
    if isinstance(source, int):
        return source
    try:
        return read_config(spec.normalizer, config, source)
    except MissingValue as problem:
        raise MissingValue(f"{where} of {spec.name or 'this spec'}: {problem}") from None


def _layers(spec: ExportSpec, config: Snapshot, source: Source, name: str) -> Sequence[int]:
    layers = needed_value(spec, config, source, f"layers of {name!r}")
    if isinstance(layers, int):
        return layer_indices(layers)
    if not isinstance(layers, (list, tuple)) or not all(isinstance(layer, int) for layer in layers):
        raise InvalidSpec(f"layers of {name!r} are {shortened(layers)}: neither a number nor a list of numbers")
    return layers


def _in_layer(template: str, layer: int) -> str:
    return template.replace(LAYER, str(layer)).replace(NEXT, str(layer + 1))


def _path(path: Path, layer: int, number: Callable[[int], str | int]) -> Path:
    numbers = {LAYER: number(layer), NEXT: number(layer + 1)}
    return tuple(numbers[step] if step in (LAYER, NEXT) else step for step in path)
