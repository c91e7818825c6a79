"""The fusions of a graph, in their order; norms, scores of hidden keys, and nodes that change nothing."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.graphs.fusions.attention import fuse_attention, multiply_groups, simplify_masks
from onnxfn.graphs.fusions.rotary import fuse_rotary
from onnxfn.graphs.nodes import nodes
from onnxfn.graphs.passes.simplify import ATTENTION_OPSET, SINCE
from onnxfn.specs.runtimes import KERNELS
from onnxfn.specs.stored.reports import Fusion

SQUARE = 2
"""The exponent of a square."""


@frozen(eq=False)
class Norm:
    """A norm in a graph: `x / sqrt(mean(x * x) + epsilon) * scale`; without a scale it is the number `factor`."""

    x: Any
    scale: Any
    epsilon: float
    output: Any
    factor: float = 1.0


def fuse_norms(model: Any) -> Any:
    """Fuses each norm into one operator.

    Before: a graph, converted to its opset, computes `x / sqrt(mean(x * x) + epsilon) * weight` in several nodes.
    After: this is one RMSNormalization from opset 23 on, or one LayerNormalization of y, if x is `y - mean(y)`. So is
    a norm with a sum in place of the mean, which gives vectors of length 1. A norm is fused only if it is computed in
    float32, maybe after a Cast: the operators sum in float32.
    """
    has_rms_norm = model.opset_imports.get("", 0) >= ATTENTION_OPSET
    for node in list(model.graph):
        norm = _norm(node) if nodes.is_operator(node, "ReduceMean", "ReduceSum") else None
        centered = None if norm is None else _centered(norm.x)
        if norm is not None and (has_rms_norm or centered is not None):
            sizes = nodes.shape_of(norm.x)[-1:]
            scale = norm.scale or nodes.filled_constant(model.graph, norm.factor, sizes, norm.x.dtype)
            operator, x = ("RMSNormalization", norm.x) if centered is None else ("LayerNormalization", centered)
            nodes.compute_by(norm.output, operator, [x, scale], axis=-1, epsilon=norm.epsilon)
    return model


def fold_reciprocal(model: Any) -> Any:
    """Replaces `x * (1 / r)` by `x / r`, with one rounding less; ONNX Runtime then fuses norms in older opsets too."""
    for node in list(model.graph):
        product = nodes.sole_consumer(node.outputs[0], "Mul") if nodes.is_operator(node, "Reciprocal") else None
        if product is not None:
            nodes.compute_by(product.outputs[0], "Div", [nodes.other_operand(product, node.outputs[0]), node.inputs[0]])
    return model


def _norm(mean: Any) -> Norm | None:
    """The norm whose mean or sum of squares this node is; without its scale, if the scale is not a plain one."""
    x = _squared(mean.inputs[0])
    if x is None or not _is_over_last_axis(mean):
        return None
    epsilon, quotient = _quotient(mean.outputs[0]) or (0.0, None)
    if quotient is None or not any(value is x for value in quotient.inputs):
        return None
    return (_scaled_norm if mean.op_type == "ReduceMean" else _unit_norm)(x, epsilon, quotient.outputs[0])


def _squared(value: Any) -> Any:
    """x, if a node computes `x ** 2` or `x * x`; else None."""
    node = nodes.producer(value, "Pow", "Mul")
    if node is None:
        return None
    is_square = nodes.scalar(node.inputs[1]) == SQUARE if node.op_type == "Pow" else node.inputs[0] is node.inputs[1]
    return node.inputs[0] if is_square else None


def _centered(value: Any) -> Any:
    """y, if nodes compute `y - mean(y)`; else None."""
    node = nodes.producer(value, "Sub")
    mean = None if node is None else nodes.producer(node.inputs[1], "ReduceMean")
    y = None if mean is None else mean.inputs[0]
    return y if mean is not None and y is node.inputs[0] and _is_over_last_axis(mean) else None


def _is_over_last_axis(mean: Any) -> bool:
    """Whether a ReduceMean reduces the last axis alone, and keeps it with size 1."""
    axes = nodes.integers(mean.inputs[1]) if len(mean.inputs) > 1 else None
    if axes is None or len(axes) != 1 or not nodes.attribute(mean, "keepdims", 1):
        return False
    return nodes.is_last_axis(axes[0], len(nodes.shape_of(mean.inputs[0])))


def _quotient(mean: Any) -> tuple[float, Any] | None:
    """The epsilon of a norm with this mean square, and the node that divides by the root of their sum."""
    added = nodes.sole_consumer(mean, "Add")
    epsilon = 0.0 if added is None else nodes.scalar(nodes.other_operand(added, mean))
    root = nodes.sole_consumer(mean if added is None else added.outputs[0], "Sqrt", "Pow")
    if root is None or epsilon is None:
        return None
    node = _division_by(root)
    return None if node is None else (epsilon, node)


def _division_by(root: Any) -> Any:
    """The Div by `sqrt(v)`, or the Mul with `1 / sqrt(v)` or with `v ** -0.5`; None for other uses of the root."""
    output = root.outputs[0]
    if root.op_type == "Pow":
        return nodes.sole_consumer(output, "Mul") if nodes.scalar(root.inputs[1]) == -1 / SQUARE else None
    quotient = nodes.sole_consumer(output, "Div")
    if quotient is not None:
        return quotient if quotient.inputs[1] is output else None
    return nodes.sole_consumer(nodes.first_output(nodes.sole_consumer(output, "Reciprocal")), "Mul")


def _unit_norm(x: Any, epsilon: float, output: Any) -> Norm | None:
    """The norm that gives `x / sqrt(sum(x * x) + epsilon)`, maybe times a number that follows."""
    import onnx_ir

    size, product = nodes.last_size(x), nodes.sole_consumer(output, "Mul")
    number = nodes.scalar(nodes.other_operand(product, output))
    if size is None or x.dtype != onnx_ir.DataType.FLOAT:
        return None
    factor, output = (1.0, output) if number is None else (number, product.outputs[0])
    return Norm(x, None, epsilon / size, output, factor * size**-0.5)


def _scaled_norm(x: Any, epsilon: float, output: Any) -> Norm | None:
    """The norm with its weight, in the dtype before a Cast to float32 if a Cast back to that dtype follows."""
    import onnx_ir

    if x.dtype != onnx_ir.DataType.FLOAT:
        return None
    widened, narrowed = nodes.producer(x, "Cast"), nodes.sole_consumer(output, "Cast")
    if widened is not None and narrowed is not None and narrowed.outputs[0].dtype == widened.inputs[0].dtype:
        x, output = widened.inputs[0], narrowed.outputs[0]
    sizes = nodes.shape_of(x)[-1:]
    product = nodes.sole_consumer(output, "Mul")
    weight = nodes.other_operand(product, output)
    if weight is not None and sizes and nodes.shape_of(weight) == sizes and weight.dtype == x.dtype:
        return Norm(x, weight, epsilon, product.outputs[0])
    return None if nodes.last_size(x) is None else Norm(x, None, epsilon, output)


def add_bias_last(model: Any) -> Any:
    """Adds the bias of a layer after the residual, where the residual is a LayerNormalization and one reads the sum.

    ONNX Runtime 1.32 else makes them one SkipLayerNormalization, whose kernel takes three times as long on the CPU.
    """
    for total in [node for node in model.graph if nodes.is_operator(node, "Add")]:
        if nodes.sole_consumer(total.outputs[0], "LayerNormalization") is None:
            continue
        for biased, residual in (total.inputs, reversed(total.inputs)):
            layer = nodes.producer(biased, "Add") if nodes.sole_consumer(biased, "Add") is total else None
            bias = next((value for value in layer.inputs if len(nodes.shape_of(value)) == 1), None) if layer else None
            product = None if bias is None else nodes.other_operand(layer, bias)
            norm = nodes.producer(residual, "LayerNormalization") if product is not None else None
            if norm is not None and nodes.shape_of(product) == nodes.shape_of(residual):  # queries may be repeated
                both = nodes.insert_value(total, "Add", [product, residual], residual, residual.shape)
                nodes.compute_by(total.outputs[0], "Add", [both, bias])
                break
    return model


def bound_hidden_scores(model: Any) -> Any:
    """Bounds the scores of hidden keys where a mask compares positions, as those of decoders do.

    Before: a graph of float32 masks its scores. After: they are less the highest of their query, and at least -60.

    The weight of a hidden key is then 1e-26 of the largest, which no sum in float32 holds. Without the bound it is less
    than the smallest normal number, and ONNX Runtime takes six times as long for a softmax of such numbers.
    """
    import onnx_ir

    for node in [node for node in model.graph if nodes.is_operator(node, "Softmax")]:
        scores, sizes = node.inputs[0], nodes.shape_of(node.inputs[0])
        is_last = nodes.is_last_axis(nodes.attribute(node, "axis", -1), len(sizes))
        if is_last and scores.dtype == onnx_ir.DataType.FLOAT and _hides_later_keys(scores):
            last = nodes.int_constant(model.graph, -1)
            highest = nodes.insert_value(node, "ReduceMax", [scores, last], scores, (*sizes[:-1], 1))
            below = nodes.insert_value(node, "Sub", [scores, highest], scores, sizes)
            lowest = nodes.filled_constant(model.graph, -60.0, [], scores.dtype)
            node.replace_input_with(0, nodes.insert_value(node, "Clip", [below, lowest], scores, sizes))
    return model


def _hides_later_keys(scores: Any) -> bool:
    """Whether scores are the lowest number, or it is added to them, for keys behind their query or long before it."""
    total, lowest = nodes.producer(scores, "Add"), scores.dtype.min
    masks = (nodes.producer(value, "Where") for value in (scores, *(total.inputs if total is not None else ())))
    return any(mask and nodes.scalar(mask.inputs[2]) == lowest and _compares(mask.inputs[0]) for mask in masks)


def _compares(condition: Any) -> bool:
    """Whether a boolean tensor comes from a comparison of two computed tensors, as the positions of a text are."""
    pending, seen = [condition.producer()], set[Any]()
    while pending:
        node = pending.pop()
        if node is not None and node not in seen:
            compares = nodes.is_operator(node, "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
            if compares and all(nodes.constant_array(value) is None for value in node.inputs):
                return True
            seen.add(node)
            pending.extend(value.producer() for value in node.inputs if value is not None)
    return False


def drop_expands(model: Any) -> Any:
    """Removes nodes that expand a tensor for operators that broadcast it.

    Before: a simplified graph. A model expands a mask to all heads, inverts it, casts it, and adds it to the scores.
    After: the mask is inverted and cast at its own size, and the sum broadcasts it. Outputs keep their shapes.
    """
    import onnx_ir

    positions = {node: index for index, node in enumerate(model.graph)}
    for node in list(model.graph):
        sizes = _expanded_sizes(node) if nodes.is_operator(node, "Expand") else {}
        smaller = _read_by_broadcasting(node.outputs[0], sizes, positions) if sizes else ()
        for value in smaller:
            rank = len(value.shape)
            value.shape = onnx_ir.Shape([1 if axis - rank in sizes else size for axis, size in enumerate(value.shape)])
        if smaller:
            node.outputs[0].replace_all_uses_with(node.inputs[0])
    return model


def _expanded_sizes(expand: Any) -> dict[int, int]:
    """From axes, counted from the last one (-1), to the sizes that an Expand expands to; {} if one is unknown."""
    before, after = nodes.shape_of(expand.inputs[0]), nodes.shape_of(expand.outputs[0])
    rank = len(after)
    if len(before) != rank or None in after:
        return {}
    sizes = {axis - rank: size for axis, size in enumerate(after) if before[axis] == 1 and isinstance(size, int)}
    others_stay = all(size == before[axis] for axis, size in enumerate(after) if axis - rank not in sizes)
    return {axis: size for axis, size in sizes.items() if size != 1} if others_stay else {}


def _read_by_broadcasting(expanded: Any, sizes: Mapping[int, int], positions: Mapping[Any, int]) -> tuple[Any, ...]:
    """The values whose expanded shape comes only from this Expand, its output first; none if others read one."""
    broadcasting = (  # element by element
        *("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Not", "Cast", "Where"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    )
    smaller, readers = [expanded], {use.node for use in expanded.uses()}
    while readers:
        node = min(readers, key=lambda reader: positions.get(reader, -1))
        readers.remove(node)
        if node not in positions or not nodes.is_operator(node, *broadcasting):
            return ()
        others = [value for value in node.inputs if value not in smaller]
        if any(_has(value, sizes) for value in others):
            continue
        if not all(_has(value, dict.fromkeys(sizes, 1)) for value in others):
            return ()
        smaller.append(node.outputs[0])
        readers |= {use.node for use in node.outputs[0].uses()}
    return () if any(value.is_graph_output() for value in smaller) else tuple(smaller)


def _has(value: Any, sizes: Mapping[int, int]) -> bool:
    """Whether a tensor has these sizes; an axis that it lacks counts as 1."""
    if value is None or value.shape is None:
        return False
    shape = nodes.shape_of(value)
    return all((shape[axis] if -axis <= len(shape) else 1) == size for axis, size in sizes.items())


NEUTRAL: Mapping[str, float | None] = MappingProxyType(
    {"Reshape": None, "Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}
)
"""An operator -> the operand that changes nothing; None if any second input may change nothing."""

RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")
"""Operators that give a tensor another shape alone."""


def fuse_operators(model: Any, *, keeps_attention: bool = False, for_cpu: bool = False) -> Any:
    """A simplified graph, converted to its opset, with its nodes fused into the largest operators of the opset.

    Attention without a kernel stays in several nodes, unless a later pass reads it: `keeps_attention`. `for_cpu`: the
    graph has nodes that save time on processors alone, for prompts of a decoder.
    """
    from onnx_ir.passes import common

    opset = model.opset_imports.get("", 0)
    has_attention = opset >= ATTENTION_OPSET
    lacking = [name for name, since in KERNELS.items() if name.startswith("Attention-") and since is None]
    has_kernel = opset in range(ATTENTION_OPSET, min(int(name.partition("-")[2]) for name in lacking))
    fused = (fuse_attention,) if keeps_attention or has_kernel else ()
    # Each layer gets masks and tables of its own at first.
    of_attention = (*fused, nodes.merge_equal_nodes, simplify_masks) if has_attention else ()
    if has_attention and any(nodes.is_operator(node, "Neg", "Sub") for node in model.graph):  # a rotation has one
        of_attention = (fuse_rotary, *of_attention)
    reshaped = (node.inputs[0] for node in model.graph if nodes.is_operator(node, "Reshape"))
    of_groups = (multiply_groups,) if any(nodes.producer(value, "Expand") for value in reshaped) else ()
    remove_unused = common.RemoveUnusedNodesPass()
    always = (drop_neutral_nodes, drop_expands, fuse_norms, fold_reciprocal)
    of_cpu = (bound_hidden_scores,) if for_cpu else ()
    for fuse_pass in (*always, *of_attention, *of_groups, reshape_once, drop_neutral_nodes, add_bias_last, *of_cpu):
        remove_unused(fuse_pass(model))  # an unused node still counts as a consumer of its inputs
    model.graph.sort()
    return common.NameFixPass()(model).model


def drop_neutral_nodes(model: Any) -> Any:
    """Removes nodes that output their input unchanged (a reshape to its shape, plus 0, times 1), but for outputs."""
    for node in list(model.graph):
        source, output = _unchanged_input(node), node.outputs[0]
        if source is not None and source.dtype == output.dtype and not output.is_graph_output():
            sizes = nodes.shape_of(source)
            if sizes and None not in sizes and sizes == nodes.shape_of(output):
                output.replace_all_uses_with(source)
    return model


def reshape_once(model: Any) -> Any:
    """Computes a chain of reshapes at once, by a constant shape: its sizes are numbers, or those of the same axis."""
    for last in list(model.graph.all_nodes()):
        node, once = last if nodes.is_operator(last, *RESHAPES) else None, None
        while node is not None:
            shape = _constant_shape(node.inputs[0], last.outputs[0])
            # A node alone stays if its shape or its axes are constant.
            if shape and (node is not last or nodes.integers(node.inputs[-1]) is None):
                once = (node.inputs[0], nodes.int_constant(model.graph, *shape))
            node = nodes.producer(node.inputs[0], *RESHAPES)
        if once:
            nodes.compute_by(last.outputs[0], "Reshape", once)
    return model


def _constant_shape(tensor: Any, reshaped: Any) -> list[int]:
    """The shape that a Reshape of a tensor needs, with 0 for an axis that stays; none if it is to be computed."""
    before, after = nodes.shape_of(tensor), nodes.shape_of(reshaped)
    sizes = [size if isinstance(size, int) or size not in before[axis : axis + 1] else 0
             for axis, size in enumerate(after)]  # fmt: skip
    return [] if None in after or 0 in after or not all(isinstance(size, int) for size in sizes) else sizes


def _unchanged_input(node: Any) -> Any:
    """The input that a node outputs unchanged, except for its shape and dtype; None if it changes all inputs."""
    split = nodes.producer(node.inputs[0], "Split") if node.op_type == "Concat" else None
    if split is not None and tuple(node.inputs) == tuple(split.outputs):  # with another axis the shape is another
        return split.inputs[0]
    if node.op_type not in NEUTRAL or node.domain:
        return None
    neutral = NEUTRAL[node.op_type]
    if neutral is None or nodes.scalar(node.inputs[1]) == neutral:
        return node.inputs[0]
    return node.inputs[1] if node.op_type in ("Add", "Mul") and nodes.scalar(node.inputs[0]) == neutral else None


def fusions(model: Any) -> tuple[Fusion, ...]:
    """The count of each fused operator of its opset in a graph and its subgraphs, under its standard name."""
    counts = Counter(node.op_type for node in model.graph.all_nodes())
    counts["Attention"] += counts["GroupQueryAttention"]
    opset = model.opset_imports.get("", 0)
    return tuple(Fusion(name, counts[name]) for name, since in SINCE.items() if opset >= since and counts[name])
