"""The cases that a planned spec is checked in: other sizes and other dummies than the traced ones."""

from __future__ import annotations

from onnxfn.specs.axes import names, symbols, terms
from onnxfn.specs.dummies import planned_sizes
from onnxfn.specs.records import ExportSpec, Overlay, Size


def cases(spec: ExportSpec) -> tuple[Overlay, ...]:
    """The cases that a planned spec is checked in: its own, or one of batch 1 and one of batch 3, all else longer."""
    if spec.cases:
        return spec.cases
    used = dict.fromkeys(name for one in spec.inputs for name in names(one.axes))
    traced = planned_sizes(spec, used)
    single = {name: 1 if name == "batch_size" else size + 3 for name, size in traced.items()}
    several = {name: 3 if name == "batch_size" else size + 5 for name, size in traced.items()}
    return tuple(
        Overlay(name, ExportSpec(sizes=tuple(Size(*size) for size in sizes.items())))
        for name, sizes in (("one", single), ("several", several))
    )


def past_lengths(spec: ExportSpec) -> dict[str, str]:
    """The size that a past has -> the size that it grows by: `past_sequence_length`, `sequence_length`."""
    outputs = {one.name: one for one in spec.outputs}
    inputs = {one.name: one for one in spec.inputs}
    return {
        symbol: next(name for name in terms(grown) if name != symbol)
        for carry in spec.carries
        for axis, symbol in symbols(inputs[carry.name].axes).items()
        if (grown := symbols(outputs[carry.given].axes)[axis]) != symbol
    }
