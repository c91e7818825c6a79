"""Faults that an exporter could make, as edits of its ONNX graph: the kinds, and where each can be made.

A kind is a function from a model to its sites. A site is a name and an edit, which changes the model in place.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations, pairwise
from zlib import crc32

import graph_edits as g
import numpy as np
import onnx

Site = tuple[str, Callable[[], None]]
Kind = Callable[[g.Model], Iterator[Site]]

COMPARISONS = {"LessOrEqual": "Less", "Less": "LessOrEqual", "GreaterOrEqual": "Greater", "Greater": "GreaterOrEqual"}
"""From a comparison to that which answers otherwise for two equal numbers."""

LOWEST = -1e4
"""Scores below it hide a token: -65504 in float16, -3.4e38 in float32."""

TRACED = {0: 2, 1: 16}
"""The batch size and the length of the trace."""


def random(label: str) -> np.random.Generator:
    return np.random.default_rng(crc32(label.encode()))


def matrices(model: g.Model, *words: str) -> list[tuple[str, np.ndarray]]:
    return [(name, value) for name, value in g.arrays(model, *words) if value.dtype.kind == "f" and value.ndim > 1]


def by_name(*kinds: Callable[[g.Model], Iterator[Site]]) -> dict[str, Kind]:
    return {kind.__name__.replace("_", " "): kind for kind in kinds}


def zero_of(model: g.Model, name: str) -> np.ndarray:
    value = next(value for value in (*model.graph.input, *model.graph.output) if value.name == name)
    return np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def with_row(values: np.ndarray, row: int) -> np.ndarray:
    changed = values.copy()
    changed[row] = values[row][::-1] + values[(row + 1) % len(values)]
    return changed


# The interface


def axis_name(model: g.Model) -> Iterator[Site]:
    for value in (*model.graph.input, *model.graph.output):
        for index, axis in enumerate(value.type.tensor_type.shape.dim):
            if axis.dim_param:
                yield f"{value.name}[{index}]", partial(setattr, axis, "dim_param", "s44")


def declared_size(model: g.Model) -> Iterator[Site]:
    for value in model.graph.output:
        for index, axis in enumerate(value.type.tensor_type.shape.dim):
            if axis.dim_param:
                yield f"{value.name}[{index}]", partial(setattr, axis, "dim_value", 4)


def extra_tensor(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Softmax", "MatMul", "Gemm"):
        if node in model.graph.node:
            value = onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)
            yield node.output[0], partial(model.graph.output.append, value)


def input_order(model: g.Model) -> Iterator[Site]:
    def reverse(values):
        reordered = list(values)[::-1]
        del values[:]
        values.extend(reordered)

    for name, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        if len(values) > 1:
            yield name, partial(reverse, values)


def input_type(model: g.Model) -> Iterator[Site]:
    def narrow(value):
        g.after_input(model, value.name, "Cast", to=value.type.tensor_type.elem_type)
        value.type.tensor_type.elem_type = onnx.TensorProto.INT32

    for value in model.graph.input:
        if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            yield value.name, partial(narrow, value)


def output_type(model: g.Model) -> Iterator[Site]:
    def widen(value):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
        g.after_output(model, value.name, "Cast", to=onnx.TensorProto.DOUBLE)

    for value in model.graph.output:
        yield value.name, partial(widen, value)


def renamed(model: g.Model) -> Iterator[Site]:
    def rename_input(value):
        old, value.name = value.name, f"{value.name}_1"
        g.redirect(model, old, value.name)

    def rename_output(value):
        g.after_output(model, value.name, "Identity")
        model.graph.node[-1].output[0] = value.name = f"{value.name}_1"

    for value in model.graph.input:
        yield value.name, partial(rename_input, value)
    for value in model.graph.output:
        yield value.name, partial(rename_output, value)


# Masks


def read_inputs(model: g.Model, word: str) -> list[str]:
    return [name for name in g.inputs(model, word) if g.users(model, name)]


def mask_ignored(model: g.Model) -> Iterator[Site]:
    def ignore(name):
        shape = g.insert(model, model.graph.node[0], "Shape", [name])
        ones = onnx.numpy_helper.from_array(np.array([1]))
        value = g.insert(model, model.graph.node[1], "ConstantOfShape", [shape], value=ones)
        g.redirect(model, name, value, only=[node for node in g.users(model, name) if node.op_type != "Shape"])

    for name in read_inputs(model, "mask"):
        yield name, partial(ignore, name)


def mask_batch(model: g.Model) -> Iterator[Site]:
    """The mask of the first row for all rows; the rows in reverse."""

    def first_row(name):
        readers = [node for node in g.users(model, name) if node.op_type != "Shape"]
        start = model.graph.node[0]
        shape = g.insert(model, start, "Shape", [name])
        row = g.insert(model, start, "Gather", [name, g.new_constant(model, np.array([0]))], axis=0)
        g.redirect(model, name, g.insert(model, start, "Expand", [row, shape]), only=readers)

    def reverse(name):
        numbers = [g.new_constant(model, np.array([number])) for number in (-1, -(2**31), 0, -1)]
        g.after_input(model, name, "Slice", *numbers)

    for name in read_inputs(model, "mask"):
        yield f"{name}: row 0", partial(first_row, name)
        yield f"{name}: reversed", partial(reverse, name)


def mask_shifted(model: g.Model) -> Iterator[Site]:
    def shift(name):
        start = model.graph.node[0]
        readers = [node for node in g.users(model, name) if node.op_type != "Shape"]
        numbers = [g.new_constant(model, np.array([number])) for number in (1, 2**31 - 1, 1)]
        tail = g.insert(model, start, "Slice", [name, *numbers])
        head = g.insert(model, start, "Slice", [name, g.new_constant(model, np.array([0])), numbers[0], numbers[2]])
        g.redirect(model, name, g.insert(model, start, "Concat", [tail, head], axis=1), only=readers)

    for name in read_inputs(model, "mask"):
        yield name, partial(shift, name)


def attentions(model: g.Model) -> list[tuple[g.Node, g.Node]]:
    found = ((node, g.mask_sum(model, node)) for node in g.nodes(model, "Softmax"))
    return [(softmax, add) for softmax, add in found if add is not None and add.op_type == "Add"]


def mask_one_layer(model: g.Model) -> Iterator[Site]:
    for softmax, add in attentions(model):
        yield softmax.output[0], partial(set_edge, softmax, 0, add.input[0])


def set_edge(node: g.Node, index: int, name: str) -> None:
    node.input[index] = name


def mask_weak(model: g.Model) -> Iterator[Site]:
    for name, value in g.arrays(model):
        if value.dtype.kind == "f" and value.size == 1 and value.item() < LOWEST:
            for weak in (-10000.0, -30.0, -5.0):
                yield f"{name} = {weak:g}", partial(g.set_constant, model, name, np.full_like(value, weak))


def comparisons(model: g.Model) -> list[g.Node]:
    return [
        node for node in g.nodes(model, *COMPARISONS) if all(g.constant(model, each) is None for each in node.input)
    ]


def causal_mask(model: g.Model) -> Iterator[Site]:
    def always(node):
        after = [one for one in g.nodes(model) if node.output[0] in one.input]
        negated = g.insert(model, after[0], "Not", [node.output[0]])
        g.redirect(model, node.output[0], g.insert(model, after[0], "Or", [node.output[0], negated]), only=after)

    opposite = {"LessOrEqual": "GreaterOrEqual", "GreaterOrEqual": "LessOrEqual", "Greater": "Less", "Less": "Greater"}
    for node in comparisons(model):
        yield f"{node.output[0]}: always", partial(always, node)
        for other in (COMPARISONS[node.op_type], opposite[node.op_type]):
            yield f"{node.output[0]}: {other}", partial(setattr, node, "op_type", other)


def sliding_window(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Sub"):
        width = g.constant(model, node.input[1])
        if width is not None and width.dtype.kind == "i" and any(g.users(model, node.output[0], "Greater")):
            for step in (1, -1, -7, -9, 10**6):
                name = "dropped" if step == 10**6 else f"{step:+d}"
                yield f"{node.output[0]} {name}", partial(g.set_input, model, node, 1, width + step)


# The cache


def layers(names: list[str]) -> list[tuple[str, str]]:
    """Pairs of neighbors among names that differ in the number of a layer alone."""
    by_pattern: dict[str, list[str]] = {}
    for name in names:
        by_pattern.setdefault(re.sub(r"\d+", "#", name), []).append(name)
    return [pair for group in by_pattern.values() for pair in pairwise(group)]


def past_ignored(model: g.Model) -> Iterator[Site]:
    for name in read_inputs(model, "past"):
        yield name, lambda name=name: g.after_input(model, name, "Mul", g.new_constant(model, zero_of(model, name)))


def past_of_another_layer(model: g.Model, *, cross: bool = False) -> Iterator[Site]:
    for left, right in layers([name for name in read_inputs(model, "past") if (".encoder." in name) == cross]):
        yield f"{left}, {right}", partial(g.exchange_inputs, model, left, right)


def key_value_swapped(model: g.Model) -> Iterator[Site]:
    for key in g.inputs(model, ".key"):
        yield key, partial(g.exchange_inputs, model, key, key.replace(".key", ".value"))
    for key in g.outputs(model, ".key"):
        yield key, partial(g.exchange_outputs, model, key, key.replace(".key", ".value"))


def concatenations(model: g.Model) -> list[tuple[str, g.Node]]:
    """The outputs that are a past and what is new, with the node that joins them."""
    found = ((name, g.producer(model, name)) for name in g.outputs(model, "present"))
    return [(name, node) for name, node in found if node is not None and node.op_type == "Concat"]


def present_stale(model: g.Model) -> Iterator[Site]:
    """What is new in an output is 0, or comes before the past."""

    def join(name, node, *, new_first):
        past, new = node.input
        g.rename_producer(model, name)
        if not new_first:
            new = g.insert(model, None, "Mul", [new, g.new_constant(model, zero_of(model, name))])
        parts = [new, past] if new_first else [past, new]
        model.graph.node.append(onnx.helper.make_node("Concat", parts, [name], axis=g.attribute(node, "axis")))

    for name, node in concatenations(model):
        yield name, partial(join, name, node, new_first=False)
        yield f"{name}: new first", partial(join, name, node, new_first=True)


def present_wrong(model: g.Model) -> Iterator[Site]:
    for left, right in layers(g.outputs(model, "present")):
        yield f"{left}, {right}", partial(g.exchange_outputs, model, left, right)


def outputs_swapped(model: g.Model) -> Iterator[Site]:
    for left, right in combinations(model.graph.output, 2):
        if g.shape_of(left) == g.shape_of(right) or {left.name, right.name} == {"logits_per_image", "logits_per_text"}:
            yield f"{left.name}, {right.name}", partial(g.exchange_outputs, model, left.name, right.name)


def branch(model: g.Model) -> Iterator[Site]:
    """The branches of an If are exchanged, or its condition is constant."""

    def exchange(node):
        for one in node.attribute:
            one.name = {"then_branch": "else_branch", "else_branch": "then_branch"}.get(one.name, one.name)

    for node in g.nodes(model, "If"):
        yield f"{node.output[0]}: exchanged", partial(exchange, node)
        for value in (True, False):
            yield f"{node.output[0]}: {value}", partial(g.set_input, model, node, 0, np.array(value))


def frozen_axis(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Shape"):
        axis = g.attribute(node, "start", 0)
        if node.input[0] in g.inputs(model) and g.attribute(node, "end") == axis + 1 and axis in TRACED:
            name, size = node.output[0], np.array([TRACED[axis]])
            yield (
                f"{name} = {size[0]}",
                lambda name=name, size=size: g.redirect(model, name, g.new_constant(model, size)),
            )


MASKS_AND_CACHES: Mapping[str, Kind] = {
    **by_name(axis_name, declared_size, extra_tensor, input_order, input_type, output_type, renamed),
    **by_name(mask_ignored, mask_batch, mask_shifted, mask_one_layer, mask_weak, causal_mask, sliding_window),
    **by_name(past_ignored, past_of_another_layer),
    "cross past of another layer": partial(past_of_another_layer, cross=True),
    "key/value swapped": key_value_swapped,
    **by_name(present_stale, present_wrong, outputs_swapped, branch, frozen_axis),
}
"""The kinds of faults of the interface, of masks and of caches."""

INTERFACE = frozenset({"axis name", "declared size", "extra tensor", "input order", "input type", "output type"})
"""Kinds that change no number: a file with another interface is wrong even so."""
