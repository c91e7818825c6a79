"""Random changes of an ONNX graph, of no particular meaning, and the table of all kinds of faults."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import graph_edits as g
import numpy as np
import onnx
from operator_faults import OPERATORS, change_output
from structure_faults import COMPARISONS, MASKS_AND_CACHES, Kind, Site, by_name, random, set_edge
from value_faults import VALUES, with_element

_OTHERS = (
    "Add Sub Mul, Sub Add, Mul Div Add, Div Mul, Max Min, Min Max, And Or, Or And, Tanh Sigmoid Identity, "
    "Sigmoid Tanh HardSigmoid, Sqrt Abs, Exp Softplus, Cos Sin, Sin Cos, Neg Identity, Not Identity, "
    "Erf Tanh, Softmax Sigmoid LogSoftmax, ReduceMean ReduceSum ReduceMax, ReduceMax ReduceMin, "
    "ReduceSum ReduceMean, ReduceProd ReduceMax, ArgMax ArgMin, Relu Abs Identity, Log Sqrt, Softplus Relu, "
    "Equal GreaterOrEqual"
)

OTHER_OPERATORS: Mapping[str, tuple[str, ...]] = {
    first: tuple(others) for first, *others in map(str.split, _OTHERS.split(","))
}
"""From an operator to others of the same inputs."""


def label(node: g.Node, change: str) -> str:
    return f"{node.op_type} {node.output[0]} {change}"


def operator_replaced(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, *OTHER_OPERATORS):
        for other in OTHER_OPERATORS[node.op_type]:
            yield label(node, f"-> {other}"), partial(replace_operator, node, other)


def replace_operator(node: g.Node, other: str) -> None:
    """Another operator, without the attributes that it does not have."""
    remaining = [one for one in node.attribute if one.name in onnx.defs.get_schema(other, 18).attributes]
    del node.attribute[:]
    node.attribute.extend(remaining)
    node.op_type = other


def comparison_strictness(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, *COMPARISONS):
        other = COMPARISONS[node.op_type]
        yield label(node, f"-> {other}"), partial(setattr, node, "op_type", other)


def constant_changed(model: g.Model, change: Mapping[str, Callable[..., np.ndarray]], kinds: str) -> Iterator[Site]:
    for name, value in g.arrays(model):
        if value.size <= 4 and value.dtype.kind in kinds and not name.endswith(("weight", "bias")):
            for text, function in change.items():
                with np.errstate(over="ignore"):  # the score of a masked token is the lowest number
                    changed = function(value)
                yield f"{name} {text}", partial(g.set_constant, model, name, changed)


FLOAT_CHANGES: Mapping[str, Callable[..., np.ndarray]] = {
    "* 1.01": lambda value: value * 1.01,
    "* 2": lambda value: value * 2,
    "= 0": lambda value: value * 0,
    "negated": lambda value: -value,
    "+ 0.1": lambda value: value + 0.1,
}
INTEGER_CHANGES: Mapping[str, Callable[..., np.ndarray]] = {
    "+ 1": lambda value: value + 1,
    "- 1": lambda value: value - 1,
    "reversed": np.flip,
}


def constant_of_one_node(model: g.Model) -> Iterator[Site]:
    """A constant of one node alone, where others read the same."""
    for node in g.nodes(model):
        for index, name in enumerate(node.input):
            value = g.constant(model, name)
            if value is not None and value.size <= 4 and value.dtype.kind in "if":
                change = value + 1 if value.dtype.kind == "i" else value * 0.5 + 0.01
                yield label(node, f"input {index}"), partial(g.set_input, model, node, index, change)


def attribute_changed(model: g.Model, kind: int, changes: Mapping[str, Callable[[Any], Any]]) -> Iterator[Site]:
    """Attributes of a type, types of values and the axes of a Transpose excepted."""
    for node in g.nodes(model):
        for one in node.attribute:
            if one.type == kind and one.name not in ("to", "stash_type", "dtype", "perm"):
                for text, change in changes.items():
                    value = change(onnx.helper.get_attribute_value(one))
                    yield label(node, f"{one.name}{text}"), partial(g.set_attribute, node, one.name, value)


def transpose_axes(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Transpose"):
        axes = list(g.attribute(node, "perm"))
        for index in range(len(axes) - 1):
            changed = [*axes[:index], axes[index + 1], axes[index], *axes[index + 2 :]]
            yield label(node, f"{changed}"), partial(g.set_attribute, node, "perm", changed)


def edge_moved(model: g.Model) -> Iterator[Site]:
    """A node reads what an earlier node of the same operator as its producer computes."""
    for graph in g.graphs(model.graph):
        earlier: dict[str, list[str]] = {}
        producers = {name: node.op_type for node in graph.node for name in node.output}
        for node in graph.node:
            for index, name in enumerate(node.input):
                others = [other for other in earlier.get(producers.get(name, ""), []) if other != name]
                if others:
                    yield label(node, f"reads {others[-1]}"), partial(set_edge, node, index, others[-1])
            earlier.setdefault(node.op_type, []).append(node.output[0])


def edge_to_another_weight(model: g.Model) -> Iterator[Site]:
    shapes = {name: value.shape for name, value in g.arrays(model) if value.dtype.kind == "f" and value.size > 4}
    for node in g.nodes(model):
        for index, name in enumerate(node.input):
            others = [other for other in shapes if other != name and shapes[other] == shapes.get(name)]
            if others:
                other = others[int(random(name).integers(len(others)))]
                yield label(node, f"reads {other}"), partial(set_edge, node, index, other)


def edges_exchanged(model: g.Model, operators: tuple[str, ...], word: str, left: int, right: int) -> Iterator[Site]:
    def exchange(node):
        node.input[left], node.input[right] = node.input[right], node.input[left]

    for node in g.nodes(model, *operators):
        if node.input[left] != node.input[right]:
            yield label(node, word), partial(exchange, node)


SKIPPED = (
    *("Add", "Mul", "Div", "Sub", "Tanh", "Erf", "Sigmoid", "Relu", "Softmax", "Neg", "And", "Sqrt", "Pow"),
    *("LayerNormalization", "Max", "Min", "Expand", "Not", "Exp", "Softplus"),
)


def node_skipped(model: g.Model, operators: tuple[str, ...] = SKIPPED, word: str = "skipped") -> Iterator[Site]:
    for node in g.nodes(model, *operators):
        yield label(node, word), partial(g.redirect, model, node.output[0], node.input[0])


def cast_inserted(model: g.Model) -> Iterator[Site]:
    def narrow(node, index):
        dtype = g.constant(model, node.input[1 - index])
        kind = onnx.TensorProto.FLOAT if dtype is None else onnx.helper.np_dtype_to_tensor_dtype(dtype.dtype)
        half = g.insert(model, node, "Cast", [node.input[index]], to=onnx.TensorProto.FLOAT16)
        node.input[index] = g.insert(model, node, "Cast", [half], to=kind)

    for node in g.nodes(model, "MatMul", "Gemm"):
        yield label(node, "through float16"), partial(narrow, node, 0)


def slice_bounds(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Slice"):
        for index, name in enumerate(node.input[1:3], start=1):
            value = g.constant(model, name)
            if value is not None and abs(int(value[0])) < 2**31:
                for step in (1, -1):
                    yield (
                        label(node, f"bound {index} {step:+d}"),
                        partial(g.set_input, model, node, index, value + step),
                    )


def gather_index(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Gather", "GatherElements"):
        index = g.constant(model, node.input[1])
        if index is not None and index.dtype.kind == "i":
            for step in (1, -1):
                yield label(node, f"index {step:+d}"), partial(g.set_input, model, node, 1, index + step)
        else:
            yield label(node, "index + 1"), partial(shift_index, model, node)


def shift_index(model: g.Model, node: g.Node) -> None:
    node.input[1] = g.insert(model, node, "Add", [node.input[1], g.new_constant(model, np.array(1))])


def initializer_changed(model: g.Model, change: Mapping[str, Callable[..., np.ndarray]]) -> Iterator[Site]:
    for name, value in g.arrays(model):
        if value.size > 4 and value.dtype.kind == "f":
            for text, function in change.items():
                changed = function(name, value)
                if changed.shape == value.shape:
                    yield f"{name} {text}", partial(g.set_constant, model, name, changed)


NOISE: Mapping[str, Callable[..., np.ndarray]] = {
    "noise": lambda name, value: value + random(name).normal(size=value.shape) * 0.02 * value.std(),
    "one element": lambda name, value: with_element(name, value, value.std()),
    "through float16": lambda _, value: value.astype(np.float16),
}
WHOLE: Mapping[str, Callable[..., np.ndarray]] = {
    "* 1.01": lambda _, value: value * 1.01,
    "zero": lambda _, value: value * 0,
    "negated": lambda _, value: -value,
}
ORDER: Mapping[str, Callable[..., np.ndarray]] = {
    "rolled": lambda _, value: np.roll(value, 1, 0),
    "reversed": lambda _, value: np.flip(value, -1),
    "transposed": lambda _, value: value.T,
    "row zero": lambda _, value: np.concatenate((value[:-1], np.zeros_like(value[-1:]))),
}


def output_changed(model: g.Model) -> Iterator[Site]:
    for value in model.graph.output:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype.kind == "f":
            for operator, number in (("Mul", 0), ("Mul", -1), ("Add", 0.01)):
                change = partial(change_output, model, value.name, operator, np.array(number, dtype))
                yield f"{value.name} {operator} {number}", change


def condition_negated(model: g.Model) -> Iterator[Site]:
    def negate(node):
        node.input[0] = g.insert(model, node, "Not", [node.input[0]])

    for node in g.nodes(model, "Where", "If"):
        yield label(node, "condition negated"), partial(negate, node)


def shape_changed(model: g.Model) -> Iterator[Site]:
    """A size that is read from an input is that of another axis, or of another input."""
    every = [node.output[0] for node in g.nodes(model, "Shape")]
    for node in g.nodes(model, "Concat", "Range", "Expand", "Squeeze"):
        for index, name in enumerate(node.input):
            others = [other for other in every if other != name]
            if name in every and others:
                yield label(node, f"reads {others[0]}"), partial(set_edge, node, index, others[0])


ATTRIBUTES: Mapping[str, tuple[int, Mapping[str, Callable[[Any], Any]]]] = {
    "float attribute": (
        onnx.AttributeProto.FLOAT,
        {" * 0.5": lambda value: value * 0.5, " * 100": lambda value: value * 100},
    ),
    "integer attribute": (onnx.AttributeProto.INT, {" +1": lambda value: value + 1, " -1": lambda value: value - 1}),
    "list attribute": (onnx.AttributeProto.INTS, {"[0] + 1": lambda value: [value[0] + 1, *value[1:]]}),
}
OPERANDS = ("Sub", "Div", "MatMul", "Pow", "Greater", "Less", "LessOrEqual", "GreaterOrEqual")

RANDOM: Mapping[str, Kind] = {
    **by_name(operator_replaced, comparison_strictness),
    "float constant": partial(constant_changed, change=FLOAT_CHANGES, kinds="f"),
    "integer constant": partial(constant_changed, change=INTEGER_CHANGES, kinds="i"),
    "boolean constant": partial(constant_changed, change={"negated": lambda value: ~value}, kinds="b"),
    **by_name(constant_of_one_node),
    **{name: partial(attribute_changed, kind=kind, changes=made) for name, (kind, made) in ATTRIBUTES.items()},
    **by_name(transpose_axes),
    **by_name(edge_moved, edge_to_another_weight),
    "operands exchanged": partial(edges_exchanged, operators=OPERANDS, word="operands exchanged", left=0, right=1),
    "where exchanged": partial(edges_exchanged, operators=("Where",), word="branches exchanged", left=1, right=2),
    "concat order": partial(edges_exchanged, operators=("Concat",), word="order", left=0, right=-1),
    "node skipped": node_skipped,
    "cast removed": partial(node_skipped, operators=("Cast",), word="removed"),
    **by_name(cast_inserted, slice_bounds, gather_index),
    "initializer noise": partial(initializer_changed, change=NOISE),
    "initializer scaled": partial(initializer_changed, change=WHOLE),
    "initializer order": partial(initializer_changed, change=ORDER),
    **by_name(output_changed, condition_negated),
    "shape of another axis": shape_changed,
}
"""Kinds of random mutants."""

NAMED: Mapping[str, Kind] = {**MASKS_AND_CACHES, **VALUES, **OPERATORS}
"""Kinds of faults that an exporter could make."""

KINDS: Mapping[str, Kind] = {**NAMED, **RANDOM}
"""All kinds of faults."""
