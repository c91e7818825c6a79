"""The pass that lets past and present lie in one buffer: GroupQueryAttention in place of the standard Attention.

The standard Attention joins the past and the new keys, so that the present is longer than the past. A
GroupQueryAttention writes the new keys behind the past; past and present may be the same memory, which is longer than
the text. It reads `[batch, length, heads * size]`, and it is told the length of the text.
"""

from typing import Any

from onnxfn.graphs.nodes import nodes
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.axes import symbols
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.conditions import Condition
from onnxfn.specs.edits.caches import PAST
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.cache_tensors import LENGTH_AXIS, LENGTHS, growing_inputs

RANK = 4


def for_single_texts(spec: PlannedSpec) -> tuple[Condition, ...]:
    """When GroupQueryAttention runs, if not always: it takes a past and several new tokens for one text alone."""
    names, fixed = symbols(spec.inputs[LENGTHS[0]].axes), fixed_sizes(spec)
    sizes = {names[0]: 1, names[1]: 1, PAST: 0}
    text = " or ".join(f"{name} == {size}" for name, size in sizes.items() if name not in fixed)
    return () if any(fixed.get(name) == size for name, size in sizes.items()) else (Condition(text),)


def share_cache(model: Any, part: Part) -> Any:
    """Lets past and present lie in one buffer that may be longer than the text.

    Before: a fused graph of opset 23 or later, whose inputs are those of the part. Each Attention joins the cache.
    After: each Attention is a GroupQueryAttention that reads the whole mask, whose length minus that of the new tokens
    is that of the past. CaptureFailed if another operator reads or writes the cache.
    """
    from onnx_ir.passes import common

    inputs = dict(zip(part.inputs, model.graph.inputs, strict=True))
    past = {inputs[name]: name for name in growing_inputs(part.spec)}
    first = next(iter(model.graph))
    _read_past_length(first, [inputs[name] for name in LENGTHS], past)
    lengths = _lengths(first, inputs[LENGTHS[1]])
    for node in [node for node in model.graph if nodes.is_operator(node, "Attention")]:
        if len(node.inputs) > RANK + 1 and node.inputs[4] in past and node.inputs[5] in past:
            _replace(node, lengths)
    common.RemoveUnusedNodesPass()(model)
    for value, name in past.items():
        _refuse_other_readers(value, name)
    return nodes.import_domain(nodes.merge_equal_nodes(model))  # each attention has a bias of its own at first


def tell_lengths(model: Any) -> Any:
    """Tells each Attention how many keys of its buffers count.

    Before: a fused graph of opset 24 or later, whose new keys and values are written by TensorScatter.
    After: `nonpad_kv_seqlen` of each Attention that reads such buffers is the index behind the last new token.
    """
    for node in [node for node in model.graph if nodes.is_operator(node, "Attention")]:
        scatter = nodes.producer(node.inputs[1], "TensorScatter")
        if scatter is not None:
            _, new, index = scatter.inputs
            length = nodes.size_tensor(node, nodes.shape_of(node.inputs[0])[2], (new, 2))
            total = nodes.insert_value(node, "Add", [index, length], index, nodes.shape_of(new)[:1])
            node.resize_inputs(7)
            node.replace_input_with(6, total)
    return nodes.merge_equal_nodes(model)


def _refuse_other_readers(value: Any, name: str) -> None:
    """CaptureFailed if another operator reads a cache, or reads what is written into it."""
    readers = [use.node for use in value.uses()]
    written = [output for node in readers if node.op_type == "GroupQueryAttention" for output in node.outputs[1:]]
    others = [node for node in readers if node.op_type != "GroupQueryAttention"]
    others += [use.node for output in written for use in output.uses()]
    if others or not readers:
        by = f"{others[0].op_type} reads it" if others else "no attention reads it"
        raise CaptureFailed(f"{name} cannot lie in a shared buffer: {by}; export without with_shared_cache")


