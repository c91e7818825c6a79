"""The specs inside a spec, and changes that reach all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attrs import evolve

from onnxfn.specs.algebra.spec import ExportSpec, Overlay
from onnxfn.specs.errors import unknown
from onnxfn.specs.records import InputSpec


def inner_specs(spec: ExportSpec) -> Iterator[ExportSpec]:
    """The spec, and every spec inside it: those of its tasks and of its behaviors."""
    yield spec
    for overlay in (*spec.tasks, *spec.parts.behaviors):
        yield from inner_specs(overlay.spec)


def each_spec(spec: ExportSpec, change: Callable[[ExportSpec], ExportSpec]) -> ExportSpec:
    """The spec with a change applied to it and to every spec inside it, also to those of the cases of the check."""

    def inside(overlays: Iterable[Overlay]) -> tuple[Overlay, ...]:
        return tuple(evolve(overlay, spec=each_spec(overlay.spec, change)) for overlay in overlays)

    changed = change(spec)
    parts = (
        evolve(changed.parts, behaviors=inside(changed.parts.behaviors)) if changed.parts.behaviors else changed.parts
    )
    return evolve(changed, tasks=inside(changed.tasks), cases=inside(changed.cases), parts=parts)


def with_changed_input(spec: ExportSpec, name: str, change: Callable[[InputSpec], InputSpec]) -> ExportSpec:
    """The spec with a change of the input of a name, wherever a spec inside it has that input.

    Raises:
        UnknownName: no input has the name.
    """
    known = dict.fromkeys(tensor.name for inner in inner_specs(spec) for tensor in inner.inputs)
    if name not in known:
        raise unknown("input", name, known, of=spec.name or "this spec")

    def changed(inner: ExportSpec) -> ExportSpec:
        inputs = (change(tensor) if tensor.name == name else tensor for tensor in inner.inputs)
        return evolve(inner, inputs=tuple(inputs))

    return each_spec(spec, changed)


def tensor_names(spec: ExportSpec) -> tuple[str, ...]:
    """The names of all inputs, then of all outputs, of a spec and of the specs inside it."""
    specs = list(inner_specs(spec))
    inputs = (tensor.name for inner in specs for tensor in inner.inputs)
    outputs = (tensor.name for inner in specs for tensor in inner.outputs)
    return tuple(dict.fromkeys((*inputs, *outputs)))
