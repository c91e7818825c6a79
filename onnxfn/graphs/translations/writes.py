"""Replaces operators that write into memory by operators that return new tensors, in an exported program.

A write through a view, as in `x[..., 0] /= width`, becomes a new view, and a new `x` that holds it:

    view = select(x, -1, 0); div_(view, width)
    view = select(x, -1, 0); new_view = div(view, width); new_x = select_scatter(x, new_view, -1, 0)

Nodes after the write then read `new_view` and `new_x`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onnxfn.graphs.translations.program_nodes import input_tensors, may_be_view, operator_name

SCATTERS: Mapping[str, str] = MappingProxyType(
    {"aten::select.int": "select_scatter", "aten::slice.Tensor": "slice_scatter"}
)
"""Operator that returns a view -> operator that writes a view of this kind into a new tensor, by the same arguments."""

END = 1 << 62
"""A slice up to an index from here on takes everything."""

DEFAULTS = (None, 0, 0, END, 1)
"""The arguments of `aten::slice.Tensor`, where it does not say them: tensor, axis, start, end, step."""


def write_out_of_place(graph: Any, node: Any) -> bool:
    """Replaces a node that writes into its first argument; returns whether it could.

    It can under three conditions. The memory is that of an intermediate result, not of an input or a weight. Of the
    views of this memory, only the written view and those that it is a view of are read after the write. The new tensor
    has the shape and the dtype of the old one.
    """
    operator, views = _out_of_place(operator_name(node)), _views(node.args[0])
    order = {other: index for index, other in enumerate(graph.nodes)}
    readers = [[user for user in view.users if order[user] > order[node]] for view in views]
    last = max((index for index, users in enumerate(readers) if users), default=0)
    can_be_scattered = all(operator_name(view) in SCATTERS for view in views[:last])
    if operator is None or not can_be_scattered or not _keeps_dtype_and_shape(node) or _is_hidden(node, views, order):
        return False
    node.target = operator
    new = node
    for index, users in enumerate(readers[: last + 1]):
        new = _scattered(graph, views[index - 1], views[index], new) if index else new
        for user in users:
            user.replace_input_with(views[index], new)
    return True


def _out_of_place(name: str) -> Any:
    """The operator that returns what an operator such as `aten::relu_` writes into its first argument; None if none."""
    import torch

    packet, _, overload = name.removeprefix("aten::").partition(".")
    if not packet.endswith("_") or packet.startswith("_"):
        return None
    operators = getattr(torch.ops.aten, packet.removesuffix("_"), None)
    # Some have the overload `Tensor` only where they write, as `floor_divide_` does.
    return getattr(operators, overload or "default", getattr(operators, "default", None))


def _views(written: Any) -> list[Any]:
    """The written node, the node that it is a view of, and so on; the last is no view."""
    views = [written]
    while views[-1].op == "call_function" and may_be_view(views[-1]):
        views.append(views[-1].args[0])
    return views


def _keeps_dtype_and_shape(node: Any) -> bool:
    """Whether the operator that returns a new tensor returns one of the dtype and the shape of the old one."""
    import torch

    old, tensors = node.args[0].meta["val"], list(input_tensors(node))
    if operator_name(node) == "aten::index_put_":
        tensors = [node.args[2].meta["val"]]  # the others are the indices
    # `copy_` also repeats a smaller tensor, which `copy` does not say.
    repeats = operator_name(node) == "aten::copy_" and str(tensors[-1].shape) != str(old.shape)
    return not repeats and all(torch.promote_types(old.dtype, tensor.dtype) == old.dtype for tensor in tensors)


def _is_hidden(node: Any, views: Sequence[Any], order: Mapping[Any, int]) -> bool:
    """Whether memory of an input is written, or another view of it, created before the write, is read after it."""
    others = (view for view in _with_views(views[-1]) if view not in views and order[view] < order[node])
    return views[-1].op != "call_function" or any(order[user] > order[node] for view in others for user in view.users)


def _with_views(base: Any) -> Iterator[Any]:
    """A node, its views, and the views of these."""
    yield base
    for user in base.users:
        if user.op == "call_function" and may_be_view(user):
            yield from _with_views(user)


def _scattered(graph: Any, view: Any, source: Any, new: Any) -> Any:
    """A node for the source of a view in which the view has a new value; it is inserted after that value."""
    import torch

    if _is_whole(view):
        return new

    operator = getattr(torch.ops.aten, SCATTERS[operator_name(view)]).default
    with graph.inserting_after(new):
        scattered = graph.call_function(operator, (source, new, *view.args[1:]), dict(view.kwargs))
    scattered.meta = {**new.meta, "val": source.meta["val"]}
    return scattered


def _is_whole(view: Any) -> bool:
    """Whether a view is a slice that takes everything."""
    if operator_name(view) != "aten::slice.Tensor":
        return False
    start, end, step = (*view.args, *DEFAULTS[len(view.args) :])[2:]
    return start in (None, 0) and (end is None or (isinstance(end, int) and end >= END)) and step == 1
