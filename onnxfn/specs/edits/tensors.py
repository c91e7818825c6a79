"""Edits of tensors and options, also in inner specs: inputs, outputs, names, axes, opset, types, tolerance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from types import MappingProxyType
from typing import Any, cast, get_args

from attrs import evolve

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import checks, gives
from onnxfn.specs.algebra.quantized_dtypes import QUANTIZED_DTYPES, QuantizedName
from onnxfn.specs.algebra.spec import (
    Call,
    ExportSpec,
    FloatDtype,
    IntDtype,
    Target,
    each_spec,
    tensor_names,
    with_changed_input,
)
from onnxfn.specs.axes import AxisMap
from onnxfn.specs.axis_symbols import AxisFacts, symbols_in
from onnxfn.specs.converters import Path, as_tuple
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec, UnknownName, closest, listed, refuse_unknown, shortened, unknown
from onnxfn.specs.records import KINDS, Constant, InputSpec, Kind

FLOAT_DTYPES: tuple[str, ...] = get_args(FloatDtype)
FLOAT_NAMES = (*FLOAT_DTYPES, *QUANTIZED_DTYPES)

CLIENT_NAMES: Mapping[str, str] = MappingProxyType(
    {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "f32": "float32", "f16": "float16"}
)
"""Names of dtypes in Optimum, transformers.js and others -> ours."""


def dtype_names(dtypes: Iterable[str]) -> tuple[str, ...]:
    """Our names of dtypes, for names of clients."""
    return tuple(CLIENT_NAMES.get(name, name) if isinstance(name, str) else name for name in as_tuple(dtypes))


@as_edit
def without(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec without some inputs or outputs, in every task and part.

    Args:
        spec: A spec.
        names: Names of inputs or outputs in ONNX.

    Raises:
        UnknownName: no input or output has such a name.

    >>> from onnxfn import takes
    >>> bert = compose(takes("input_ids", "batch_size", "ids"), takes("token_type_ids", "batch_size", "ids"))
    >>> [tensor.name for tensor in without(bert, "token_type_ids").inputs]
    ['input_ids']
    """
    known = tensor_names(spec)
    for name in names:
        if name not in known:
            raise unknown_tensor(spec, name, known)
    return each_spec(spec, lambda inner: _without_tensors(inner, names))


@as_edit
def with_output(
    spec: ExportSpec, name: str, axes: str | AxisMap, *, path: Path = (), kind: Kind | None = None
) -> ExportSpec:
    """The spec with one more output, or with another output of this name, also in every task.

    Args:
        spec: A spec.
        name: The name in ONNX.
        axes: Its axes, as a pattern; `_` is an axis whose size is not named.
        path: Where it sits in the result of `forward`; the field of the same name when left out.
        kind: `float`, `int`, or a dtype of its own, which the output of the graph must have: see `gives`.

    Raises:
        InvalidSpec: the pattern is not one, or each file is a part of the model with outputs of its own.

    >>> from onnxfn.facts import EMPTY
    >>> with_output(EMPTY, "pooler_output", "batch_size _").outputs[0].name
    'pooler_output'
    """
    addition = gives(name, axes, path=path, kind=kind)
    parts = {overlay.name for overlay in spec.parts.behaviors if overlay.spec.call.submodule}
    views = [dict(edit.arguments).get("behavior") for file in spec.parts.files for edit in file.edits]
    if views and parts.issuperset(views):  # every file runs a submodule: none has the spec's own outputs
        raise InvalidSpec(
            f"each file of {spec.name or 'this spec'} is a part of the model with outputs of its own; choose a part "
            f"first: with_output(with_behavior(spec, {spec.parts.behaviors[0].name!r}), {name!r}, axes)"
        )
    tasks = tuple(
        evolve(overlay, spec=compose(overlay.spec, addition)) if name in overlay.spec.outputs else overlay
        for overlay in spec.tasks
    )
    return compose(evolve(spec, tasks=tasks), addition)


@as_edit
def with_opset(spec: ExportSpec, opset: int) -> ExportSpec:
    """The spec for another ONNX opset.

    Args:
        spec: A spec.
        opset: 18 to 28. torch's exporter translates to 18, and onnxscript converts to 25; later opsets change none
            of the operators that are written. From 27 on, linear attention and causal convolutions are one operator.

    Raises:
        InvalidSpec: another opset.

    >>> from onnxfn.facts import EMPTY
    >>> with_opset(EMPTY, 23).target.opset
    23
    """
    return compose(spec, ExportSpec(target=Target(opset=opset)))


