"""Passes that make a graph smaller without changing what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np

INPUT_LIMIT, OUTPUT_LIMIT = 8192, 512 * 512
"""Elements up to which constants are folded."""


def simplify(model: Any) -> Any:
    """Before: a translated graph. After: the same function with constants folded and equal subexpressions shared.

    A `Resize` of constants stays, as onnxscript folds it with onnx's reference evaluator in minutes.
    """
    from onnx_ir.passes import PassManager, Sequential, common
    from onnxscript.optimizer._constant_folding import FoldConstantsPass
    from onnxscript.rewriter import RewritePass

    fold = FoldConstantsPass(
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
    with np.errstate(all="ignore"):  # a constant that is not finite is the model's own business
        passes(model)
    return model


def _rules() -> list[Any]:
    """The rules of onnxscript but two kinds.

    Those with several outputs, for which it tries each pair of nodes of the graph; and those that drop `+ 0` and `* 1`,
    for which it takes `+ 1e-8` too: the epsilon of a norm (helium).
    """
    from onnxscript import rewriter
    from onnxscript.rewriter.rules.common import _no_op

    near = {id(rule) for rule in _no_op.rules}
    single = (rule for rule in rewriter._DEFAULT_REWRITE_RULES if rule._target_pattern.has_single_output_node)
    return [rule for rule in single if id(rule) not in near]
