"""Faults of values and operators that an exporter could make: positions and weights."""

from collections.abc import Iterator, Mapping
from functools import partial

import graph_edits as g
import numpy as np
import onnx
from structure_faults import Kind, Site, by_name, layers, matrices, random, with_row

POSITION_TABLES = ("position_embedding", "wpe", "embed_positions")
WORD_TABLES = ("word_embeddings", "token_embedding", "embed_tokens", "wte", "shared", "backbone.embeddings")
SPECIAL_TOKEN = "special token "
CLIPS = (30, 45, 100)
"""Positions from which on a fault shows."""


# Positions


def integers(model: g.Model, start: g.Node, source: str) -> str:
    """The value 0, 1, 2, ... along the last axis of a matrix of tokens."""
    shape = g.insert(model, start, "Shape", [source])
    ones = g.insert(model, start, "ConstantOfShape", [shape], value=onnx.numpy_helper.from_array(np.array([1])))
    counted = g.insert(model, start, "CumSum", [ones, g.new_constant(model, np.array(1))])
    return g.insert(model, start, "Sub", [counted, g.new_constant(model, np.array(1))])


def position_ids(model: g.Model) -> Iterator[Site]:
    for name, value in g.arrays(model, "position_ids"):
        yield f"{name} + 1", partial(g.set_constant, model, name, np.minimum(value + 1, value.max()))
        for limit in CLIPS:
            if value.max() > limit:
                yield f"{name} clipped at {limit}", partial(g.set_constant, model, name, np.minimum(value, limit))


def position_ids_ignored(model: g.Model) -> Iterator[Site]:
    def recount():
        counted = integers(model, model.graph.node[0], "input_ids")
        g.redirect(model, "position_ids", counted, only=g.users(model, "position_ids"))

    if g.users(model, "position_ids") and "position_ids" in g.inputs(model):
        yield "counted from 0", recount
        zero, one = np.array(0), np.array(1)
        yield "zero", partial(later, model, "position_ids", "Mul", zero)
        yield "+ 1", partial(later, model, "position_ids", "Add", one)
        for limit in CLIPS:
            yield f"clipped at {limit}", partial(later, model, "position_ids", "Min", np.array(limit))


def later(model: g.Model, name: str, operator: str, value: np.ndarray) -> None:
    """Nodes that read an input read the operator of it and a constant."""
    g.after_input(model, name, operator, g.new_constant(model, value))


def position_table(model: g.Model) -> Iterator[Site]:
    for name, value in matrices(model, *POSITION_TABLES):
        yield f"{name} rolled", partial(g.set_constant, model, name, np.roll(value, 1, axis=0))
        for row in (5, 50, 100, len(value) - 1):
            if row < len(value):
                yield f"{name} row {row}", partial(g.set_constant, model, name, with_row(value, row))


def padding_not_skipped(model: g.Model) -> Iterator[Site]:
    """Positions are counted over pad tokens too: RoBERTa."""
    for node in g.nodes(model, "CumSum"):
        cast = g.producer(model, node.input[0])
        if cast is not None and cast.op_type == "Cast":
            yield node.output[0], partial(all_true, model, cast)


def all_true(model: g.Model, cast: g.Node) -> None:
    before = cast.input[0]
    cast.input[0] = g.insert(model, cast, "Or", [before, g.insert(model, cast, "Not", [before])])


