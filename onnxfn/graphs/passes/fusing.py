"""Passes that say in one operator what a graph says in many, where the opset has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.capture.expected_operators import EXPECTED_OPERATORS
from onnxfn.graphs.passes.attention import attended
from onnxfn.graphs.passes.gelu import activated
from onnxfn.graphs.passes.masks import plain_masks
from onnxfn.graphs.passes.nodes import dims, number
from onnxfn.graphs.passes.norms import divided, normalized
from onnxfn.graphs.passes.onnxruntime_operators import DOMAIN, biased, skipped, unread
from onnxfn.graphs.passes.opsets import ATTENTION_OPSET, SINCE
from onnxfn.graphs.passes.rotary import rotated
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, unknown
from onnxfn.specs.reports import Fusion

STANDARD, ONNXRUNTIME = "standard", "onnxruntime"
STANDS_FOR: Mapping[str, str] = MappingProxyType(
    {
        "SkipSimplifiedLayerNormalization": "RMSNormalization",
        "SkipLayerNormalization": "LayerNormalization",
        "BiasGelu": "Gelu",
        "FastGelu": "Gelu",
    }
)
"""An operator of ONNX Runtime's own -> the standard one that it does the work of."""

IDLE: Mapping[str, float | None] = MappingProxyType({"Reshape": None, "Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0})
"""An operator -> the number by which it changes nothing, or None when that is for its shape to say."""


def fuse_operators(model: Any, fuse: str = STANDARD) -> Any:
    """Before: a simplified graph, converted to its opset. After: the same function in the largest operators it has.

    With `fuse="onnxruntime"` that includes operators which nothing else understands; it needs opset 23, InvalidSpec
    below. No value of a weight is read.
    """
    from onnx_ir.passes import common

    opset = model.opset_imports.get("", 0)
    check_fuse_option(opset, fuse)
    unused = common.RemoveUnusedNodesPass()
    for one in (without_idle, *_passes(opset, fuse)):
        unused(one(model))  # what nobody reads any more would still count as a reader of what it reads
    model.graph.sort()
    return unread(common.NameFixPass()(model).model)


def check_fuse_option(opset: int, fuse: str) -> None:
    """Raise UnknownName for a way to fuse that there is not, InvalidSpec for one that the opset does not have."""
    if fuse not in (STANDARD, ONNXRUNTIME):
        raise unknown("way to fuse", fuse, (STANDARD, ONNXRUNTIME))
    if fuse == ONNXRUNTIME and opset < ATTENTION_OPSET:
        raise InvalidSpec(
            f"fuse={fuse!r} builds on opset {ATTENTION_OPSET} and the spec says {opset}; "
            f"use with_opset(spec, {ATTENTION_OPSET})"
        )


def _passes(opset: int, fuse: str) -> tuple[Callable[[Any], Any], ...]:
    modern = (rotated, attended, plain_masks) if opset >= ATTENTION_OPSET else ()
    gelus = (activated,) if opset >= SINCE["Gelu"] else ()
    return (normalized, divided, *modern, *gelus, *((skipped, biased, _imported) if fuse == ONNXRUNTIME else ()))


def _imported(model: Any) -> Any:
    """After: the graph says that it has operators of ONNX Runtime's own, if it has."""
    if any(node.domain == DOMAIN for node in model.graph):
        model.opset_imports[DOMAIN] = 1
    return model


def without_idle(model: Any) -> Any:
    """After: no node gives a tensor the shape that it has, adds nothing to it, or multiplies it by exactly one."""
    for node in list(model.graph):
        taken = _unchanged(node)
        if taken is not None and taken.dtype == node.outputs[0].dtype and not node.outputs[0].is_graph_output():
            sizes = dims(taken)
            if sizes and None not in sizes and sizes == dims(node.outputs[0]):
                node.outputs[0].replace_all_uses_with(taken)
    return model


def _unchanged(node: Any) -> Any:
    """What a node passes through, its shape aside."""
    if node.op_type not in IDLE or node.domain:
        return None
    neutral = IDLE[node.op_type]
    if neutral is None or number(node.inputs[1]) == neutral:
        return node.inputs[0]
    return node.inputs[1] if node.op_type in ("Add", "Mul") and number(node.inputs[0]) == neutral else None


def operator_counts(model: Any) -> Mapping[str, int]:
    """How often each operator that stands for many is in a graph, in what it holds too."""
    kinds = (STANDS_FOR.get(node.op_type, node.op_type) for node in model.graph.all_nodes())
    return Counter(kind for kind in kinds if kind in SINCE)


def fusions(model: Any) -> tuple[Fusion, ...]:
    """What was expected of a graph and what is found in it, for each operator that its opset has.

    CaptureFailed when there is none of one that was expected.
    """
    found, opset = operator_counts(model), model.opset_imports.get("", 0)
    told = Counter(kind for kind, _ in model.meta.get(EXPECTED_OPERATORS, ()))
    made = tuple(
        Fusion(kind, told.get(kind, 0), found.get(kind, 0))
        for kind, since in SINCE.items()
        if opset >= since and (told.get(kind) or found.get(kind))
    )
    missing = [f"{one.operator} ({one.expected} expected)" for one in made if one.expected and not one.actual]
    if missing:
        raise CaptureFailed(f"found none of: {', '.join(missing)}; choose an opset that lacks it, such as 18")
    return made
