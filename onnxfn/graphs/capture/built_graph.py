"""The graph of a part, and what is known about it: how many fused operators it should have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from onnxfn.graphs.layers.repeated_layers import LayerStack
from onnxfn.graphs.translations.lowering import operator_name
from onnxfn.specs.axis_symbols import Limit
from onnxfn.specs.converters import as_tuple

ExpectedOperators = tuple[tuple[str, str], ...]
"""Pairs of an ONNX operator and the path of the module that it comes from."""

OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "aten::scaled_dot_product_attention": "Attention",
        "aten::rms_norm": "RMSNormalization",
        "aten::layer_norm": "LayerNormalization",
        "aten::gelu": "Gelu",
    }
)
"""Operator of torch -> ONNX operator that computes the same."""

MODULES: Mapping[str, str] = MappingProxyType({"RMSNorm": "RMSNormalization", "RotaryEmbedding": "RotaryEmbedding"})
"""Suffix of a module's class name -> ONNX operator that the module, or what reads its output, can become."""

REQUIRED_CALLS: Mapping[str, tuple[str, ...]] = MappingProxyType({"RotaryEmbedding": ("aten::cos",)})
"""ONNX operator -> operators of torch, one of which the module must call: some rotary modules compute no cosine."""


def expected_operators(program: Any) -> ExpectedOperators:
    """The fused operators that the ONNX graph of an exported program should have, before it is lowered.

    One for each call of an operator in `OPERATORS`, and one for each module of a class in `MODULES`.
    """
    calls = [node for node in _live_nodes(program.graph_module.graph) if node.op == "call_function"]
    from_calls = ((kind, _module_path(node)) for node in calls if (kind := OPERATORS.get(_operator(node))))
    from_modules = {path: kind for node in calls for path, kind in _modules(node)}
    return (*from_calls, *((kind, path) for path, kind in from_modules.items()))


def expected_of_all_layers(operators: ExpectedOperators, stack: LayerStack) -> ExpectedOperators:
    """The operators expected of all layers of a stack, from those expected of its traced layers."""
    start = stack.head + stack.period
    period = [
        (kind, path) for kind, path in operators if (stack.layer_index(path) or 0) in range(start, start + stack.period)
    ]
    shifts = range(stack.period, stack.layers - stack.traced_layers + 1, stack.period)
    return (*operators, *((kind, stack.shifted(path, shift)) for shift in shifts for kind, path in period))


def _operator(node: Any) -> str:
    """`aten::rms_norm` for a node that calls any overload of it."""
    return operator_name(node).partition(".")[0]


def _module_path(node: Any) -> str:
    """The path in the model of the module that called a node."""
    stack = node.meta.get("nn_module_stack") or {}
    return _path_in_model(next((path for path, _ in reversed(stack.values())), ""))


def _path_in_model(path: str) -> str:
    """A path in the model, from one in the traced module, which has the model as an attribute."""
    return path.partition(".")[2]


def _live_nodes(graph: Any) -> list[Any]:
    """The nodes that an output depends on, in order."""
    live: set[Any] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in live:
            live.update((node, *node.all_input_nodes))
    return [node for node in graph.nodes if node in live]


def _modules(node: Any) -> Iterator[tuple[str, str]]:
    """Path and ONNX operator of the modules in `MODULES` that called a node.

    None for a call in `OPERATORS`, which is counted already: some norms are a single call of torch's own.
    """
    call = _operator(node)
    if call in OPERATORS:
        return
    for path, module_class in (node.meta.get("nn_module_stack") or {}).values():
        name = module_class if isinstance(module_class, str) else module_class.__name__
        kind = next((kind for suffix, kind in MODULES.items() if name.endswith(suffix)), None)
        if kind is not None and call in REQUIRED_CALLS.get(kind, (call,)):
            yield _path_in_model(path), kind


def _pairs(values: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(map(tuple, values))


@frozen(kw_only=True, eq=False)
class BuiltGraph:
    """The graph of a part, and what is known about it.

    Attributes:
        model: The graph, an `onnx_ir.Model`. Passes change it.
        limits: The limits that the model's own branches set to the sizes of dynamic axes.
        expected: The fused operators that the graph should have.
        unused_patches: The patches of the user that the trace did not call.
        traced_layers: Which layers were traced and repeated, or why all were; "" for a model without repeated layers.
        from_repeats: Whether layers were repeated, so that fewer were traced than the graph has.
        template: The name of its template in the cache; None if it has none.
        from_template: Whether it was loaded from its template, so that nothing was traced.
        not_quantized: `(name, reason)` of each weight that a rule selects and that stays as it is.
        stored: The names of the parameters that are stored as in a quantized checkpoint.
    """

    model: Any
    limits: tuple[Limit, ...] = field(default=(), converter=as_tuple)
    expected: ExpectedOperators = field(default=(), converter=_pairs)
    unused_patches: tuple[str, ...] = field(default=(), converter=as_tuple)
    traced_layers: str = ""
    from_repeats: bool = False
    template: str | None = None
    from_template: bool = False
    not_quantized: tuple[tuple[str, str], ...] = ()
    stored: tuple[str, ...] = ()
