"""Edits of axes: their names in ONNX."""

from __future__ import annotations

from attrs import evolve

from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axis_symbols import symbols_in
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.records import AxisName


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
    current = {axis.name: axis.new for axis in spec.axis_names}
    known = {current.get(name, name): name for name in own}
    changed = {**current}
    for old, new in names.items():
        if old not in known:
            raise unknown("axis", old, known, of=spec.name or "this spec")
        if not (new.isidentifier() and new.isascii()):
            raise InvalidSpec(f"{new!r} is no name of an axis: a name has letters, digits and _")
        if new != known[old] and (new in known or new in own):
            raise InvalidSpec(
                f"cannot rename axis {old!r} to {new!r}: {spec.name or 'this spec'} has an axis of that name"
            )
        changed[known[old]] = new
    if len({*changed.values()}) < len(changed):
        raise InvalidSpec(f"two axes cannot share a name: {', '.join(names.values())}")
    return evolve(spec, axis_names=tuple(AxisName(name, new) for name, new in changed.items() if name != new))
