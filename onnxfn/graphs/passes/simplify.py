"""The pass that simplifies a graph with the passes of onnx_ir and onnxscript."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from onnxfn.architectures.private.onnxscript_names import onnxscript_name
from onnxfn.graphs.nodes.pass_errors import pass_errors

INPUT_LIMIT, OUTPUT_LIMIT = 8192, 512 * 512
"""The most elements of the inputs and of the output of a node that is folded to a constant."""


def simplify(model: Any) -> Any:
    """Simplifies a graph.

    Before: a graph as torch translates it.
    After: the same function; constants are folded, equal nodes are merged,
    functions are inlined, unused nodes are removed, and all values have different names.

    A Resize of constants is not folded: the reference evaluator of onnx takes minutes for it.

    Raises:
        CaptureFailed: one of the passes fails.
    """
    from onnx_ir.passes import PassManager, Sequential, common
    from onnxscript.rewriter import RewritePass

    fold = onnxscript_name("FoldConstantsPass")(
        shape_inference=True,
        input_size_limit=INPUT_LIMIT,
        output_size_limit=OUTPUT_LIMIT,
        should_fold=lambda node: False if node.op_type == "Resize" else None,
    )
    rounds = PassManager([fold, RewritePass(_rules()), common.RemoveUnusedNodesPass()], steps=2, early_stop=True)
    passes = Sequential(
        common.InlinePass(),
        rounds,
        common.RemoveUnusedFunctionsPass(),
        common.RemoveUnusedOpsetsPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.LiftSubgraphInitializersToMainGraphPass(),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.RemoveUnusedNodesPass(),
        common.OutputFixPass(),
        common.NameFixPass(),
    )
    with pass_errors("the simplification"), np.errstate(all="ignore"):  # a model may have constants that are not finite
        passes(model)
    return model


def _rules() -> list[Any]:
    """The default rules of onnxscript without two kinds.

    Rules with several outputs are slow: onnxscript tries each pair of nodes. Rules that remove `+ 0` and `* 1` also
    remove `+ 1e-8`, which is the epsilon of a norm (helium).
    """
    no_op = {id(rule) for rule in onnxscript_name("no_op_rules")}
    single = (rule for rule in onnxscript_name("default_rules") if rule._target_pattern.has_single_output_node)
    return [_only_for_its_operator(rule) for rule in single if id(rule) not in no_op]


def _only_for_its_operator(rule: Any) -> Any:
    """A rule that looks at no node but those of the operator that its pattern ends with: a fiftieth of all."""
    operator = rule._target_pattern.output_node.op_identifier()
    if operator is None:
        return rule
    quick = copy(rule)
    quick.try_rewrite = lambda model, graph, node, **options: (
        rule.try_rewrite(model, graph, node, **options) if node.op_identifier() == operator else None
    )
    return quick