@as_edit
def with_tolerance(spec: ExportSpec, *, atol: float | None = None, rtol: float | None = None) -> ExportSpec:
    """The spec with a tolerance of its own for the check.

    Without one, the error of a graph may be a small multiple of PyTorch's own rounding error. With one, an element
    agrees if `|actual - expected| <= atol * max(1, rms) + rtol * |expected|`. `expected` is PyTorch's in the dtype of
    the export, `rms` the root mean square of the output. If one of the two tolerances is None in the end, it is 0.

    Args:
        spec: A spec.
        atol: Absolute tolerance; None leaves it as it is.
        rtol: Relative tolerance; None leaves it as it is.

    Raises:
        InvalidSpec: a tolerance is below 0, infinite or not a number.

    >>> from onnxfn.facts import EMPTY
    >>> with_tolerance(EMPTY, atol=1e-4).check.atol
    0.0001
    """
    return compose(spec, checks(atol=atol, rtol=rtol))


@as_edit
def with_dtypes(
    spec: ExportSpec,
    /,
    *,
    int: IntDtype | None = None,  # noqa: A002
    float: FloatDtype | QuantizedName | None = None,  # noqa: A002
    io: FloatDtype | None = None,
    **inputs: Kind,
) -> ExportSpec:
    """The spec with other integer or float types in the graph.

    Args:
        spec: A spec.
        int: `int64` or `int32`; None leaves it as it is.
        float: `float32`, `float16`, `bfloat16` or `float64`, or a quantized dtype, which also adds rules for
            weights: `q8`, `int8`, `uint8`, `q4`, `q4f16`, `q4c`, `q4cf16`, `q4m`, `bnb4` (slow),
            `int8-static` or `uint8-static`. None leaves it as it is.
        io: The type of float inputs and outputs that are no cache, if it is another than that of the weights: a graph
            in float16 that programs feed with float32. None leaves it as it is.
        inputs: Name of an input = its own type: `input_ids="int32"`. It is of the kind that the input has.

    Raises:
        UnknownName: another type, or no input has such a name.
        InvalidSpec: floats for an input of integers, or the other way round.

    >>> from onnxfn.facts import EMPTY
    >>> with_dtypes(EMPTY, int="int32").target.int_dtype
    'int32'
    >>> with_dtypes(EMPTY, float="q4f16").target
    Target(float_dtype='float16', quantization=(WeightRule(read_by=('MatMul', 'Gather')),))
    """
    if float is not None and float not in FLOAT_NAMES:
        alike = closest(float, FLOAT_DTYPES) or closest(float, FLOAT_NAMES)
        raise UnknownName(f"no dtype {float!r}; known: {listed(FLOAT_NAMES)}{alike}")
    quantized = QUANTIZED_DTYPES.get(float or "")
    plain = (cast("FloatDtype | None", float), ())
    float_dtype, rules = (quantized.float_dtype, quantized.rules) if quantized else plain
    target = Target(int_dtype=int, float_dtype=float_dtype, io_dtype=io, quantization=rules)
    edited = compose(spec, ExportSpec(target=target))
    for name, kind in inputs.items():
        edited = each_spec(edited, lambda inner, name=name: _without_kinds_of(inner, name))  # type: ignore[misc]
        edited = with_changed_input(edited, name, lambda tensor, kind=kind: _with_kind(tensor, kind))  # type: ignore[misc]
    return edited


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


@as_edit
def with_shapes(spec: ExportSpec, /, **sizes: int | tuple[int, int]) -> ExportSpec:
    """The spec with some axes static, or with a range of sizes. Axes that are not named stay as they are.

    A sum of sizes is static when all its terms are: with `past_sequence_length` fixed too, so is a mask over both.

    Args:
        spec: A spec.
        sizes: Axis symbol = size: `batch_size=1`; or its smallest and largest size: `sequence_length=(1, 128)`. Such
            an axis is dynamic. A symbol that no input has is an UnknownName when the plan is made.

    Raises:
        InvalidSpec: a size below 1, or a range whose ends are not in order.

    >>> from onnxfn.facts import EMPTY
    >>> print(with_shapes(EMPTY, batch_size=1).axes[0])
    batch_size is 1
    """
    return compose(spec, ExportSpec(axes=tuple(_with_sizes(name, size) for name, size in sizes.items())))


