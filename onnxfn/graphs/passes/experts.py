"""Experts as small operators, where no kernel of QMoE reads their codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxfn.graphs.passes.definitions import define_operators


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