def _read_past_length(first: Any, lengths: list[Any], past: dict[Any, str]) -> None:
    """Reads the length of the past from the mask, wherever a node reads it from a cache."""
    reads = [use.node for value in past for use in value.uses() if use.node.op_type == "Shape"]
    if not reads:
        return
    new, total = (nodes.size_tensor(first, None, (value, 1)) for value in lengths)
    length = nodes.insert_value(first, "Sub", [total, new], total, (1,))
    for node in reads:
        if nodes.read_axis(node) == LENGTH_AXIS:
            nodes.replace_value(node.outputs[0], length)


def _lengths(first: Any, text: Any) -> tuple[Any, Any]:
    """The last position of each text, all as long as the mask `text`, and the total length, both int32."""
    import onnx_ir

    int32, batch = onnx_ir.DataType.INT32, nodes.shape_of(text)[0]
    total = nodes.insert_value(first, "Cast", [nodes.size_tensor(first, None, (text, 1))], int32, (1,), to=int32)
    last = nodes.insert_value(first, "Sub", [total, nodes.filled_constant(first.graph, 1, [1], int32)], int32, (1,))
    size = nodes.size_tensor(first, batch, (text, 0))
    return nodes.insert_value(first, "Expand", [last, size], int32, (batch,)), total


def _replace(attention: Any, lengths: tuple[Any, Any]) -> None:
    """Replaces an Attention that joins the cache by a GroupQueryAttention."""
    query, key, value, mask, *past = attention.inputs
    heads, key_heads = (nodes.shape_of(tensor)[1] for tensor in (query, key))
    tensors = [_flat(attention, tensor) for tensor in (query, key, value)]
    output, *present = attention.outputs
    attributes = {name: nodes.attribute(attention, name) for name in ("scale", "softcap")}
    inputs = [*tensors, *past, *lengths, None, None, None, _bias(attention, mask, query.dtype)]
    flat = (*nodes.shape_of(tensors[0])[:2], heads * nodes.shape_of(past[1])[3])
    outputs = [(output, flat), *((each, each.shape) for each in present)]
    counts = {"num_heads": heads, "kv_num_heads": key_heads}
    node = nodes.insert_node(attention, f"{nodes.DOMAIN}::GroupQueryAttention", inputs, outputs, **counts, **attributes)
    batch, _, length, size = nodes.shape_of(output)
    split = nodes.int_constant(attention.graph, 0, 0, heads, size)
    joined = nodes.insert_value(attention, "Reshape", [node.outputs[0], split], output, (batch, length, heads, size))
    nodes.compute_by(output, "Transpose", [joined], perm=nodes.SWAP_HEADS)
    for old, new in zip(present, node.outputs[1:], strict=True):
        nodes.replace_value(old, new)


def _flat(before: Any, value: Any) -> Any:
    """A tensor `[batch, heads, length, size]` as `[batch, length, heads * size]`."""
    node = nodes.producer(value, "Transpose")
    if node is not None and tuple(nodes.attribute(node, "perm", ())) == nodes.SWAP_HEADS:
        return nodes.flatten_heads(before, node.inputs[0])
    sizes = [nodes.shape_of(value)[axis] for axis in nodes.SWAP_HEADS]
    swapped = nodes.insert_value(before, "Transpose", [value], value, sizes, perm=nodes.SWAP_HEADS)
    return nodes.flatten_heads(before, swapped)


def _bias(attention: Any, mask: Any, dtype: Any) -> Any:
    """A mask as it is added to the scores, four axes: zero where a query may attend, else half the lowest number."""
    import onnx_ir

    if mask is None:
        raise CaptureFailed("an attention without a mask cannot have its cache in a shared buffer")
    graph, sizes = attention.graph, nodes.shape_of(mask)
    if mask.dtype == onnx_ir.DataType.BOOL:
        zero, half = (nodes.filled_constant(graph, number, [], dtype) for number in (0.0, dtype.min / 2))
        mask = nodes.insert_value(attention, "Where", [mask, zero, half], dtype, mask.shape)
    if len(sizes) != RANK:
        mask = nodes.insert_value(attention, "Unsqueeze", [mask, nodes.int_constant(graph, 0, 1)], mask, (1, 1, *sizes))
    return mask