@as_edit
def only_tasks(spec: ExportSpec, *names: str) -> ExportSpec:
    """The spec with some of its tasks alone, in this order.

    Args:
        spec: A spec.
        names: Names of tasks.

    Raises:
        UnknownName: the spec has no such task.
        InvalidSpec: the spec is for another task already.

    >>> from onnxfn import text_encoder
    >>> [overlay.name for overlay in only_tasks(text_encoder, "fill-mask").tasks]
    ['fill-mask']
    """
    by_name = {overlay.name: overlay for overlay in spec.tasks}
    if spec.task is not None and spec.task not in names:
        raise InvalidSpec(f"{spec.name or 'this spec'} is for {spec.task} already; its other tasks have no effect")
    for name in names:
        refuse_unknown("task", name, by_name, of=spec.name or "this spec")
    return evolve(spec, tasks=tuple(by_name[name] for name in names))


def unknown_tensor(spec: ExportSpec, name: str, known: Sequence[str]) -> UnknownName:
    """The error for a tensor that no spec has. It may be an axis, or the output of one layer."""
    problem = unknown("input or output", name, known, of=spec.name or "this spec")
    if name in symbols_in(spec):
        return UnknownName(f"{problem}; {name!r} is an axis: with_axis_names(spec, {name}=...)")
    stem = name.rpartition(".")[0]
    if any(output.startswith(f"{stem}.{{") for output in known if stem):
        return UnknownName(f"{problem}; for the output of one layer, write with_outputs(spec, {name!r}) first")
    return problem


def _without_tensors(spec: ExportSpec, names: tuple[str, ...]) -> ExportSpec:
    order = spec.target.input_order
    return evolve(
        spec,
        inputs=tuple(tensor for tensor in spec.inputs if tensor.name not in names),
        outputs=tuple(tensor for tensor in spec.outputs if tensor.name not in names),
        target=evolve(spec.target, input_order=order and tuple(name for name in order if name not in names)),
    )


def _with_kind(tensor: InputSpec, kind: Kind) -> InputSpec:
    """The input with another dtype; InvalidSpec if that is of another kind of numbers."""
    refuse_unknown("type", kind, KINDS)
    if _numbers(kind) != _numbers(tensor.kind):
        possible = ", ".join(known for known in KINDS if _numbers(known) == _numbers(tensor.kind))
        raise InvalidSpec(f"{tensor.name!r} cannot be {kind}: it has the kind {tensor.kind}; possible: {possible}")
    return evolve(tensor, kind=kind)


def _without_kinds_of(spec: ExportSpec, name: str) -> ExportSpec:
    """The spec without the kinds of outputs that have the kind of an input: an output may follow the input's dtype."""
    kinds = {tensor.kind for tensor in spec.inputs if tensor.name == name} - {"float"}
    outputs = (evolve(output, kind=None) if output.kind in kinds else output for output in spec.outputs)
    return evolve(spec, outputs=tuple(outputs))


def _fillable(tensor: InputSpec, value: Any) -> InputSpec:
    """The input itself; InvalidSpec if it cannot be a tensor filled with a value."""
    if tensor.when is not None:
        raise InvalidSpec(f"{tensor.name!r} exists only when {tensor.when} is set, so it cannot be a constant")
    if type(value) not in ((bool,) if tensor.kind == "bool" else (int,) if "int" in tensor.kind else (int, float)):
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


def _numbers(kind: str) -> str:
    """What a kind holds: `int`, `float` or `bool`."""
    return "float" if "float" in kind else "int" if "int" in kind else kind


def _with_sizes(name: str, size: Any) -> AxisFacts:
    """An axis of a fixed size, or with a range of sizes."""
    is_range = isinstance(size, (tuple, list))
    match size:
        case Integral() if not size < 1:
            return AxisFacts(name, low=int(size), high=int(size))
        case (int(low), int(high)) if is_range and 0 <= low < high:
            return AxisFacts(name, low=low, high=high)
    fault = f"has no range {shortened(size)}" if is_range else f"cannot be fixed at {shortened(size)}"
    advice = "" if is_range else "a size is a whole number, 1 or more; "
    raise InvalidSpec(f"axis {name!r} {fault}; {advice}a range is (smallest, largest): {name}=(1, 128)")
