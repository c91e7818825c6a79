"""Rewrites an exported program in place so that each operator has a translation to ONNX.

torch does this by a second trace (`run_decompositions`), which costs as much as the first. Most graphs need only a few
operators to be replaced, which is done here; a graph that needs more is traced again by torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.translations.decomposition import decompose_in_place
from onnxfn.graphs.translations.program_nodes import has_translation, input_tensors, is_mutable, operator_name
from onnxfn.graphs.translations.writes import write_out_of_place

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


def lower_in_place(program: Any, registry: Any) -> bool:
    """Rewrites an exported program; returns whether each operator then has a translation and none writes in place.

    The program computes the same before and after, so one for which this is false can still be traced again by torch.
    """
    graph = program.graph_module.graph
    if _mutates_inputs(program) or any(node.op == "get_attr" or _is_of_functorch(node) for node in graph.nodes):
        return False
    _complete_users(graph)
    for node in list(graph.nodes):
        if node.op == "call_function":
            _rewrite(graph, node)
    for node in reversed(graph.nodes):
        # torch keeps random operators and `item`, since these have effects. In ONNX they have none.
        if node.op == "call_function" and not node.users and not is_mutable(node):
            graph.erase_node(node)
    untranslated = [node for node in graph.nodes if node.op == "call_function" and not has_translation(node, registry)]
    is_lowered = not any(map(is_mutable, untranslated)) and decompose_in_place(graph, untranslated, registry)
    _name_outputs(program)
    return is_lowered


def _is_of_functorch(node: Any) -> bool:
    """Whether a node starts or ends a `torch.vmap`: torch traces what lies between once more, in other operators."""
    return str(getattr(node.target, "__module__", "")).startswith(torch_name("functorch").__name__)


def _name_outputs(program: Any) -> None:
    """Tells the program the names of its outputs, some of which are other nodes now."""
    outputs = next(iter(reversed(program.graph_module.graph.nodes))).args[0]
    for spec, node in zip(program.graph_signature.output_specs, outputs, strict=True):
        if hasattr(node, "name"):
            spec.arg.name = node.name


def insert_type_promotions(program: Any) -> Any:
    """Inserts a cast at each implicit type promotion, by torch's rules.

    torch's pass runs the whole graph once more on fake tensors. Here only the nodes that promote are run.
    """
    module, operators = program.graph_module, _promoting_operators()
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    if promoting := [node for node in calls if _promotes(node, operators)]:
        values = {node: node.meta["val"] for node in module.graph.nodes if "val" in node.meta}
        pass_ = torch_name("type_promotions")(module, torch_name("type_promotion").TypePromotionTable())
        pass_.env.update(values)
        with torch_name("fake_mode_of")(list(values.values())):
            for node in promoting:
                pass_.run_node(node)
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
    elif is_mutable(node):
        write_out_of_place(graph, node)


def _rewrite_cast(graph: Any, node: Any) -> None:
    """Replaces any form of `to` by a conversion of the dtype, or by its input where the dtype stays."""
    import torch

    source, dtype = node.args[0], node.meta["val"].dtype
    if source.meta["val"].dtype == dtype:
        _replace(graph, node, source)
    else:
        node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, (source,), {"dtype": dtype}


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


def _mutates_inputs(program: Any) -> bool:
    """Whether the program writes into a buffer or an input of the model: it then has more outputs than the model."""
    return len(program.graph_signature.output_specs) != len(program.graph_signature.user_outputs)


def _promotes(node: Any, operators: frozenset[str]) -> bool:
    """Whether a node may promote: its tensors are not all of the dtype of its result, or it reads a float or a size."""
    result = node.meta.get("val")
    dtypes = {tensor.dtype for tensor in input_tensors(node)} - _condition_dtypes(node)
    if operator_name(node).partition(".")[0] not in operators or not dtypes or not hasattr(result, "dtype"):
        return False
    has_size = any(hasattr(input_.meta.get("val"), "node") for input_ in node.all_input_nodes)
    float_argument = any(isinstance(argument, float) for argument in (*node.args, *node.kwargs.values()))
    floating = any(dtype.is_floating_point for dtype in dtypes)
    return dtypes != {result.dtype} or has_size or (float_argument and not floating)


def _condition_dtypes(node: Any) -> set[Any]:
    """The dtype of the condition of `where`, which takes no part in the promotion."""
    import torch

    return {torch.bool} if operator_name(node).startswith("aten::where") else set()


@cache
def _promoting_operators() -> frozenset[str]:
    """The operators whose inputs are promoted, by torch's own table."""
    rules = torch_name("generated_promotion_rules") | torch_name("extra_promotion_rules")
    return frozenset(f"{rule.namespace}::{rule.op_name}" for rule in rules)
