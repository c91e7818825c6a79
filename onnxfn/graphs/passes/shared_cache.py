"""The pass that lets past and present lie in one buffer: GroupQueryAttention in place of the standard Attention.

The standard Attention joins the past and the new keys, so that the present is longer than the past. A
GroupQueryAttention writes the new keys behind the past; past and present may be the same memory, which is longer than
the text. It reads `[batch, length, heads * size]`, and it is told the length of the text.
"""

from __future__ import annotations

from typing import Any

from onnxfn.graphs.nodes.nodes import (
    DOMAIN,
    SWAP_HEADS,
    attribute,
    compute_by,
    filled_constant,
    flatten_heads,
    import_domain,
    insert_node,
    insert_value,
    int_constant,
    is_operator,
    merge_equal_nodes,
    producer,
    read_axis,
    replace_value,
    shape_of,
    size_tensor,
)
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.cache_tensors import LENGTH_AXIS, LENGTHS, growing_inputs

RANK = 4


def share_cache(model: Any, part: Part) -> Any:
    """Lets past and present lie in one buffer that may be longer than the text.

    Before: a fused graph of opset 23 or later, whose inputs are those of the part. Each Attention joins the cache.
    After: each Attention is a GroupQueryAttention that reads the whole mask. No node reads the length of the past from
    a cache: it is the length of the mask minus that of the new tokens.

    CaptureFailed if another operator reads or writes the cache.
    """
    from onnx_ir.passes import common

    inputs = dict(zip(part.inputs, model.graph.inputs, strict=True))
    past = {inputs[name]: name for name in growing_inputs(part.spec)}
    first = next(iter(model.graph))
    _read_past_length(first, [inputs[name] for name in LENGTHS], past)
    lengths = _lengths(first, inputs[LENGTHS[1]])
    for node in [node for node in model.graph if is_operator(node, "Attention")]:
        if len(node.inputs) > RANK + 1 and node.inputs[4] in past and node.inputs[5] in past:
            _replace(node, lengths)
    common.RemoveUnusedNodesPass()(model)
    for value, name in past.items():
        _refuse_other_readers(value, name)
    return import_domain(merge_equal_nodes(model))  # each attention has a bias of its own at first


def _refuse_other_readers(value: Any, name: str) -> None:
    """CaptureFailed if another operator reads a cache, or reads what is written into it."""
    nodes = [use.node for use in value.uses()]
    written = [output for node in nodes if node.op_type == "GroupQueryAttention" for output in node.outputs[1:]]
    readers = [node for node in nodes if node.op_type != "GroupQueryAttention"]
    readers += [use.node for output in written for use in output.uses()]
    if readers or not nodes:
        by = f"{readers[0].op_type} reads it" if readers else "no attention reads it"
        raise CaptureFailed(f"{name} cannot lie in a shared buffer: {by}; export without with_shared_cache")


def _read_past_length(first: Any, lengths: list[Any], past: dict[Any, str]) -> None:
    """Reads the length of the past from the mask, wherever a node reads it from a cache."""
    reads = [use.node for value in past for use in value.uses() if use.node.op_type == "Shape"]
    if not reads:
        return
    new, total = (size_tensor(first, None, (value, 1)) for value in lengths)
    length = insert_value(first, "Sub", [total, new], total, (1,))
    for node in reads:
        if read_axis(node) == LENGTH_AXIS:
            replace_value(node.outputs[0], length)


def _lengths(first: Any, text: Any) -> tuple[Any, Any]:
    """What each operator reads: the last position of each text, and the total length, both int32.

    All texts are as long as the mask `text`, which hides their padding.
    """
    import onnx_ir

    int32, batch = onnx_ir.DataType.INT32, shape_of(text)[0]
    total = insert_value(first, "Cast", [size_tensor(first, None, (text, 1))], int32, (1,), to=int32)
    last = insert_value(first, "Sub", [total, filled_constant(first.graph, 1, [1], int32)], int32, (1,))
    size = size_tensor(first, batch, (text, 0))
    return insert_value(first, "Expand", [last, size], int32, (batch,)), total


def _replace(attention: Any, lengths: tuple[Any, Any]) -> None:
    """Replaces an Attention that joins the cache by a GroupQueryAttention."""
    query, key, value, mask, *past = attention.inputs
    heads, key_heads = (shape_of(tensor)[1] for tensor in (query, key))
    tensors = [_flat(attention, tensor) for tensor in (query, key, value)]
    output, *present = attention.outputs
    attributes = {name: attribute(attention, name) for name in ("scale", "softcap")}
    inputs = [*tensors, *past, *lengths, None, None, None, _bias(attention, mask, query.dtype)]
    flat = (*shape_of(tensors[0])[:2], heads * shape_of(past[1])[3])
    outputs = [(output, flat), *((each, each.shape) for each in present)]
    counts = {"num_heads": heads, "kv_num_heads": key_heads}
    node = insert_node(attention, f"{DOMAIN}::GroupQueryAttention", inputs, outputs, **counts, **attributes)
    batch, _, length, size = shape_of(output)
    split = int_constant(attention.graph, 0, 0, heads, size)
    joined = insert_value(attention, "Reshape", [node.outputs[0], split], output, (batch, length, heads, size))
    compute_by(output, "Transpose", [joined], perm=SWAP_HEADS)
    for old, new in zip(present, node.outputs[1:], strict=True):
        replace_value(old, new)


def _flat(before: Any, value: Any) -> Any:
    """A tensor `[batch, heads, length, size]` as `[batch, length, heads * size]`."""
    node = producer(value, "Transpose")
    if node is not None and tuple(attribute(node, "perm", ())) == SWAP_HEADS:
        return flatten_heads(before, node.inputs[0])
    sizes = [shape_of(value)[axis] for axis in SWAP_HEADS]
    return flatten_heads(before, insert_value(before, "Transpose", [value], value, sizes, perm=SWAP_HEADS))


def _bias(attention: Any, mask: Any, dtype: Any) -> Any:
    """A mask as it is added to the scores, four axes: zero where a query may attend, else half the lowest number."""
    import onnx_ir

    if mask is None:
        raise CaptureFailed("an attention without a mask cannot have its cache in a shared buffer")
    graph, sizes = attention.graph, shape_of(mask)
    if mask.dtype == onnx_ir.DataType.BOOL:
        zero, half = (filled_constant(graph, number, [], dtype) for number in (0.0, dtype.min / 2))
        mask = insert_value(attention, "Where", [mask, zero, half], dtype, mask.shape)
    if len(sizes) != RANK:
        mask = insert_value(attention, "Unsqueeze", [mask, int_constant(graph, 0, 1)], mask, (1, 1, *sizes))
    return mask
