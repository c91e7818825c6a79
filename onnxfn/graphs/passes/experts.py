"""Experts as small operators, where no kernel of QMoE reads their codes."""

from collections.abc import Callable
from typing import Any

from onnxfn.graphs.passes.definitions import define_operators

KERNELS = ((4, 0), (4, 1), (4, 4), (8, 4))
"""The bits and the accuracy levels of QMoE: 2 bits are turned into floats at each run, 8 always round activations."""


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
    if rule != other or not rule.symmetric or (rule.bits, rule.accuracy_level) not in KERNELS:
        return False
    return not any(value.shape[-1] % rule.block_size for value, _ in pairs)
