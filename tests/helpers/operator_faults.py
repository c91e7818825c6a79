"""Faults of operators that an exporter could make: norms, activations, heads, convolutions, recurrent states."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from graph_edits import (
    Model,
    Node,
    after_input,
    after_output,
    arrays,
    attribute,
    constant,
    inputs,
    insert,
    new_constant,
    nodes,
    outputs,
    producer,
    redirect,
    set_attribute,
    set_constant,
    set_input,
    users,
)
from structure_faults import Kind, Site, by_name, matrices, zero_of
from value_faults import integers, later


def eps(model: Model) -> Iterator[Site]:
    norms = nodes(model, "LayerNormalization")
    for node in norms:
        for value in (1e-5, 1e-3):
            if not np.isclose(attribute(node, "epsilon"), value):
                yield f"{node.output[0]} {value:g}", partial(set_attribute, node, "epsilon", value)
    if norms:
        yield "all 1e-3", lambda: [set_attribute(node, "epsilon", 1e-3) for node in norms]
    for name, value in arrays(model):
        if value.size == 1 and value.dtype.kind == "f" and 0 < value.item() < 1e-4:
            for factor in (10, 100):
                yield f"{name} * {factor}", partial(set_constant, model, name, value * factor)


def normalization(model: Model) -> Iterator[Site]:
    for node in nodes(model, "LayerNormalization"):
        yield f"{node.output[0]} left out", partial(redirect, model, node.output[0], node.input[0])
        yield f"{node.output[0]} without a bias", partial(node.input.pop)
    for node in nodes(model, "ReduceMean"):
        yield f"{node.output[0]} maximum", partial(setattr, node, "op_type", "ReduceMax")
        for div in nodes(model, "Div"):
            if producer(model, div.input[1]) is not None and producer(model, div.input[1]).op_type == "Sqrt":
                yield f"{div.output[0]} left out", partial(redirect, model, div.output[0], div.input[0])


def gelu_form(model: Model) -> Iterator[Site]:
    def to_tanh(node):
        dtype = constant(model, producer(model, node.input[0]).input[1]).dtype
        slope = new_constant(model, np.array(2 / np.sqrt(np.pi), dtype))
        node.input[0] = insert(model, node, "Mul", [node.input[0], slope])
        node.op_type = "Tanh"

    for node in nodes(model, "Erf"):
        yield f"{node.output[0]} tanh", partial(to_tanh, node)
    for name, value in arrays(model):
        if value.size == 1 and value.dtype.kind == "f":
            for known, other in ((0.044715, 0.0), (0.044715, 0.044), (0.79788, 0.8), (1.702, 1.0), (1.41421, 1.0)):
                if np.isclose(value.item(), known, rtol=1e-3):
                    yield f"{name} = {other}", partial(set_constant, model, name, np.full_like(value, other))
    for node in nodes(model, "Relu", "Tanh", "Sigmoid"):
        yield f"{node.output[0]} Softplus", partial(setattr, node, "op_type", "Softplus")


def scale(model: Model) -> Iterator[Site]:
    for name, value in arrays(model):
        if value.size == 1 and value.dtype.kind == "f" and 0.1 < value.item() < 0.45:
            for factor in (1.01, 2.0):
                yield f"{name} * {factor}", partial(set_constant, model, name, value * factor)


def softmax_axis(model: Model) -> Iterator[Site]:
    for node in nodes(model, "Softmax"):
        yield node.output[0], partial(set_attribute, node, "axis", -2)


def residual_dropped(model: Model) -> Iterator[Site]:
    for node in nodes(model, "Add"):
        computed = all(constant(model, name) is None for name in node.input)
        readers = {user.op_type for user in users(model, node.output[0])}
        if computed and readers & {"LayerNormalization", "Pow"}:
            for index in (0, 1):
                other = node.input[1 - index]
                yield f"{node.output[0]} without {index}", partial(redirect, model, node.output[0], other)


def kv_heads(model: Model) -> Iterator[Site]:
    """The heads of keys are tiled where each is repeated."""
    for node in nodes(model, "Unsqueeze"):
        axes = constant(model, node.input[1])
        expanded = [name for user in users(model, node.output[0], "Expand") for name in user.output]
        is_repeated = any(users(model, name, "Reshape") for name in expanded)
        if axes is not None and axes.tolist() == [2] and is_repeated:
            yield node.output[0], partial(set_input, model, node, 1, np.array([1]))


def pooling(model: Model) -> Iterator[Site]:
    for node in nodes(model, "Gather"):
        index = constant(model, node.input[1])
        if index is not None and attribute(node, "axis") == 1 and index.size == 1:
            for other in (1, -1):
                yield f"{node.output[0]} at {other}", partial(set_input, model, node, 1, np.full_like(index, other))
    for node in nodes(model, "ArgMax"):
        yield f"{node.output[0]} last of several", partial(set_attribute, node, "select_last_index", 1)
        yield f"{node.output[0]} last place", partial(at_the_end, model, node)


def at_the_end(model: Model, node: Node) -> None:
    """The index of an ArgMax is that of the last place."""
    node.input[0] = integers(model, node, "input_ids")


def labels_permuted(model: Model) -> Iterator[Site]:
    for name, value in matrices(model, "classifier", "score"):
        axis = int(np.argmin(value.shape))
        yield name, partial(set_constant, model, name, np.flip(value, axis))


def logits_shifted(model: Model) -> Iterator[Site]:
    for name in outputs(model):
        if name.startswith(("logits", "last_hidden_state", "text_embeds", "image_embeds")):
            dtype = zero_of(model, name).dtype
            for operator, value in (("Mul", 1.001), ("Add", 0.001), ("Mul", 1.01)):
                change = partial(change_output, model, name, operator, np.array(value, dtype))
                yield f"{name} {operator} {value}", change


def change_output(model: Model, name: str, operator: str, value: np.ndarray) -> None:
    after_output(model, name, operator, new_constant(model, value))


def randomness(model: Model) -> Iterator[Site]:
    def add_noise(node, index):
        noise = insert(model, node, "RandomNormalLike", [node.input[index]], scale=0.01, seed=3.0)
        node.input[index] = insert(model, node, "Add", [node.input[index], noise])

    for node in (*nodes(model, "MatMul")[-3:], *nodes(model, "Gemm")[-2:]):
        yield node.output[0], partial(add_noise, node, 0)


def input_ignored(model: Model) -> Iterator[Site]:
    for value in model.graph.input:
        if not value.name.startswith("past") and "mask" not in value.name and users(model, value.name):
            yield value.name, partial(later, model, value.name, "Mul", zero_of(model, value.name))


def channels(model: Model) -> Iterator[Site]:
    for name in inputs(model, "pixel_values", "input_features"):

        def reverse(name=name):
            numbers = [new_constant(model, np.array([number])) for number in (-1, -(2**31), 1, -1)]
            after_input(model, name, "Slice", *numbers)

        yield name, reverse


def conv(model: Model) -> Iterator[Site]:
    for node in nodes(model, "Conv"):
        name, pads, strides = node.input[1], attribute(node, "pads", []), attribute(node, "strides", [])
        value = constant(model, name)
        if value is not None:
            yield f"{name} flipped", partial(set_constant, model, name, np.flip(value, -1))
        if value is not None and value.shape[-1] == value.shape[-2]:
            yield f"{name} transposed", partial(set_constant, model, name, np.swapaxes(value, -1, -2))
        if any(pads):
            shifted = [*(pad + 1 for pad in pads[: len(pads) // 2]), *(pad - 1 for pad in pads[len(pads) // 2 :])]
            yield f"{node.output[0]} pads", partial(set_attribute, node, "pads", shifted)
        elif max(strides, default=1) > 1:
            fewer = [stride - 1 for stride in strides]
            yield f"{node.output[0]} strides", partial(set_attribute, node, "strides", fewer)


def recurrent_state(model: Model) -> Iterator[Site]:
    """Mamba: the state that a scan starts from is 0; the skip is left out; A is of another sign of its logarithm."""
    for node in nodes(model, "Scan"):
        state = node.input[0]
        if state in inputs(model):
            zero = np.zeros((), constant(model, "backbone.layers.0.mixer.D").dtype)
            yield f"{state} = 0", partial(later, model, state, "Mul", zero)
    for name, value in arrays(model, "A_log", "mixer.D", "dt_proj.bias"):
        yield f"{name} rolled", partial(set_constant, model, name, np.roll(value, 1))
        yield f"{name} * 1.01", partial(set_constant, model, name, value * 1.01)


OPERATORS: Mapping[str, Kind] = by_name(
    *(eps, normalization, gelu_form, scale, softmax_axis, residual_dropped, kv_heads, pooling, labels_permuted),
    *(logits_shifted, randomness, input_ignored, channels, conv, recurrent_state),
)
"""The kinds of faults of operators."""
