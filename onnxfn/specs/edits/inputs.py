"""Edits of single inputs: their dummies, their order, a constant in place of an input."""

from __future__ import annotations

from typing import Any, overload

from attrs import evolve

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates
from onnxfn.specs.edits.as_edit import SpecEdit, as_edit
from onnxfn.specs.edits.inner_specs import with_changed_input
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.spec import ExportSpec, Target


@overload
def with_generator(spec: ExportSpec, name: str, function: str, **arguments: Any) -> ExportSpec: ...
@overload
def with_generator(name: str, function: str, **arguments: Any) -> SpecEdit: ...
@as_edit
def with_generator(spec: ExportSpec, name: str, function: str, **arguments: Any) -> ExportSpec:
    """The spec with other dummies for one input, also in the cases of the check. Other inputs keep their generator.

    Args:
        spec: A spec.
        name: The name of the input in ONNX.
        function: The function that makes the dummies, and its arguments: see `generates`.
        arguments: The keyword arguments of the function.

    Raises:
        UnknownName: no input has such a name.

    >>> from onnxfn import bert_inputs, dummy_inputs
    >>> spec = with_generator(bert_inputs, "token_type_ids", "constant", value=1)
    >>> spec["token_type_ids"].generator, spec["input_ids"].generator
    ('values of token_type_ids', 'token_ids')
    """
    generator = f"values of {name}"
    changed = with_changed_input(spec, name, lambda tensor: evolve(tensor, generator=generator))
    return compose(changed, generates(generator, function, **arguments))


@overload
def with_input_order(spec: ExportSpec, *names: str) -> ExportSpec: ...
@overload
def with_input_order(*names: str) -> SpecEdit: ...
@as_edit
def with_input_order(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec with these inputs first, in this order, in each of its files. The others follow in the order they have.

    Args:
        spec: A spec.
        names: The names of inputs in ONNX. A name that no file has is an UnknownName when the plan is made.

    Raises:
        InvalidSpec: a name stands there twice.

    >>> from onnxfn import bert_inputs, inputs
    >>> list(inputs(with_input_order(bert_inputs, "token_type_ids")))
    ['token_type_ids', 'input_ids', 'attention_mask']
    """
    if len({*names}) < len(names):
        raise InvalidSpec(f"an input cannot have two positions: {', '.join(names)}")
    return compose(spec, ExportSpec(target=Target(input_order=names)))
