"""Experts as one operator: their weights in the order of its kernel; small operators for other codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from onnxfn.graphs.nodes import nodes
from onnxfn.graphs.nodes.slots import SLOT, slot_of
from onnxfn.graphs.passes.definitions import add_body

MATRICES = (2, 4)
"""The inputs of MoE that hold the matrices of experts."""

BITS = (4, 8)
"""The bits of codes for which the kernel of QMoE does not turn them all into floats at each run."""

IN_TURN = ".in_turn"
"""How the name of a weight ends whose halves alternate."""


def is_experts(node: Any) -> bool:
    """Whether a node computes experts by one operator."""
    return node.domain == nodes.DOMAIN and node.op_type in ("MoE", "QMoE")


def alternate_rows(model: Any) -> Any:
    """Puts the rows of gate and up of experts in turn.

    Before: MoE nodes read the rows of gate and then those of up (`swiglu_fusion` 2), which the kernel on a CPU refuses.
    After: the rows alternate (1), in the slot of a weight, else by nodes.
    """
    import onnx_ir

    for node in list(model.graph.all_nodes()):
        if is_experts(node) and nodes.attribute(node, "swiglu_fusion") != 1:
            node.attributes["swiglu_fusion"] = onnx_ir.AttrInt64("swiglu_fusion", 1)
            for index, value in [(at, node.inputs[at]) for at in (2, 3) if node.inputs[at] is not None]:
                _alternate(node, index, value)
    return model


def _alternate(node: Any, index: int, value: Any) -> None:
    slot = slot_of(value)
    if slot is not None:
        value.meta[SLOT] = evolve(slot, in_turn=True)
        value.name = f"{value.name.removesuffix(IN_TURN)}{IN_TURN}"
        return
    count, rows, *rest = nodes.shape_of(value)
    sizes = (count, 2, rows // 2, *rest)
    halves = nodes.insert_value(node, "Reshape", [value, nodes.int_constant(node.graph, *sizes)], value, sizes)
    sizes, perm = (count, rows // 2, 2, *rest), [0, 2, 1, *range(3, 3 + len(rest))]
    turned = nodes.insert_value(node, "Transpose", [halves], value, sizes, perm=perm)
    shape = nodes.int_constant(node.graph, count, rows, *rest)
    node.replace_input_with(index, nodes.insert_value(node, "Reshape", [turned, shape], value, value.shape))


def expand_experts(model: Any, rule_of: Callable[[Any], Any]) -> Any:
    """Replaces the experts by small operators whose weights are to be quantized as no kernel of QMoE reads them.

    `rule_of`: the rule that quantizes a weight, if any. After: the rules of both matrices of each MoE fit a QMoE.
    """
    from onnx_ir.passes import common

    for node in [each for each in model.graph.all_nodes() if is_experts(each)]:
        values = [node.inputs[index] for index in MATRICES]
        if not _fits(values, [rule_of(value) for value in values]):
            node.overload = "expanded"
            add_body(model, node)
    return common.InlinePass()(model).model


def _fits(values: Any, rules: Any) -> bool:
    rule, other = rules
    if rule is None or other is None or rule.kind != "blocks":
        return all(each is None or each.kind == "as is" for each in rules)
    widths = [value.shape[-1] % rule.block_size for value in values]
    return rule == other and rule.symmetric and rule.bits in BITS and not any(widths)
