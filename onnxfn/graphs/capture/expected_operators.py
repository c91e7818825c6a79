"""What of a traced model could be one operator each: how many norms, rotations, attentions and so on it calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.capture.repeated_layers import LayerStack

EXPECTED_OPERATORS = "onnxfn.expected_operators"
"""Where a captured graph's `meta` keeps which operators of ONNX are expected in it."""

ExpectedOperators = tuple[tuple[str, str], ...]
"""Operators that are expected, each with the module that it is of."""

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


def expected_operators(program: Any) -> ExpectedOperators:
    """What is expected of a graph: calls of torch's own, and modules of a kind; as the program was traced."""
    calls = [node for node in _alive(program.graph_module.graph) if node.op == "call_function"]
    by_call = ((kind, _path(node)) for node in calls if (kind := OPERATORS.get(_name(node).partition(".")[0])))
    by_module = {path: kind for node in calls for path, kind in _modules(node)}
    return (*by_call, *((kind, path) for path, kind in by_module.items()))


def expected_of_all_layers(told: ExpectedOperators, stack: LayerStack) -> ExpectedOperators:
    """What is expected of all layers, where this is of those that tell all."""
    start = stack.head + stack.period
    again = [
        (kind, path) for kind, path in told if (stack.layer_index(path) or 0) in range(start, start + stack.period)
    ]
    shifts = range(stack.period, stack.layers - stack.traced_layers + 1, stack.period)
    return (*told, *((kind, stack.shifted(path, shift)) for shift in shifts for kind, path in again))


def _path(node: Any) -> str:
    """The module that a node was called in."""
    stack = node.meta.get("nn_module_stack") or {}
    return _inside(next((path for path, _ in reversed(stack.values())), ""))


def _inside(path: str) -> str:
    """A path in the model, of one in the module that is traced."""
    return path.partition(".")[2]


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
            yield _inside(path), kind


def _name(node: Any) -> str:
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else str(node.target)
