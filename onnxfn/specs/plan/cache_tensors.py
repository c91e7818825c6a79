"""Tensors per layer: the rows of a cache as inputs and outputs, and outputs that each layer has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import evolve

from onnxfn.specs.algebra.config_values import Snapshot, layer_indices, read_config
from onnxfn.specs.algebra.planned import Feedback
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.caches import LAYER, NEXT
from onnxfn.specs.errors import InvalidSpec, MissingValue, shortened
from onnxfn.specs.records import CacheRow, InputSpec, OutputSpec, Source
from onnxfn.specs.tensor_paths import Path


def cache_inputs(spec: ExportSpec, config: Snapshot) -> tuple[InputSpec, ...]:
    """The cache as inputs, layer by layer."""
    return tuple(
        InputSpec(
            _in_layer(row.input_name, layer),
            row.input_axes,
            "past_states",
            "float",
            _path(row.input_path, layer, str),
            layer=layer,
        )
        for layer, row in _rows(spec, config)
    )


def cache_outputs(spec: ExportSpec, config: Snapshot) -> tuple[OutputSpec, ...]:
    """The cache as outputs, layer by layer."""
    return tuple(
        OutputSpec(
            _in_layer(row.output_name, layer),
            row.output_axes,
            _path(row.output_path, layer, int),
            layer=layer,
            kind="float",
        )
        for layer, row in _rows(spec, config)
        if row.output_name is not None
    )


def cache_feedback(spec: ExportSpec, config: Snapshot) -> tuple[Feedback, ...]:
    """Which output of the cache is which input of the next call, layer by layer."""
    return tuple(
        Feedback(_in_layer(row.input_name, layer), _in_layer(row.output_name, layer))
        for layer, row in _rows(spec, config)
        if row.output_name is not None
    )


def per_layer(spec: ExportSpec, config: Snapshot, output: OutputSpec) -> Iterator[OutputSpec]:
    """The outputs that an output stands for: one for each of its layers, or itself."""
    if output.layers is None:
        yield output
        return
    for layer in _layers(spec, config, output.layers, output.name):
        name, path = _in_layer(output.name, layer), _path(output.path, layer, int)
        yield evolve(output, name=name, path=path, layer=layer, layers=None, when=None)


def _rows(spec: ExportSpec, config: Snapshot) -> list[tuple[int, CacheRow]]:
    """Each layer with each row that it has, in the order of layers, then of rows."""
    rows = [
        (layer, index, row)
        for index, row in enumerate(spec.cache.rows)
        for layer in _layers(spec, config, row.layers, row.name)
    ]
    return [(layer, row) for layer, _, row in sorted(rows, key=lambda entry: entry[:2])]


def _layers(spec: ExportSpec, config: Snapshot, source: Source, name: str) -> Sequence[int]:
    try:
        layers = read_config(spec.normalizer, config, source)
    except MissingValue as problem:
        raise MissingValue(f"layers of {name!r} of {spec.name or 'this spec'}: {problem}") from None
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
