"""Faults of operators that an exporter could make: norms, activations, heads, convolutions, recurrent states."""

from collections.abc import Iterator, Mapping
from functools import partial

import graph_edits as g
import numpy as np
from structure_faults import Kind, Site, by_name, matrices, zero_of
from value_faults import integers, later


def eps(model: g.Model) -> Iterator[Site]:
    norms = g.nodes(model, "LayerNormalization")
    for node in norms:
        for value in (1e-5, 1e-3):
            if not np.isclose(g.attribute(node, "epsilon"), value):
                yield f"{node.output[0]} {value:g}", partial(g.set_attribute, node, "epsilon", value)
    if norms:
        yield "all 1e-3", lambda: [g.set_attribute(node, "epsilon", 1e-3) for node in norms]
    for name, value in g.arrays(model):
        if value.size == 1 and value.dtype.kind == "f" and 0 < value.item() < 1e-4:
            for factor in (10, 100):
                yield f"{name} * {factor}", partial(g.set_constant, model, name, value * factor)


def normalization(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "LayerNormalization"):
        yield f"{node.output[0]} left out", partial(g.redirect, model, node.output[0], node.input[0])
        yield f"{node.output[0]} without a bias", partial(node.input.pop)
    for node in g.nodes(model, "ReduceMean"):
        yield f"{node.output[0]} maximum", partial(setattr, node, "op_type", "ReduceMax")
        for div in g.nodes(model, "Div"):
            if g.producer(model, div.input[1]) is not None and g.producer(model, div.input[1]).op_type == "Sqrt":
                yield f"{div.output[0]} left out", partial(g.redirect, model, div.output[0], div.input[0])


def gelu_form(model: g.Model) -> Iterator[Site]:
    def to_tanh(node):
        dtype = g.constant(model, g.producer(model, node.input[0]).input[1]).dtype
        slope = g.new_constant(model, np.array(2 / np.sqrt(np.pi), dtype))
        node.input[0] = g.insert(model, node, "Mul", [node.input[0], slope])
        node.op_type = "Tanh"

    for node in g.nodes(model, "Erf"):
        yield f"{node.output[0]} tanh", partial(to_tanh, node)
    for name, value in g.arrays(model):
        if value.size == 1 and value.dtype.kind == "f":
            for known, other in ((0.044715, 0.0), (0.044715, 0.044), (0.79788, 0.8), (1.702, 1.0), (1.41421, 1.0)):
                if np.isclose(value.item(), known, rtol=1e-3):
                    yield f"{name} = {other}", partial(g.set_constant, model, name, np.full_like(value, other))
    for node in g.nodes(model, "Relu", "Tanh", "Sigmoid"):
        yield f"{node.output[0]} Softplus", partial(setattr, node, "op_type", "Softplus")


def scale(model: g.Model) -> Iterator[Site]:
    for name, value in g.arrays(model):
        if value.size == 1 and value.dtype.kind == "f" and 0.1 < value.item() < 0.45:
            for factor in (1.01, 2.0):
                yield f"{name} * {factor}", partial(g.set_constant, model, name, value * factor)


