"""`renamed`: other names in ONNX for inputs, outputs and the tensors of a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from onnxfn.specs.algebra.spec import ExportSpec, each_spec, inner_specs, tensor_names
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.edits.caches import LAYER
from onnxfn.specs.edits.tensors import unknown_tensor
from onnxfn.specs.errors import InvalidSpec


@as_edit
def renamed(spec: ExportSpec, /, **names: str) -> ExportSpec:
    """The spec with other names for inputs or outputs in ONNX. `forward` is still called with the names it knows.

    Args:
        spec: A spec.
        names: Old name = new name: `token_type_ids="segment_ids"`. The tensors of a cache have one name for all layers,
            with `{layer}` for the number of the layer: `**{"present.{layer}.key": "new.{layer}.key"}`.

    Raises:
        UnknownName: no input, output or tensor of a cache has the old name.
        InvalidSpec: the new name belongs to another tensor, or is that of a cache and has no `{layer}`.

    >>> from onnxfn import spec_for, takes
    >>> spec = renamed(takes("token_type_ids", "batch_size", "ids"), token_type_ids="segment_ids")
    >>> spec.inputs[0].name, spec.inputs[0].path
    ('segment_ids', ('token_type_ids',))
    >>> llama = renamed(spec_for("llama"), **{"past_key_values.{layer}.key": "past.{layer}.key"})
    >>> [row.input_name for row in llama.cache.rows]
    ['past.{layer}.key', 'past_key_values.{layer}.value']
    """
    rows = [row for inner in inner_specs(spec) for row in inner.cache.rows]
    cached = dict.fromkeys(name for row in rows for name in (row.input_name, row.output_name) if name is not None)
    known = (*tensor_names(spec), *cached)
    for old, new in names.items():
        if old not in known:
            raise unknown_tensor(spec, old, known)
        if new in known and new not in names:
            raise InvalidSpec(f"cannot rename {old!r} to {new!r}: {spec.name or 'this spec'} has a tensor of that name")
        if LAYER in old and LAYER not in new:
            raise InvalidSpec(f"cannot rename {old!r} to {new!r}: each layer has such a tensor; write {LAYER} in it")
    if len(set(names.values())) < len(names):
        raise InvalidSpec(f"two tensors cannot share a name: {', '.join(names.values())}")
    return each_spec(spec, lambda inner: _with_names(inner, names))


def _with_names(spec: ExportSpec, names: Mapping[str, str]) -> ExportSpec:
    """The spec with new names wherever it mentions a tensor."""

    def renamed_tensor(tensor: Any) -> Any:
        return evolve(tensor, name=names[tensor.name], path=tensor.forward_path) if tensor.name in names else tensor

    def new(name: str) -> str:
        return names.get(name, name)

    mask, order = spec.check.mask_input, spec.target.input_order
    outputs = ((row, row.output_name and new(row.output_name)) for row in spec.cache.rows)
    rows = (evolve(row, input_name=new(row.input_name), output_name=to, after=new(row.after)) for row, to in outputs)
    links = (evolve(link, input=new(link.input), output=new(link.output)) for link in spec.parts.links)
    return evolve(
        spec,
        inputs=tuple(map(renamed_tensor, spec.inputs)),
        outputs=tuple(map(renamed_tensor, spec.outputs)),
        cache=evolve(spec.cache, rows=tuple(rows)),
        check=evolve(spec.check, mask_input=new(mask)) if mask else spec.check,
        parts=evolve(spec.parts, links=tuple(links)),
        target=evolve(spec.target, input_order=order and tuple(map(new, order))),
    )
