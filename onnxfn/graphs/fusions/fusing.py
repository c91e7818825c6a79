"""Fuses the operators of a graph, and counts the fused operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.capture.built_graph import BuiltGraph
from onnxfn.graphs.fusions.attention import fuse_attention
from onnxfn.graphs.fusions.expands import drop_expands
from onnxfn.graphs.fusions.gelu import fuse_gelu
from onnxfn.graphs.fusions.masks import simplify_masks
from onnxfn.graphs.fusions.norms import fold_reciprocal, fuse_norms
from onnxfn.graphs.fusions.rotary import fuse_rotary
from onnxfn.graphs.fusions.zero_states import drop_zero_states
from onnxfn.graphs.nodes.constants import scalar
from onnxfn.graphs.nodes.shapes import shape_of
from onnxfn.graphs.passes.opsets import ATTENTION_OPSET, SINCE
from onnxfn.specs.stored.reports import Fusion

STANDARD_OPERATOR: Mapping[str, str] = MappingProxyType({"GroupQueryAttention": "Attention"})
"""An operator of ONNX Runtime -> the standard operator that is a part of it."""

NEUTRAL: Mapping[str, float | None] = MappingProxyType(
    {"Reshape": None, "Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}
)
"""An operator -> the operand that changes nothing; None if any second input may change nothing."""


def fuse_operators(model: Any) -> Any:
    """Fuses the nodes of a graph into the largest operators that its opset has.

    Before: a simplified graph, converted to its opset.
    After: the same function in fewer nodes. No weight is read.

    Args:
        model: the graph, which is changed.
    """
    from onnx_ir.passes import common

    opset = model.opset_imports.get("", 0)
    remove_unused = common.RemoveUnusedNodesPass()
    for fuse_pass in (drop_neutral_nodes, drop_expands, drop_zero_states, *_passes(opset)):
        remove_unused(fuse_pass(model))  # an unused node still counts as a consumer of its inputs
    model.graph.sort()
    return common.NameFixPass()(model).model


def _passes(opset: int) -> tuple[Callable[[Any], Any], ...]:
    """The passes for an opset, in their order."""
    attention = (fuse_rotary, fuse_attention, simplify_masks) if opset >= ATTENTION_OPSET else ()
    gelu = (fuse_gelu,) if opset >= SINCE["Gelu"] else ()
    return (fuse_norms, fold_reciprocal, *attention, *gelu)


def drop_neutral_nodes(model: Any) -> Any:
    """Removes nodes that output their input unchanged.

    Before: a simplified graph.
    After: no node reshapes a tensor to the shape that it has, adds zero to it, subtracts zero from it, or multiplies or
    divides it by exactly one, unless the result is an output of the graph.
    """
    for node in list(model.graph):
        source, output = _unchanged_input(node), node.outputs[0]
        if source is not None and source.dtype == output.dtype and not output.is_graph_output():
            sizes = shape_of(source)
            if sizes and None not in sizes and sizes == shape_of(output):
                output.replace_all_uses_with(source)
    return model


def _unchanged_input(node: Any) -> Any:
    """The input that a node outputs unchanged, except for its shape and dtype; None if it changes all inputs."""
    if node.op_type not in NEUTRAL or node.domain:
        return None
    neutral = NEUTRAL[node.op_type]
    if neutral is None or scalar(node.inputs[1]) == neutral:
        return node.inputs[0]
    return node.inputs[1] if node.op_type in ("Add", "Mul") and scalar(node.inputs[0]) == neutral else None


def operator_counts(model: Any) -> Mapping[str, int]:
    """How often each fused operator is in a graph and its subgraphs, under its standard name."""
    operators = (STANDARD_OPERATOR.get(node.op_type, node.op_type) for node in model.graph.all_nodes())
    return Counter(operator for operator in operators if operator in SINCE)


def fusions(graph: BuiltGraph) -> tuple[Fusion, ...]:
    """The expected and the actual number of each fused operator that the opset of a graph has."""
    counts, opset = operator_counts(graph.model), graph.model.opset_imports.get("", 0)
    expected = Counter(operator for operator, _ in graph.expected)
    return tuple(
        Fusion(operator, expected.get(operator, 0), counts.get(operator, 0))
        for operator, since in SINCE.items()
        if opset >= since and (expected.get(operator) or counts.get(operator))
    )


def fusion_remarks(part: str, graph: BuiltGraph) -> tuple[str, ...]:
    """A line for each operator that is expected in the graph of a part and is not there: smaller ones compute it."""
    return tuple(
        f"{part}: no {row.operator} ({row.expected} expected); the graph computes it from smaller operators"
        for row in fusions(graph)
        if row.expected and not row.actual
    )
