"""The inputs and outputs of caches; caches in a shared buffer, and in buffers of one length."""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from attrs import evolve

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.config_values import Snapshot, layer_indices, read_config
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.algebra.spec import Cache, Call, ExportSpec
from onnxfn.specs.axes import AxisMap, axis, symbols, terms
from onnxfn.specs.axis_symbols import AxisFacts, graph_axes
from onnxfn.specs.conditions import Condition
from onnxfn.specs.converters import Path
from onnxfn.specs.edits.caches import LAYER, NEXT, PAST, SCATTER_OPSET, SHARED_OPSET
from onnxfn.specs.errors import InvalidSpec, MissingValue, shortened
from onnxfn.specs.records import InputSpec, NestedDummy, OutputSpec, Source

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
    growing, opset = growing_inputs(spec), spec.target.opset or SHARED_OPSET
    if opset < SHARED_OPSET:
        return f"it needs opset {SHARED_OPSET} or later, and the spec has opset {opset}"
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


def in_buffers(spec: ExportSpec) -> ExportSpec:
    """The spec of a file with keys and values in buffers of one length, if its target has a static cache."""
    length, every = spec.target.static_cache, spec.cache.rows
    rows = tuple(row for row in every if spec.cache.past == "both" or (row.grows and row.output_name))
    written = next((row for row in rows if row.grows), None)
    if length is None or spec.cache.past is None or written is None:
        return spec
    if (opset := spec.target.opset or 0) < SCATTER_OPSET:
        raise InvalidSpec(f"a static cache needs opset {SCATTER_OPSET} or later, and the spec has opset {opset}")
    past, new = (terms(symbols(axes)[LENGTH_AXIS])[-1] for axes in (written.input_axes, written.output_axes))

    def over_buffer(axes: AxisMap) -> AxisMap:
        return AxisMap(tuple(axis(BUFFER) if past in terms(each.symbol) else each for each in axes.axes))

    masks = [each for each in spec.inputs if over_buffer(each.axes) != each.axes]
    own = [
        generates(f"{each.generator} in buffer", "in_buffer", tokens=NestedDummy(each.generator, each.axes))
        for each in masks
    ]
    covering = (evolve(each, axes=over_buffer(each.axes), generator=f"{each.generator} in buffer") for each in masks)
    only_returned = (
        OutputSpec(row.output_name, row.output_axes, row.output_path, layers=row.layers, kind="float")
        for row in every
        if row not in rows and row.output_name
    )
    constants = (evolve(each, axes=each.axes and over_buffer(each.axes)) for each in spec.call.constants)
    index = InputSpec(WRITE_INDICES, "1", WRITE_INDICES, "int64", (written.input_path[0], WRITE_INDICES))
    outputs = (evolve(each, axes=over_buffer(each.axes)) for each in (*spec.outputs, *only_returned))
    buffers = (
        evolve(row, input_axes=over_buffer(row.input_axes), output_axes=over_buffer(row.output_axes)) for row in rows
    )
    return compose(
        evolve(spec, cache=Cache()),
        ExportSpec(
            inputs=(*covering, index),
            outputs=tuple(outputs),
            call=Call(constants=tuple(constants)),
            cache=Cache(rows=tuple(buffers), past="both"),
            axes=(AxisFacts(BUFFER, low=length, high=length),),
            limits=(Condition(f"{past} + {new} <= {length}"),),
        ),
        generates(WRITE_INDICES, "size", of=NestedDummy("uniform", past)),
        *own,
    )


def cache_tensors(spec: ExportSpec, config: Snapshot) -> Iterator[tuple[InputSpec, OutputSpec | None]]:
    """The cache, by layers and then rows: each tensor as an input, and as an output, if the graph returns it."""
    rows = [(layer, row) for row in spec.cache.rows for layer in _layers(spec, config, row.layers, row.name)]
    for layer, row in sorted(rows, key=itemgetter(0)):
        name, path = _in_layer(row.input_name, layer), _path(row.input_path, layer, str)
        past = InputSpec(name, row.input_axes, "past_states", "float", path, layer=layer)
        present: OutputSpec | None = None
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
