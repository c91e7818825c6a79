"""Edits of single inputs: their dummies, their order, a constant in place of an input."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.spec import Call, ExportSpec, Target, each_spec, with_changed_input
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec, shortened
from onnxfn.specs.records import Constant, InputSpec


@as_edit
def with_generator(spec: ExportSpec, /, name: str, function: str, **arguments: Any) -> ExportSpec:
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


@as_edit
def with_constants(spec: ExportSpec, /, **values: float) -> ExportSpec:
    """The spec with constants in place of inputs: the model gets a tensor filled with the value, the graph no input.

    The tensor has the axes of the input; their sizes come from the other inputs.

    Args:
        spec: A spec.
        values: Name of an input = its value: `token_type_ids=0`.

    Raises:
        UnknownName: no input has such a name.
        InvalidSpec: the value is not of the kind that the input has, or the input depends on the configuration.

    >>> from onnxfn import bert_inputs
    >>> spec = with_constants(bert_inputs, token_type_ids=0)
    >>> "token_type_ids" in spec, spec.call.constants[0].value
    (False, 0)
    """
    for name, value in values.items():
        with_changed_input(spec, name, lambda tensor, value=value: _fillable(tensor, value))  # type: ignore[misc]
        spec = each_spec(spec, lambda inner, name=name, value=value: _with_constant(inner, name, value))  # type: ignore[misc]
    return spec


def _fillable(tensor: InputSpec, value: Any) -> InputSpec:
    """The input itself; InvalidSpec if it cannot be a tensor filled with a value."""
    if tensor.when is not None:
        raise InvalidSpec(f"{tensor.name!r} exists only when {tensor.when} is set, so it cannot be a constant")
    types = (bool,) if tensor.kind == "bool" else (int,) if "int" in tensor.kind else (int, float)
    if type(value) not in types:
        raise InvalidSpec(f"{tensor.name!r} has the kind {tensor.kind}, so it cannot be filled with {shortened(value)}")
    return tensor


def _with_constant(spec: ExportSpec, name: str, value: float) -> ExportSpec:
    """The spec with a constant in place of the input of a name; unchanged if it has no such input."""
    if name not in spec.inputs:
        return spec
    tensor = spec.inputs[name]
    constant = Constant(name, value, path=tensor.forward_path, axes=tensor.axes, kind=tensor.kind)
    others = tuple(other for other in spec.inputs if other is not tensor)
    check = evolve(spec.check, mask_input=None) if spec.check.mask_input == name else spec.check
    return compose(evolve(spec, inputs=others, check=check), ExportSpec(call=Call(constants=(constant,))))
