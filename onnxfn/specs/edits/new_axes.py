"""Edits that add axes: `with_axis`."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import Axis, AxisMap, axis_map, inserted
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.inner_specs import each_spec, inner_specs
from onnxfn.specs.errors import InvalidSpec, listed
from onnxfn.specs.records import Constant, InputSpec


@as_edit
def with_axis(spec: ExportSpec, axis: str, *, at: int, starting: str) -> ExportSpec:
    """The spec with one more axis in some inputs, in every task and part.

    Args:
        spec: A spec.
        axis: The axis, as a word of a pattern.
        at: The index of the new axis.
        starting: A pattern; inputs whose axes start with it get the new axis. So do constants in place of such inputs.

    Raises:
        InvalidSpec: a pattern is not one, or no input starts with it.

    >>> from onnxfn import takes
    >>> spec = takes("input_ids", "batch_size sequence_length", "token_ids")
    >>> print(with_axis(spec, "num_choices", at=1, starting="batch_size").inputs[0].axes)
    [batch_size, num_choices, sequence_length]
    """
    start = axis_map(starting).axes
    known = [tensor.axes for inner in inner_specs(spec) for tensor in _tensors(inner)]
    if known and not any(_starts(axes, start) for axes in known):
        raise InvalidSpec(
            f"no input of {spec.name or 'this spec'} has axes that start with {starting!r}; their axes are "
            f"{listed(dict.fromkeys(map(str, known)))}"
        )

    def with_more(tensor: Any) -> Any:
        return evolve(tensor, axes=inserted(tensor.axes, at, axis)) if _starts(tensor.axes, start) else tensor

    def changed(inner: ExportSpec) -> ExportSpec:
        call = evolve(inner.call, constants=tuple(map(with_more, inner.call.constants)))
        return evolve(inner, inputs=tuple(map(with_more, inner.inputs)), call=call)

    return each_spec(spec, changed)


def _tensors(spec: ExportSpec) -> tuple[InputSpec | Constant, ...]:
    """The inputs of a spec, and the constants in place of inputs."""
    return (*spec.inputs, *(constant for constant in spec.call.constants if constant.axes is not None))


def _starts(axes: AxisMap | None, start: tuple[Axis, ...]) -> bool:
    return axes is not None and axes.axes[: len(start)] == start
