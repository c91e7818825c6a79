"""Faults in the graph of a quantized file, and what the check of the graph says of them. No weight is changed."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
from attrs import frozen
from graph_edits import Model, Node, constant, insert, new_constant, nodes, producer, set_constant, users
from mutations import KINDS
from structure_faults import Kind, Site, attentions, set_edge

import onnxfn
from onnxfn.check.cases.references import Reference, references
from onnxfn.check.check import check, compared_file


@frozen
class Quantized:
    model: Any
    part: onnxfn.Part
    file: Path
    expected: tuple[Reference, ...]


def quantized(model: Any, spec: onnxfn.ExportSpec, dtype: str, folder: Path) -> Quantized:
    """The export of a model in a quantized dtype; it passes its check."""
    (part,) = onnxfn.export(spec, model, folder, dtypes=(dtype,), check=False).plan.parts
    file = folder / f"{part.name}.onnx"
    compared = compared_file(model, part, file)
    return Quantized(model, part, file, tuple(references(compared.model, part, dtype=compared.dtype)))


def report_of(tested: Quantized, file: Path) -> onnxfn.Report:
    return check(tested.model, tested.part, file, expected=lambda *_, **__: tested.expected)


def finds(tested: Quantized, fault: Kind, index: int, folder: Path) -> bool:
    """Whether the comparison with PyTorch, without any floor, finds a fault that is planted at one of its sites."""
    model = onnx.load(tested.file)
    _, edit = list(fault(model))[index]
    edit()
    save_sorted(model, folder / tested.file.name)
    try:
        report = report_of(tested, folder / tested.file.name)
    except onnxfn.CheckFailed:
        return True
    return bool(report.findings) or not all(difference.passed for difference in report.differences)


def save_sorted(model: Model, file: Path) -> None:
    """Saves a graph whose nodes come after those that they read: in another order ONNX Runtime does not load it."""
    ordered = onnx_ir.from_proto(model)
    ordered.graph.sort()
    onnx.save(onnx_ir.to_proto(ordered), file)


def gate_up(model: Model) -> Iterator[Site]:
    def exchange(active: Node, gated: Node, product: Node) -> None:
        gate, up = active.input[0], next(name for name in product.input if name != gated.output[0])
        active.input[0], gated.input[:], product.input[:] = up, [up, active.output[0]], [gated.output[0], gate]

    for active in nodes(model, "Sigmoid"):
        for gated in users(model, active.output[0], "Mul"):
            for product in users(model, gated.output[0], "Mul"):
                yield active.output[0], partial(exchange, active, gated, product)


def head_sees_future(model: Model) -> Iterator[Site]:
    def unmask(softmax: Node, add: Node) -> None:
        types = {each.name: each.type.tensor_type for each in model.graph.value_info}
        heads, number = (types[softmax.output[0]].shape.dim[1].dim_value, types[softmax.output[0]].elem_type)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(number)
        others = new_constant(model, (np.arange(heads) > 0).reshape(1, -1, 1, 1))
        zero = new_constant(model, np.zeros((), dtype))
        add.input[1] = insert(model, add, "Where", [others, add.input[1], zero])

    for softmax, add in attentions(model):
        yield softmax.output[0], partial(unmask, softmax, add)


def attention_scale(model: Model) -> Iterator[Site]:
    def enlarge(add: Node) -> None:
        scores = producer(model, add.input[0])
        types = {each.name: each.type.tensor_type.elem_type for each in model.graph.value_info}
        factor = np.array(1.05, onnx.helper.tensor_dtype_to_np_dtype(types[scores.output[0]]))
        set_edge(add, 0, insert(model, add, "Mul", [add.input[0], new_constant(model, factor)]))

    for softmax, add in attentions(model):
        yield softmax.output[0], partial(enlarge, add)


def rotary_base(model: Model) -> Iterator[Site]:
    for cosine in nodes(model, "Cos"):
        name = frequencies(model, cosine.input[0])
        value = constant(model, name)
        exponents = np.arange(value.size).reshape(value.shape) / value.size
        yield name, partial(set_constant, model, name, value * 1.1**-exponents)


def frequencies(model: Model, name: str) -> str | None:
    """The initializer of several floats that a value is computed from."""
    value = constant(model, name)
    if value is not None:
        return name if value.size > 1 and value.dtype.kind == "f" else None
    node = producer(model, name)
    found = (frequencies(model, source) for source in (node.input if node is not None else ()))
    return next((each for each in found if each is not None), None)


PLANTED: Mapping[str, tuple[Kind, int]] = {
    "gate and up are exchanged": (gate_up, -1),
    "a head sees the future": (head_sees_future, -1),
    "attention is scaled by 1.05": (attention_scale, -1),
    "the rotary base is 10 % larger": (rotary_base, 0),
    "a layer has no mask": (KINDS["mask one layer"], -1),
    "the mask is that of the next token": (KINDS["mask shifted"], 0),
    "no token sees itself": (KINDS["causal mask"], 1),
    "a past key is ignored": (KINDS["past ignored"], -2),
    "the past of another layer": (KINDS["past of another layer"], 0),
    "the cache of another layer": (KINDS["present wrong"], 0),
    "the new key comes first": (KINDS["present stale"], 1),
    "positions are clipped at 30": (KINDS["position_ids ignored"], 3),
    "epsilon is 100 times larger": (KINDS["eps"], -1),
    "a norm is left out": (KINDS["normalization"], 1),
    "softmax over another axis": (KINDS["softmax axis"], 0),
    "another activation": (KINDS["gelu form"], -1),
    "heads of keys are tiled": (KINDS["kv heads"], -1),
    "halves are not negated": (KINDS["rope"], 0),
    "the window is larger by one": (KINDS["sliding window"], 0),
    "logits are 1 % larger": (KINDS["logits shifted"], -1),
}
"""A fault -> its kind, and which of its sites."""

WITHOUT: Mapping[str, tuple[str, ...]] = {
    "llama": ("the window is larger by one",),
    "mistral": (),
    "gpt2": (
        *("gate and up are exchanged", "the rotary base is 10 % larger", "heads of keys are tiled"),
        *("halves are not negated", "the window is larger by one"),
    ),
}
"""A tiny decoder -> the faults that have no site in it."""
