"""Rewrites an exported program in place so that each operator has a translation to ONNX.

torch does this by a second trace (`run_decompositions`), which costs as much as the first. Most graphs need only a few
operators to be replaced, which is done here; a graph that needs more is traced again by torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

ASSERTIONS = frozenset(
    {
        "aten::_assert_async",
        "aten::_assert_async.msg",
        "aten::_assert_scalar",
        "aten::_assert_tensor_metadata",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
    }
)
"""Operators that only check their inputs: they are removed."""

IDENTITIES = frozenset({"aten::alias", "aten::detach", "aten::detach_", "aten::lift_fresh_copy"})
"""Operators that return their input: it is read instead."""

CASTS = frozenset({"aten::to.device", "aten::to.dtype", "aten::to.dtype_layout", "aten::to.other", "aten::type_as"})
"""Operators that convert a tensor to another dtype or device."""

SYNONYMS: Mapping[str, str] = MappingProxyType(
    {
        "aten::__and__.Tensor": "bitwise_and.Tensor",
        "aten::__or__.Tensor": "bitwise_or.Tensor",
        "aten::__xor__.Tensor": "bitwise_xor.Tensor",
        "aten::max.other": "maximum.default",
        "aten::min.other": "minimum.default",
    }
)
"""Operator without a translation -> operator with one that computes the same from the same arguments."""

OUT_OF_PLACE: Mapping[str, str] = MappingProxyType(
    {
        "aten::add_.Tensor": "add.Tensor",
        "aten::clamp_": "clamp.default",
        "aten::div_.Tensor": "div.Tensor",
        "aten::masked_fill_.Scalar": "masked_fill.Scalar",
        "aten::masked_fill_.Tensor": "masked_fill.Tensor",
        "aten::mul_.Tensor": "mul.Tensor",
        "aten::sub_.Tensor": "sub.Tensor",
    }
)
"""Operator that writes into its first argument -> operator that returns a new tensor."""


def lower_in_place(program: Any, registry: Any) -> bool:
    """Rewrites an exported program; returns whether each operator then has a translation and none writes in place.

    The program computes the same before and after, so one for which this is false can still be traced again by torch.
    """
    graph = program.graph_module.graph
    if _mutates_inputs(program) or any(node.op == "get_attr" for node in graph.nodes):
        return False
    _complete_users(graph)
    for node in list(graph.nodes):
        if node.op == "call_function":
            _rewrite(graph, node)
    graph.eliminate_dead_code()
    for node in reversed(graph.nodes):
        if operator_name(node) == "aten::item" and not node.users:
            graph.erase_node(node)
    return all(_has_translation(node, registry) for node in graph.nodes if node.op == "call_function")


def insert_type_promotions(program: Any) -> Any:
    """Inserts a cast at each implicit type promotion; torch's pass over the whole graph runs only if there is one."""
    from torch.onnx._internal.exporter import _fx_passes

    operators = _promoting_operators()
    if any(_promotes(node, operators) for node in program.graph_module.graph.nodes if node.op == "call_function"):
        _fx_passes.insert_type_promotion_nodes(program.graph_module)
    return program


def _complete_users(graph: Any) -> None:
    """Registers each node as a user of its inputs: torch.export can miss one (the last norm of jina_embeddings_v3)."""
    for node in graph.nodes:
        for input_ in node.all_input_nodes:
            input_.users.setdefault(node, None)


def _rewrite(graph: Any, node: Any) -> None:
    """Replaces a node by one with a translation, or removes it, where this module knows how."""
    name = operator_name(node)
    if name in ASSERTIONS:
        graph.erase_node(node)
    elif name in IDENTITIES:
        _replace(graph, node, node.args[0])
    elif name in CASTS:
        _rewrite_cast(graph, node)
    elif name in SYNONYMS:
        node.target = _operator(SYNONYMS[name])
    elif name in OUT_OF_PLACE and _can_be_out_of_place(node):
        node.target = _operator(OUT_OF_PLACE[name])
        _redirect_later_reads(graph, node)


