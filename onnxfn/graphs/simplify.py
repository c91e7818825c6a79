"""Passes that make a graph smaller without changing what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np

INPUT_LIMIT, OUTPUT_LIMIT = 8192, 512 * 512
"""Elements up to which constants are folded; a weight that is only transposed is folded whatever its size."""

SMALL = 1024
"""Elements up to which a folded copy of a shared weight costs nothing."""


def simplified(model: Any) -> Any:
    """Before: a translated graph. After: the same function with constants folded and equal subexpressions shared.

    Left as they are: a `Resize` of constants, which onnxscript folds with onnx's reference evaluator in minutes, and
    what turns a weight that is also used as it stands (a tied embedding), which would be stored twice.
    """
    from onnx_ir.passes import PassManager, Sequential, common
    from onnxscript.optimizer._constant_folding import FoldConstantsPass
    from onnxscript.rewriter import RewritePass

    fold = FoldConstantsPass(
        shape_inference=True,
        input_size_limit=INPUT_LIMIT,
        output_size_limit=OUTPUT_LIMIT,
        should_fold=lambda node: False if _kept(node) else None,
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


def _kept(node: Any) -> bool:
    if node.op_type == "Resize":
        return True
    weights = [value for value in node.inputs if value is not None and value.is_initializer()]
    return any(len(value.uses()) > 1 and value.const_value.size > SMALL for value in weights)


def shared(model: Any) -> Any:
    """Before: initializers may stand for one tensor several times (tied weights). After: each tensor is there once.

    Two initializers are one when they look at the same memory in the same way; their values are not compared.
    """
    first: dict[Any, Any] = {}
    for name, value in list(model.graph.initializers.items()):
        key = _memory(value.const_value)
        kept = first.setdefault(key, value) if key is not None else value
        if kept is not value:
            value.replace_all_uses_with(kept)
            del model.graph.initializers[name]
    return model


def converted(model: Any, opset: int) -> Any:
    """Before: a graph in the opset of the translation. After: the same function in the asked opset."""
    from onnxscript.version_converter import convert_version

    if model.opset_imports.get("") != opset:
        convert_version(model, opset, fallback=True)
    return model


def _memory(tensor: Any) -> Any:
    raw: Any = getattr(tensor, "raw", None)
    if not hasattr(raw, "untyped_storage"):
        return None
    return (raw.data_ptr(), tuple(raw.shape), tuple(raw.stride()), raw.dtype) if raw.numel() else None
