"""Experts as one operator: their weights in the order of its kernel; small operators for other codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from onnxfn.graphs.nodes.slots import SLOT, slot_of
from onnxfn.graphs.passes.definitions import define_operators

IN_TURN = ".in_turn"
"""How the name of a weight ends whose halves alternate."""


def put_in_turn(model: Any) -> Any:
    """Lets experts read a slot whose halves alternate, where nodes put these in turn and nothing else reads the slot.

    Before: a Reshape, a Transpose and a Reshape are before the first matrix of each MoE.
    """
    for node in [each for each in model.graph.all_nodes() if each.op_type == "MoE"]:
        value, chain = node.inputs[2], list[Any]()
        while value.producer() is not None and len(value.uses()) == 1:
            chain.append(value.producer())
            value = chain[-1].inputs[0]
        names = [each.op_type for each in chain]
        if names == ["Reshape", "Transpose", "Reshape"] and slot_of(value) is not None and len(value.uses()) == 1:
            value.meta[SLOT], value.name = evolve(value.meta[SLOT], in_turn=True), f"{value.name}{IN_TURN}"
            node.replace_input_with(2, value)
            model.graph.remove(chain, safe=True)
    return model


def expand_experts(model: Any, rule_of: Callable[[Any], Any]) -> Any:
    """Replaces experts by small operators where `rule_of` gives a matrix a rule whose codes no kernel of QMoE reads."""
    from onnx_ir.passes import common

    nodes = [each for each in model.graph.all_nodes() if each.op_type == "MoE"]
    pairs = [[(value, rule_of(value)) for value in (node.inputs[2], node.inputs[4])] for node in nodes]
    if all(map(_is_for_kernel, pairs)):
        return model
    return common.InlinePass(lambda function: function.name == "MoE")(define_operators(model)).model


def _is_for_kernel(pairs: Any) -> bool:
    """Whether no matrix of experts gets blocks, or both get blocks that a kernel reads without a copy as floats."""
    (_, rule), (_, other) = pairs
    if all(each is None or each.kind != "blocks" for each in (rule, other)):
        return True
    is_one_rule = rule == other and rule.symmetric and rule.bits in (4, 8)
    return is_one_rule and not any(value.shape[-1] % rule.block_size for value, _ in pairs)
