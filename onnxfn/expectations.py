"""What of a traced model could be one operator each: how many norms, rotations, attentions and so on it calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

EXPECTED = "onnxfn.expected"
"""Where a captured graph's `meta` keeps how often each operator of ONNX is expected in it."""

OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "aten::scaled_dot_product_attention": "Attention",
        "aten::rms_norm": "RMSNormalization",
        "aten::layer_norm": "LayerNormalization",
        "aten::gelu": "Gelu",
    }
)
"""An operator of torch -> the one operator of ONNX that says it."""

MODULES: Mapping[str, str] = MappingProxyType({"RMSNorm": "RMSNormalization", "RotaryEmbedding": "RotaryEmbedding"})
"""How the class of a module ends -> the operator of ONNX that it, or what reads what it gives, comes to."""

CALLED_IN: Mapping[str, tuple[str, ...]] = MappingProxyType({"RotaryEmbedding": ("aten::cos",)})
"""What a module of a kind calls when it is said as the operator says it: not all have cosines."""


def expected(program: Any) -> Mapping[str, int]:
    """How often each operator is expected: calls of torch's own, and modules of a kind; as the program was traced."""
    calls = [node for node in _alive(program.graph_module.graph) if node.op == "call_function"]
    by_call = (OPERATORS.get(_name(node).partition(".")[0]) for node in calls)
    by_module = {path: kind for node in calls for path, kind in _modules(node)}
    return MappingProxyType(Counter((*(one for one in by_call if one), *by_module.values())))


def _alive(graph: Any) -> list[Any]:
    """The nodes that an output comes from, in order."""
    alive: set[Any] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in alive:
            alive.update((node, *node.all_input_nodes))
    return [node for node in graph.nodes if node in alive]


def _modules(node: Any) -> Iterator[tuple[str, str]]:
    """The modules of a kind that a node was called in; a norm that is one call of torch's own is counted as that."""
    call = _name(node).partition(".")[0]
    if call in OPERATORS:
        return
    for path, called in (node.meta.get("nn_module_stack") or {}).values():
        name = called if isinstance(called, str) else called.__name__
        kind = next((kind for ending, kind in MODULES.items() if name.endswith(ending)), None)
        if kind is not None and call in CALLED_IN.get(kind, (call,)):
            yield path, kind


def _name(node: Any) -> str:
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else str(node.target)
