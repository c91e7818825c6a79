"""Lower: a torch graph -> the same function in operators that the table of translations holds.

torch's own way is to trace the graph once more (`run_decompositions`), which costs as much as the first trace. Most
graphs need only a few operators spelt otherwise, and those are rewritten here in place; one that needs more goes
torch's way.
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
IDENTITIES = frozenset({"aten::alias", "aten::detach", "aten::detach_", "aten::lift_fresh_copy"})
CASTS = frozenset({"aten::to.device", "aten::to.dtype", "aten::to.dtype_layout", "aten::to.other", "aten::type_as"})

# An operator of torch -> another that computes the same from the same arguments, and that the table holds.
SPELT: Mapping[str, str] = MappingProxyType(
    {
        "aten::__and__.Tensor": "bitwise_and.Tensor",
        "aten::__or__.Tensor": "bitwise_or.Tensor",
        "aten::__xor__.Tensor": "bitwise_xor.Tensor",
        "aten::max.other": "maximum.default",
        "aten::min.other": "minimum.default",
    }
)
IN_PLACE: Mapping[str, str] = MappingProxyType(
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


def lower_in_place(program: Any, registry: Any) -> bool:
    """Rewrite an exported program in place; whether every operator is then in the table and none writes into another.

    What is rewritten computes the same, so a program that is not fully lowered can still go torch's way.
    """
    graph = program.graph_module.graph
    if _writes_outside(program) or any(node.op == "get_attr" for node in graph.nodes):
        return False
    _knows_its_users(graph)
    for node in list(graph.nodes):
        if node.op == "call_function":
            _rewrite(graph, node)
    graph.eliminate_dead_code()
    for node in reversed(graph.nodes):
        if _name(node) == "aten::item" and not node.users:
            graph.erase_node(node)
    return all(_translatable(node, registry) for node in graph.nodes if node.op == "call_function")


def insert_type_promotions(program: Any) -> Any:
    """The program with its type promotions spelt out, which is a pass over the whole graph, when any node has one."""
    from torch.onnx._internal.exporter import _fx_passes

    rules = _rules()
    if any(_promotes(node, rules) for node in program.graph_module.graph.nodes if node.op == "call_function"):
        _fx_passes.insert_type_promotion_nodes(program.graph_module)
    return program


def _knows_its_users(graph: Any) -> None:
    """What torch.export hands over may have a node that does not know who reads it (jina_embeddings_v3's last norm)."""
    for node in graph.nodes:
        for read in node.all_input_nodes:
            read.users.setdefault(node, None)


def _rewrite(graph: Any, node: Any) -> None:
    name = _name(node)
    if name in ASSERTIONS:
        graph.erase_node(node)
    elif name in IDENTITIES:
        _replace(graph, node, node.args[0])
    elif name in CASTS:
        _cast(graph, node)
    elif name in SPELT:
        node.target = _operator(SPELT[name])
    elif name in IN_PLACE and _owned(node):
        node.target = _operator(IN_PLACE[name])
        _later_reads(graph, node)


def _cast(graph: Any, node: Any) -> None:
    """`to` in its many forms changes at most the type; one that changes nothing is its argument."""
    import torch

    source, dtype = node.args[0], node.meta["val"].dtype
    if source.meta["val"].dtype == dtype:
        _replace(graph, node, source)
    else:
        node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, (source,), {"dtype": dtype}


def _owned(node: Any) -> bool:
    """Whether a node that writes into its first argument may as well make a new tensor.

    It may when the memory is fresh, no input and no weight, and nothing but that argument looks at it after the write.
    """
    written = fresh = node.args[0]
    while fresh.op == "call_function" and _views(fresh):
        fresh = fresh.args[0]
    if fresh.op != "call_function":
        return False
    order = {other: place for place, other in enumerate(node.graph.nodes)}
    others = (one for one in _looking_at(fresh) if one is not written and order[one] < order[node])
    return not any(order[user] > order[node] for one in others for user in one.users)


def _looking_at(fresh: Any) -> Iterator[Any]:
    """A tensor, its views, and theirs."""
    yield fresh
    for user in fresh.users:
        if user.op == "call_function" and _views(user):
            yield from _looking_at(user)


def _later_reads(graph: Any, node: Any) -> None:
    """What reads the written tensor after the write reads the new tensor."""
    written = node.args[0]
    order = {other: place for place, other in enumerate(graph.nodes)}
    for user in list(written.users):
        if user is not node and order[user] > order[node]:
            user.replace_input_with(written, node)


def _operator(name: str) -> Any:
    import torch

    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _replace(graph: Any, node: Any, by: Any) -> None:
    """The program knows its outputs by name, so a node that is one stays, as a copy."""
    if any(user.op == "output" for user in node.users):
        node.target, node.args, node.kwargs = _operator("clone.default"), (by,), {}
    else:
        node.replace_all_uses_with(by)
        graph.erase_node(node)


def _views(node: Any) -> bool:
    """Whether an operator's result shares memory with its argument; one without a schema is taken to do so."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(one.alias_info is not None for one in schema.returns)


def _translatable(node: Any, registry: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return registry.is_registered(node.target) and not (schema is not None and schema.is_mutable)


def _writes_outside(program: Any) -> bool:
    """Whether running the graph changes a buffer or an input of the model."""
    return len(program.graph_signature.output_specs) != len(program.graph_signature.user_outputs)


def _promotes(node: Any, rules: frozenset[str]) -> bool:
    """Whether an operator that promotes is given numbers of several types, or gives another type than it is given."""
    given = node.meta.get("val")
    types = {value.dtype for value in _tensor_values(node)} - _condition(node)
    if _name(node).partition(".")[0] not in rules or not types or not hasattr(given, "dtype"):
        return False
    real = any(one.is_floating_point for one in types)
    scalars = any(isinstance(one, float) for one in (*node.args, *node.kwargs.values()))
    return len(types) > 1 or (scalars and not real) or (given.dtype.is_floating_point and not real)


def _condition(node: Any) -> set[Any]:
    """The type of what `where` chooses by, which is none of its numbers."""
    import torch

    return {torch.bool} if _name(node).startswith("aten::where") else set()


@cache
def _rules() -> frozenset[str]:
    """The operators that promote, by torch's own table."""
    from torch.onnx._internal.fx.passes import type_promotion

    rules = type_promotion._GENERATED_ATEN_TYPE_PROMOTION_RULE_SET | type_promotion._EXTRA_TYPE_PROMOTION_RULE_SET
    return frozenset(f"{rule.namespace}::{rule.op_name}" for rule in rules)


def _tensor_values(node: Any) -> Iterator[Any]:
    for one in node.all_input_nodes:
        value = one.meta.get("val")
        if hasattr(value, "dtype"):
            yield value


def _name(node: Any) -> str:
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else str(node.target)
