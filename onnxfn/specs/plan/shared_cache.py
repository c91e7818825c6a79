"""Whether past and present of a planned decoder may lie in one buffer."""

from __future__ import annotations

from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.axes import symbols
from onnxfn.specs.edits.caches import PAST
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.fixed_axes import graph_axes

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


def refuse_unshared_cache(spec: PlannedSpec) -> None:
    """Raises InvalidSpec if a spec asks for a cache in a shared buffer, and its cache cannot lie there."""
    reason = _reason(spec) if spec.target.shared_cache else ""
    if reason:
        raise InvalidSpec(f"the cache of {spec.name or 'this spec'} cannot lie in a shared buffer: {reason}")


def _reason(spec: PlannedSpec) -> str:
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