def softmax_axis(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Softmax"):
        yield node.output[0], partial(g.set_attribute, node, "axis", -2)


def residual_dropped(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Add"):
        computed = all(g.constant(model, name) is None for name in node.input)
        readers = {user.op_type for user in g.users(model, node.output[0])}
        if computed and readers & {"LayerNormalization", "Pow"}:
            for index in (0, 1):
                other = node.input[1 - index]
                yield f"{node.output[0]} without {index}", partial(g.redirect, model, node.output[0], other)


def kv_heads(model: g.Model) -> Iterator[Site]:
    def tile(before, after, order):
        before.input[0] = g.insert(model, before, "Gather", [before.input[0], g.new_constant(model, order)], axis=1)
        user, restored = g.users(model, after.output[0])[0], g.new_constant(model, np.argsort(order))
        g.redirect(model, after.output[0], g.insert(model, user, "Gather", [after.output[0], restored], axis=1))

    for before, after in grouped_products(model):
        groups, heads = (int(g.constant(model, node.input[1])[1]) for node in (before, after))
        if 1 < groups < heads:
            order = np.arange(heads).reshape(-1, groups).T.ravel()
            yield after.output[0], partial(tile, before, after, order)


def grouped_products(model: g.Model) -> Iterator[tuple[g.Node, g.Node]]:
    """The reshapes around each product of weights and values: to the heads of keys, and back to all heads."""
    for product in g.nodes(model, "MatMul"):
        before = g.producer(model, product.input[0])
        if before is not None and before.op_type == "Reshape":
            yield from ((before, after) for after in g.users(model, product.output[0], "Reshape"))


def pooling(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Gather"):
        index = g.constant(model, node.input[1])
        if index is not None and g.attribute(node, "axis") == 1 and index.size == 1:
            for other in (1, -1):
                yield f"{node.output[0]} at {other}", partial(g.set_input, model, node, 1, np.full_like(index, other))
    for node in g.nodes(model, "ArgMax"):
        yield f"{node.output[0]} last of several", partial(g.set_attribute, node, "select_last_index", 1)
        yield f"{node.output[0]} last place", partial(at_the_end, model, node)


def at_the_end(model: g.Model, node: g.Node) -> None:
    node.input[0] = integers(model, node, "input_ids")


def labels_permuted(model: g.Model) -> Iterator[Site]:
    for name, value in matrices(model, "classifier", "score"):
        axis = int(np.argmin(value.shape))
        yield name, partial(g.set_constant, model, name, np.flip(value, axis))


def logits_shifted(model: g.Model) -> Iterator[Site]:
    for name in g.outputs(model):
        if name.startswith(("logits", "last_hidden_state", "text_embeds", "image_embeds")):
            dtype = zero_of(model, name).dtype
            for operator, value in (("Mul", 1.001), ("Add", 0.001), ("Mul", 1.01)):
                change = partial(change_output, model, name, operator, np.array(value, dtype))
                yield f"{name} {operator} {value}", change


def change_output(model: g.Model, name: str, operator: str, value: np.ndarray) -> None:
    g.after_output(model, name, operator, g.new_constant(model, value))


def randomness(model: g.Model) -> Iterator[Site]:
    def add_noise(node, index):
        noise = g.insert(model, node, "RandomNormalLike", [node.input[index]], scale=0.01, seed=3.0)
        node.input[index] = g.insert(model, node, "Add", [node.input[index], noise])

    for node in (*g.nodes(model, "MatMul")[-3:], *g.nodes(model, "Gemm")[-2:]):
        yield node.output[0], partial(add_noise, node, 0)


def input_ignored(model: g.Model) -> Iterator[Site]:
    for value in model.graph.input:
        if not value.name.startswith("past") and "mask" not in value.name and g.users(model, value.name):
            yield value.name, partial(later, model, value.name, "Mul", zero_of(model, value.name))


def channels(model: g.Model) -> Iterator[Site]:
    for name in g.inputs(model, "pixel_values", "input_features"):

        def reverse(name=name):
            numbers = [g.new_constant(model, np.array([number])) for number in (-1, -(2**31), 1, -1)]
            g.after_input(model, name, "Slice", *numbers)

        yield name, reverse


def conv(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Conv"):
        name, pads, strides = node.input[1], g.attribute(node, "pads", []), g.attribute(node, "strides", [])
        value = g.constant(model, name)
        if value is not None:
            yield f"{name} flipped", partial(g.set_constant, model, name, np.flip(value, -1))
        if value is not None and value.shape[-1] == value.shape[-2]:
            yield f"{name} transposed", partial(g.set_constant, model, name, np.swapaxes(value, -1, -2))
        if any(pads):
            shifted = [*(pad + 1 for pad in pads[: len(pads) // 2]), *(pad - 1 for pad in pads[len(pads) // 2 :])]
            yield f"{node.output[0]} pads", partial(g.set_attribute, node, "pads", shifted)
        elif max(strides, default=1) > 1:
            fewer = [stride - 1 for stride in strides]
            yield f"{node.output[0]} strides", partial(g.set_attribute, node, "strides", fewer)


def recurrent_state(model: g.Model) -> Iterator[Site]:
    """Mamba: the state that a scan starts from is 0; the skip is left out; A is of another sign of its logarithm."""
    for node in g.nodes(model, "Scan"):
        state = node.input[0]
        if state in g.inputs(model):
            zero = np.zeros((), g.constant(model, "backbone.layers.0.mixer.D").dtype)
            yield f"{state} = 0", partial(later, model, state, "Mul", zero)
    for name, value in g.arrays(model, "A_log", "mixer.D", "dt_proj.bias"):
        yield f"{name} rolled", partial(g.set_constant, model, name, np.roll(value, 1))
        yield f"{name} * 1.01", partial(g.set_constant, model, name, value * 1.01)


OPERATORS: Mapping[str, Kind] = by_name(
    *(eps, normalization, gelu_form, scale, softmax_axis, residual_dropped, kv_heads, pooling, labels_permuted),
    *(logits_shifted, randomness, input_ignored, channels, conv, recurrent_state),
)
"""The kinds of faults of operators."""
