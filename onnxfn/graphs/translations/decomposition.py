"""Replaces the operators of an exported program that have no translation by those that torch computes them from.

torch does this by a second trace of the whole program (`run_decompositions`), which costs as much as the first, and
much more where sizes are dynamic. Here each operator is traced alone, on the fake tensors of the first trace.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.translations.program_nodes import has_translation
from onnxfn.graphs.translations.registry import decompositions


def decompose_in_place(graph: Any, nodes: Sequence[Any], registry: Any) -> bool:
    """Replaces nodes of a program's graph by nodes that compute the same; returns whether it could.

    Args:
        graph: The `torch.fx.Graph`. It is changed.
        nodes: The nodes to replace. None of them writes into memory.
        registry: Torch's table of translations: an operator in it is not decomposed.
    """
    untranslated = set(nodes)
    sizes: dict[Any, Any] = {}
    for node in list(graph.nodes):
        if node in untranslated:
            traced = _trace(node)
            if traced is None or not all(_can_be_inlined(inner, registry) for inner in traced.nodes):
                return False
            _inline(graph, node, traced, sizes)
        elif (size := _size(node)) is not None:
            sizes.setdefault(size, node)
    return True


def _trace(node: Any) -> Any:
    """The graph of an operator on fake tensors of its inputs' sizes; None if torch has no decomposition of it.

    Its placeholders are the nodes that the operator reads, in their order.
    """
    from torch.fx import map_arg

    inputs = node.all_input_nodes
    values = [input_.meta.get("val") for input_ in inputs]
    mode = torch_name("fake_mode_of")(values)
    if mode is None or any(value is None for value in values):
        return None

    def call(*arguments: Any) -> Any:
        known = dict(zip(inputs, arguments, strict=True))
        return node.target(*map_arg(node.args, known.__getitem__), **map_arg(node.kwargs, known.__getitem__))

    options = {"decomposition_table": decompositions(), "tracing_mode": "real", "_allow_non_fake_inputs": True}
    trace = torch_name("make_fx")(call, **options)
    try:
        with mode, torch_name("python_dispatcher")():  # torch's own formulas in C++ refuse dynamic sizes
            return trace(*values).graph
    except Exception:  # noqa: BLE001 - whatever torch cannot trace alone, it may trace with the whole program
        return None


def _can_be_inlined(node: Any, registry: Any) -> bool:
    """Whether a node of a traced operator has a translation, and reads no constant of that trace."""
    return has_translation(node, registry) if node.op == "call_function" else node.op != "get_attr"


def _size(node: Any) -> Any:
    """The formula of a node that is a size, from the sizes of the inputs; None for other nodes."""
    value = node.meta.get("val")
    return value.node.expr if node.op == "call_function" and hasattr(value, "node") else None


def _inline(graph: Any, node: Any, traced: Any, sizes: dict[Any, Any]) -> None:
    """Replaces a node by the nodes of a traced graph, which belong to the same module of the model.

    `sizes` has the earlier nodes that are sizes, by their formulas: no size is computed twice.
    """
    placeholders = [inner for inner in traced.nodes if inner.op == "placeholder"]
    copies = dict(zip(placeholders, node.all_input_nodes, strict=True))
    module = {key: value for key, value in node.meta.items() if key not in ("val", "tensor_meta")}
    with graph.inserting_before(node):
        for inner in traced.nodes:
            if inner.op == "call_function" and (size := _size(inner)) in sizes:
                copies[inner] = sizes[size]
            elif inner.op == "call_function":
                copies[inner] = graph.node_copy(inner, copies.__getitem__)
                copies[inner].meta = {**inner.meta, **module}
                sizes.update({size: copies[inner]} if size is not None else {})
    result = next(inner for inner in traced.nodes if inner.op == "output").args[0]
    _replace_uses(graph, node, result, copies.__getitem__)


def _replace_uses(graph: Any, node: Any, result: Any, copy_of: Callable[[Any], Any]) -> None:
    """Lets the users of a node read its replacement: one node, or the items of a tuple of nodes."""
    if isinstance(result, (list, tuple)):
        for user in list(node.users):
            if user.target is operator.getitem:
                user.replace_all_uses_with(copy_of(result[user.args[1]]))
                graph.erase_node(user)
    else:
        node.replace_all_uses_with(copy_of(result))
    graph.erase_node(node)
