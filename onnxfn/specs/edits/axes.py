"""Edits of axes: their names in ONNX, and one more axis."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from onnxfn.specs.algebra.spec import ExportSpec, each_spec, inner_specs
from onnxfn.specs.axes import Axis, AxisMap, axis_map, inserted
from onnxfn.specs.axis_symbols import AxisFacts, joined_axes, new_names, symbols_in
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec, listed, refuse_unknown


@as_edit
def with_axis_names(spec: ExportSpec, /, **names: str) -> ExportSpec:
    """The spec with other names for axes in ONNX, in every tensor, task, part and case of the check.

    The plan has the new names; the patterns of the spec keep theirs. Later edits may use both.

    Args:
        spec: A spec.
        names: Old name = new name: `batch_size="N"`.

    Raises:
        UnknownName: no tensor has an axis of the old name.
        InvalidSpec: the new name is no name, or that of another axis.

    >>> from onnxfn import bert_inputs, inputs
    >>> inputs(with_axis_names(bert_inputs, batch_size="N", sequence_length="T"))["input_ids"]
    {0: 'N', 1: 'T'}
    """
    own = dict.fromkeys(symbols_in(spec))
    current = new_names(spec)
    known = {current.get(name, name): name for name in own}
    changed = {**current}
    for old, new in names.items():
        refuse_unknown("axis", old, known, of=spec.name or "this spec")
        if not (new.isidentifier() and new.isascii()):
            raise InvalidSpec(f"{new!r} is no name of an axis: a name has letters, digits and _")
        if new != known[old] and (new in known or new in own):
            raise InvalidSpec(
                f"cannot rename axis {old!r} to {new!r}: {spec.name or 'this spec'} has an axis of that name"
            )
        changed[known[old]] = new
    if len({*changed.values()}) < len(changed):
        raise InvalidSpec(f"two axes cannot share a name: {', '.join(names.values())}")
    others = {name: new for name, new in changed.items() if name != new}
    axes = (evolve(axis, new=others.get(axis.name)) for axis in joined_axes(spec.axes, map(AxisFacts, others)))
    return evolve(spec, axes=tuple(axis for axis in axes if axis != AxisFacts(axis.name)))


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
    tensors = (tensor for inner in inner_specs(spec) for tensor in (*inner.inputs, *inner.call.constants))
    known = [tensor.axes for tensor in tensors if tensor.axes is not None]  # a constant may have none
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


def _starts(axes: AxisMap | None, start: tuple[Axis, ...]) -> bool:
    return axes is not None and axes.axes[: len(start)] == start
