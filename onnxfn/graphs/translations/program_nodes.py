"""What the nodes of an exported program do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def operator_name(node: Any) -> str:
    """The name of the operator that a node calls, with its overload: `aten::add.Tensor`."""
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else str(node.target)


def is_mutable(node: Any) -> bool:
    """Whether the operator of a node writes into one of its inputs."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def has_translation(node: Any, registry: Any) -> bool:
    """Whether the operator of a node is in torch's table of translations, and returns a new tensor."""
    return registry.is_registered(node.target) and not is_mutable(node)


def may_be_view(node: Any) -> bool:
    """Whether the result of a node shares memory with its input; True for an operator without a schema."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(result.alias_info is not None for result in schema.returns)


def input_tensors(node: Any) -> Iterator[Any]:
    """The fake tensors that a node reads."""
    for input_ in node.all_input_nodes:
        tensor = input_.meta.get("val")
        if hasattr(tensor, "dtype"):
            yield tensor
