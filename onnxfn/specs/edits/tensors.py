"""Edits: pure functions ExportSpec -> ExportSpec, and the words that make one-line specs for `compose`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from onnxfn.specs.axes import AxisMap, axis_map, inserted
from onnxfn.specs.compose import compose
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.facts import gives
from onnxfn.specs.records import (
    ExportSpec,
    Shape,
)
from onnxfn.specs.tensor_paths import Path

INT_DTYPES = ("int64", "int32")
FLOAT_DTYPES = ("float32", "float16", "bfloat16")
OLDEST_OPSET = 18


def without(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec without these inputs or outputs, in its tasks too; UnknownName when there is none so called.

    >>> from onnxfn import takes
    >>> bert = compose(takes("input_ids", "batch_size", "ids"), takes("token_type_ids", "batch_size", "ids"))
    >>> [one.name for one in without(bert, "token_type_ids").inputs]
    ['input_ids']
    """
    known = _tensor_names(spec)
    for name in names:
        if name not in known:
            raise unknown("input or output", name, known, of=spec.name or "this spec")
    return _each(spec, lambda one: None if one.name in names else one)


def renamed(spec: ExportSpec, **names: str) -> ExportSpec:
    """The spec with inputs or outputs called otherwise in ONNX: `renamed(spec, token_type_ids="segment_ids")`.

    `forward` is still called with the names it knows. A name that is taken is InvalidSpec.
    """
    known = _tensor_names(spec)
    for old, new in names.items():
        if old not in known:
            raise unknown("input or output", old, known, of=spec.name or "this spec")
        if new in known and new not in names:
            raise InvalidSpec(f"cannot call {old!r} {new!r}: {spec.name or 'this spec'} already has one so called")
    if len(set(names.values())) < len(names):
        raise InvalidSpec(f"two tensors cannot share a name: {', '.join(names.values())}")
    return _each(spec, lambda one: evolve(one, name=names[one.name], path=one.place) if one.name in names else one)


def with_output(spec: ExportSpec, name: str, axes: str | AxisMap, *, path: Path = ()) -> ExportSpec:
    """The spec with one more output, or another so called: `with_output(spec, "pooler_output", "batch_size _")`."""
    return compose(spec, gives(name, axes, path=path))


def with_opset(spec: ExportSpec, opset: int) -> ExportSpec:
    """The spec for another ONNX opset; InvalidSpec below 18, the oldest that is translated to directly."""
    if opset < OLDEST_OPSET:
        raise InvalidSpec(f"opset {opset} is below {OLDEST_OPSET}, the oldest that torch's exporter translates to")
    return compose(spec, ExportSpec(opset=opset))


def with_tolerance(spec: ExportSpec, *, atol: float | None = None, rtol: float | None = None) -> ExportSpec:
    """The spec with another tolerance of the check; None leaves one as it is."""
    for name, value in (("atol", atol), ("rtol", rtol)):
        if value is not None and not value >= 0:
            raise InvalidSpec(f"{name} is {value}; a tolerance is 0 or more")
    return compose(spec, ExportSpec(atol=atol, rtol=rtol))


def with_dtypes(spec: ExportSpec, *, int: str | None = None, float: str | None = None) -> ExportSpec:  # noqa: A002
    """The spec with other integer or float types in the graph: `with_dtypes(spec, int="int32", float="float16")`."""
    if int is not None and int not in INT_DTYPES:
        raise unknown("integer type", int, INT_DTYPES)
    if float is not None and float not in FLOAT_DTYPES:
        raise unknown("float type", float, FLOAT_DTYPES)
    return compose(spec, ExportSpec(int_dtype=int, float_dtype=float))


def with_shapes(spec: ExportSpec, **sizes: int) -> ExportSpec:
    """The spec with axes that no longer move: `with_shapes(spec, batch_size=1, sequence_length=128)`.

    A sum is a number where all its terms are: with `past_sequence_length` fixed too, so is a mask over both. Axes that
    are not named still move. InvalidSpec below 1; an axis that no input has is UnknownName when the plan is made.
    """
    for name, size in sizes.items():
        if size < 1:
            raise InvalidSpec(f"axis {name!r} cannot be fixed at {size}; a size is 1 or more")
    return compose(spec, ExportSpec(shapes=tuple(Shape(name, size) for name, size in sizes.items())))


def with_axis(spec: ExportSpec, axis: str, *, at: int, starting: str) -> ExportSpec:
    """The spec with one more axis in every input whose axes start with the pattern `starting`."""
    start = axis_map(starting).axes
    return evolve(
        spec,
        inputs=tuple(
            evolve(one, axes=inserted(one.axes, at, axis)) if one.axes.axes[: len(start)] == start else one
            for one in spec.inputs
        ),
    )


def only_tasks(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec with some of its tasks alone, in this order."""
    by_name = {overlay.name: overlay for overlay in spec.tasks}
    for name in names:
        if name not in by_name:
            raise unknown("task", name, by_name, of=spec.name or "this spec")
    return evolve(spec, tasks=tuple(by_name[name] for name in names))


def _tensor_names(spec: ExportSpec) -> tuple[str, ...]:
    layers = _layers(spec)
    taken = (one.name for layer in layers for one in layer.inputs)
    given = (one.name for layer in layers for one in layer.outputs)
    return tuple(dict.fromkeys((*taken, *given)))


def _layers(spec: ExportSpec) -> tuple[ExportSpec, ...]:
    return (spec, *(layer for overlay in spec.tasks for layer in _layers(overlay.spec)))


def _each(spec: ExportSpec, change: Callable[[Any], Any]) -> ExportSpec:
    def changed(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(made for made in map(change, tensors) if made is not None)

    return evolve(
        spec,
        inputs=changed(spec.inputs),
        outputs=changed(spec.outputs),
        tasks=tuple(evolve(overlay, spec=_each(overlay.spec, change)) for overlay in spec.tasks),
    )