def table_row_unseen(model: g.Model) -> Iterator[Site]:
    for name, value in matrices(model, *WORD_TABLES):
        for row in (0, 1, 3, 77, len(value) // 2 + 11, len(value) - 1):
            yield f"{name} row {row}", partial(g.set_constant, model, name, with_row(value, row))


def long_texts_only(model: g.Model) -> Iterator[Site]:
    """Embeddings of tokens beyond a position of the call are 10 % larger."""

    def enlarge(node, limit):
        after = g.users(model, node.output[0])
        start = after[0]
        positions = integers(model, start, "input_ids")
        beyond = g.insert(model, start, "Greater", [positions, g.new_constant(model, np.array(limit))])
        dtype = g.constant(model, node.input[0]).dtype
        factor = g.insert(model, start, "Cast", [beyond], to=onnx.helper.np_dtype_to_tensor_dtype(dtype))
        scaled = g.insert(model, start, "Mul", [factor, g.new_constant(model, np.array(0.1, dtype))])
        column = g.insert(model, start, "Unsqueeze", [scaled, g.new_constant(model, np.array([2]))])
        more = g.insert(model, start, "Mul", [node.output[0], column])
        g.redirect(model, node.output[0], g.insert(model, start, "Add", [node.output[0], more]), only=after)

    for node in g.nodes(model, "Gather"):
        if "input_ids" in node.input:
            for limit in CLIPS:
                yield f"{node.input[0]} beyond {limit}", partial(enlarge, node, limit)


def relative_bias(model: g.Model) -> Iterator[Site]:
    """T5's buckets: rows of the table, the logarithm's base, the limit of distances."""
    for name, value in matrices(model, "relative_attention_bias"):
        for row in (0, 1, 15, 20, 24, len(value) - 1):
            yield f"{name} row {row}", partial(g.set_constant, model, name, with_row(value, row))
    for log in g.nodes(model, "Log"):
        ratio = g.producer(model, log.input[0])
        yield (
            f"{ratio.output[0]} * 1.05",
            partial(g.set_input, model, ratio, 1, g.constant(model, ratio.input[1]) * 1.05),
        )
        (divided,) = g.users(model, log.output[0])
        base = g.constant(model, divided.input[1])
        yield f"{divided.output[0]} max_distance / 2", partial(g.set_input, model, divided, 1, base - np.log(2))
        yield f"{divided.output[0]} * 1.01", partial(g.set_input, model, divided, 1, base * 1.01)
    for node in g.nodes(model, "Min"):
        yield f"{node.output[0]} left out", partial(g.redirect, model, node.output[0], node.input[0])


# Rotary embedding


def rope(model: g.Model) -> Iterator[Site]:
    for node in g.nodes(model, "Neg"):
        yield f"{node.output[0]} not negated", partial(g.redirect, model, node.output[0], node.input[0])
    cosines, sines = g.nodes(model, "Cos"), g.nodes(model, "Sin")
    for cosine, sine in zip(cosines, sines, strict=True):
        yield f"{cosine.output[0]}, {sine.output[0]} exchanged", partial(exchange_operators, cosine, sine)


def exchange_operators(left: g.Node, right: g.Node) -> None:
    left.op_type, right.op_type = right.op_type, left.op_type


def rope_theta(model: g.Model) -> Iterator[Site]:
    for name, value in g.arrays(model, "inv_freq"):
        exponents = np.arange(len(value)) / len(value)
        for theta in (500_000.0, 11_000.0):
            yield f"{name} {theta:g}", partial(g.set_constant, model, name, theta**-exponents)
        for index in range(1, len(value)):
            factors = np.where(np.arange(len(value)) == index, 1.05, 1.0)
            yield f"{name}[{index}] * 1.05", partial(g.set_constant, model, name, value * factors)


# Weights


def chosen(model: g.Model) -> list[tuple[str, np.ndarray]]:
    """Some of the matrices: the first three, two of the middle, the last two."""
    every = matrices(model)
    return list(dict((*every[:3], *every[len(every) // 2 :][:2], *every[-2:])).items())


def bias_zeroed(model: g.Model) -> Iterator[Site]:
    for name, value in g.arrays(model, ".bias"):
        if value.dtype.kind == "f":
            yield name, partial(g.set_constant, model, name, np.zeros_like(value))


def weight_noise(model: g.Model) -> Iterator[Site]:
    for name, value in chosen(model):
        for share in (0.001, 0.01):
            noise = random(name).normal(size=value.shape) * share * value.std()
            yield f"{name} {share:.1%}", partial(g.set_constant, model, name, value + noise)


def one_element(model: g.Model) -> Iterator[Site]:
    for name, value in chosen(model):
        for change in (0.05, 1.0):
            yield f"{name} + {change}", partial(g.set_constant, model, name, with_element(name, value, change))


def with_element(name: str, value: np.ndarray, change: float) -> np.ndarray:
    changed = value.astype(np.float64)
    changed[tuple(random(name).integers(0, value.shape))] += change
    return changed


def rounded(model: g.Model) -> Iterator[Site]:
    for name, value in chosen(model):
        scale = np.abs(value).max() / 127
        yield f"{name} int8", partial(g.set_constant, model, name, np.round(value / scale) * scale)
        if value.dtype == np.float32:
            yield f"{name} float16", partial(g.set_constant, model, name, value.astype(np.float16))
            bits = value.view(np.uint32) & np.uint32(0xFFFF0000)
            yield f"{name} bfloat16", partial(g.set_constant, model, name, bits.view(np.float32))


def weights_swapped(model: g.Model) -> Iterator[Site]:
    """Two weights of the same shape: of neighboring layers, or neighbors of one layer."""
    every = [name for name, value in g.arrays(model) if value.dtype.kind == "f" and value.size > 1]
    neighbors = [(a, b) for a, b in zip(every, every[2:], strict=False) if a.split(".")[-1] == b.split(".")[-1]]
    for left, right in [*layers(every), *neighbors]:
        if g.constant(model, left).shape == g.constant(model, right).shape:
            yield f"{left}, {right}", partial(g.exchange_values, model, left, right)


def gate_up(model: g.Model) -> Iterator[Site]:
    for name in g.initializers(model, "gate_proj"):
        yield name, partial(g.exchange_values, model, name, name.replace("gate_proj", "up_proj"))


def tied_head(model: g.Model) -> Iterator[Site]:
    for name, value in g.arrays(model, "lm_head.weight"):
        axis = int(value.shape[0] < value.shape[1])
        yield f"{name} rolled", partial(g.set_constant, model, name, np.roll(value, 1, axis))
        changed = np.moveaxis(with_row(np.moveaxis(value, axis, 0), 77), 0, axis)
        yield f"{name} row 77", partial(g.set_constant, model, name, changed)


def files_of_other_models(model: g.Model) -> Iterator[Site]:
    def redraw(deviation):
        for name, value in matrices(model):
            g.set_constant(model, name, random(name).normal(0, deviation, value.shape))

    yield "another seed", partial(redraw, 0.15)


def special_tokens(model: g.Model) -> list[int]:
    """The pad token and the end token, which the metadata of the model names."""
    return sorted({int(entry.value) for entry in model.metadata_props if entry.key.startswith(SPECIAL_TOKEN)})


def wrong_token(model: g.Model) -> Iterator[Site]:
    def replace(old, new):
        start = model.graph.node[0]
        readers = [node for node in g.users(model, "input_ids") if node.op_type != "Shape"]
        is_old = g.insert(model, start, "Equal", ["input_ids", g.new_constant(model, np.array(old))])
        changed = g.insert(model, start, "Where", [is_old, g.new_constant(model, np.array(new)), "input_ids"])
        g.redirect(model, "input_ids", changed, only=readers)

    if g.users(model, "input_ids"):
        for token in special_tokens(model):
            yield f"{token + 1} for {token}", partial(replace, token, token + 1)


def nan_weight(model: g.Model) -> Iterator[Site]:
    for name, value in chosen(model):
        for label, number in (("NaN", np.nan), ("infinite", np.inf)):
            yield f"{name} {label}", partial(g.set_constant, model, name, with_element(name, value, number))


VALUES: Mapping[str, Kind] = {
    "position ids": position_ids,
    "position_ids ignored": position_ids_ignored,
    **by_name(position_table, padding_not_skipped, table_row_unseen, long_texts_only, relative_bias, rope, rope_theta),
    **by_name(bias_zeroed, weight_noise, one_element, rounded, weights_swapped),
    "gate/up": gate_up,
    **by_name(tied_head, files_of_other_models, wrong_token),
    "not a number": nan_weight,
}
"""The kinds of faults of positions and weights."""
