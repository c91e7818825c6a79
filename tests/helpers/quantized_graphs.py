"""Small graphs whose weights are slots, for passes that quantize them."""

import numpy as np
from small_graphs import graph_from_text, noise

from onnxfn.graphs.nodes.slots import SLOT, Slot

GRAPHS = {
    "product": ("float[n,40] x, float[40,48] w", "y = MatMul(x, w)", {"w": (40, 48)}),
    "transposed": ("float[n,40] x, float[48,40] w", "t = Transpose(w) y = MatMul(x, t)", {"w": (48, 40)}),
    "Gemm": ("float[n,40] x, float[48,40] w, float[48] b", "y = Gemm<transB=1>(x, w, b)", {"w": (48, 40), "b": (48,)}),
    "Gemm of a Conv1D": (
        "float[n,40] x, float[40,48] w, float[48] b",
        "y = Gemm(x, w, b)",
        {"w": (40, 48), "b": (48,)},
    ),
    "lookup": ("int64[n] ids, float[48,40] w", "y = Gather(w, ids)", {"w": (48, 40)}),
    "tied": ("int64[n] ids, float[48,40] w", "e = Gather(w, ids) t = Transpose(w) y = MatMul(e, t)", {"w": (48, 40)}),
    "experts": ("int64[n,1] ids, float[8,12,40] w", "y = GatherND(w, ids)", {"w": (8, 12, 40)}),
    "branches": (
        "float[n,40] x, bool[1] c, float[40,48] w",
        (
            "y = If(c) <then_branch = t () => (float[n,48] a) { a = MatMul(x, w) }, "
            "else_branch = e () => (float[n,48] b) { m = MatMul(x, w) b = Neg(m) }>"
        ),
        {"w": (40, 48)},
    ),
}
"""Inputs and weights, nodes, and the shapes of the weights. 40 is no multiple of a block."""

FEEDS = {"x": noise(5, 40, seed=1), "ids": np.array([0, 3, 3, 7]), "c": np.array([False])}


def slotted(name, opset=23):
    inputs, nodes, weights = GRAPHS[name]
    shape = {"lookup": "float[n,40]", "tied": "float[n,48]", "experts": "float[n,12,40]"}.get(name, "float[n,48]")
    model = graph_from_text(f"g ({inputs}) => ({shape} y) {{ {nodes} }}", opset)
    for value in [value for value in model.graph.inputs if value.name in weights]:
        model.graph.inputs.remove(value)
        value.meta[SLOT] = Slot(value.name)
        model.graph.initializers.add(value)
    feeds = {value.name: FEEDS[value.name] for value in model.graph.inputs}
    if name == "experts":
        feeds["ids"] = feeds["ids"][:, None]
    return model, feeds