def _rewrite_cast(graph: Any, node: Any) -> None:
    """Replaces any form of `to` by a conversion of the dtype, or by its input where the dtype stays."""
    import torch

    source, dtype = node.args[0], node.meta["val"].dtype
    if source.meta["val"].dtype == dtype:
        _replace(graph, node, source)
    else:
        node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, (source,), {"dtype": dtype}


def _can_be_out_of_place(node: Any) -> bool:
    """Whether a node that writes into its first argument can return a new tensor instead.

    It can when the memory is that of an intermediate result, not of an input or a weight, and when no other view of
    this memory is read after the write.
    """
    written = base = node.args[0]
    while base.op == "call_function" and _may_be_view(base):
        base = base.args[0]
    if base.op != "call_function":
        return False
    order = {other: index for index, other in enumerate(node.graph.nodes)}
    others = (view for view in _with_views(base) if view is not written and order[view] < order[node])
    return not any(order[user] > order[node] for view in others for user in view.users)


def _with_views(base: Any) -> Iterator[Any]:
    """A node, its views, and the views of these."""
    yield base
    for user in base.users:
        if user.op == "call_function" and _may_be_view(user):
            yield from _with_views(user)


def _redirect_later_reads(graph: Any, node: Any) -> None:
    """Nodes after a write that read the written tensor read the new tensor."""
    written = node.args[0]
    order = {other: index for index, other in enumerate(graph.nodes)}
    for user in list(written.users):
        if user is not node and order[user] > order[node]:
            user.replace_input_with(written, node)


def _operator(name: str) -> Any:
    import torch

    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _replace(graph: Any, node: Any, by: Any) -> None:
    """Replaces a node by another. The program knows its outputs by name: a node that is an output becomes a copy."""
    if any(user.op == "output" for user in node.users):
        node.target, node.args, node.kwargs = _operator("clone.default"), (by,), {}
    else:
        node.replace_all_uses_with(by)
        graph.erase_node(node)


def _may_be_view(node: Any) -> bool:
    """Whether the result of an operator shares memory with its input; True for an operator without a schema."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(result.alias_info is not None for result in schema.returns)


def _has_translation(node: Any, registry: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return registry.is_registered(node.target) and not (schema is not None and schema.is_mutable)


def _mutates_inputs(program: Any) -> bool:
    """Whether the program writes into a buffer or an input of the model: it then has more outputs than the model."""
    return len(program.graph_signature.output_specs) != len(program.graph_signature.user_outputs)


def _promotes(node: Any, operators: frozenset[str]) -> bool:
    """Whether a node has inputs of several dtypes, or integer inputs and a floating-point number or result."""
    result = node.meta.get("val")
    dtypes = {tensor.dtype for tensor in _input_tensors(node)} - _condition_dtypes(node)
    if operator_name(node).partition(".")[0] not in operators or not dtypes or not hasattr(result, "dtype"):
        return False
    floating = any(dtype.is_floating_point for dtype in dtypes)
    float_argument = any(isinstance(argument, float) for argument in (*node.args, *node.kwargs.values()))
    return len(dtypes) > 1 or (float_argument and not floating) or (result.dtype.is_floating_point and not floating)


def _condition_dtypes(node: Any) -> set[Any]:
    """The dtype of the condition of `where`, which takes no part in the promotion."""
    import torch

    return {torch.bool} if operator_name(node).startswith("aten::where") else set()


@cache
def _promoting_operators() -> frozenset[str]:
    """The operators whose inputs are promoted, by torch's own table."""
    from torch.onnx._internal.fx.passes import type_promotion

    rules = type_promotion._GENERATED_ATEN_TYPE_PROMOTION_RULE_SET | type_promotion._EXTRA_TYPE_PROMOTION_RULE_SET
    return frozenset(f"{rule.namespace}::{rule.op_name}" for rule in rules)


def _input_tensors(node: Any) -> Iterator[Any]:
    for input_ in node.all_input_nodes:
        tensor = input_.meta.get("val")
        if hasattr(tensor, "dtype"):
            yield tensor


def operator_name(node: Any) -> str:
    """The name of the operator that a node calls, with its overload: `aten::add.Tensor`."""
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else str(node.target)
