"""The passes that find norms, by the root of the mean square, and that say a root as ONNX Runtime finds it."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from onnxfn.graphs.passes.nodes import (
    attribute,
    beside,
    dims,
    filled_with,
    instead,
    made,
    maker,
    number,
    numbers,
    reader,
)
from onnxfn.graphs.passes.opsets import ATTENTION_OPSET

SQUARE = 2
"""The power of a square; its root is the power of one part in so many."""


@frozen(eq=False)
class Norm:
    """A norm that was found: of what, times what, and the value that it makes."""

    taken: Any
    scale: Any
    epsilon: float
    given: Any


def normalized(model: Any) -> Any:
    """Before: a converted graph. After: a norm is one operator, where the opset has it.

    `x / sqrt(mean(x * x) + epsilon) * w` is an RMSNormalization, from opset 23 on; where `x` is `y - mean(y)` it is a
    LayerNormalization of `y`. The weight stays the tensor it was; where it is computed of the model's own (`1 + w`), so
    is it still. A norm in another type than float32 is left as it is when nothing casts what it takes to float32
    first, as its sum would be of another type.
    """
    modern = model.opset_imports.get("", 0) >= ATTENTION_OPSET
    for node in list(model.graph):
        found = _norm(node) if node.op_type == "ReduceMean" else None
        centred = _centred(found.taken) if found is not None else None
        if found is not None and (modern or centred is not None):
            _replace(found, centred)
    return model


def divided(model: Any) -> Any:
    """Before: any graph. After: `x * (1 / r)` is `x / r`, one rounding less.

    ONNX Runtime then knows a norm by its root, also where the opset has no operator for it (SimplifiedLayerNormFusion).
    """
    for node in list(model.graph):
        times = reader(node.outputs[0], "Mul") if node.op_type == "Reciprocal" and not node.domain else None
        if times is not None:
            given = times.outputs[0]
            taken = [beside(times, node.outputs[0]), node.inputs[0]]
            instead(given, made(times, "Div", taken, [(given, given.shape)]).outputs[0])
    return model


def _centred(taken: Any) -> Any:
    """y, of `y - mean(y)`."""
    node = maker(taken, "Sub")
    mean = maker(node.inputs[1], "ReduceMean") if node is not None else None
    return mean.inputs[0] if mean is not None and mean.inputs[0] is node.inputs[0] and _over_last(mean) else None


def _norm(mean: Any) -> Norm | None:
    squared = _squared(mean.inputs[0])
    if squared is None or not _over_last(mean):
        return None
    root = _root(mean.outputs[0])
    if root is None or not any(one is squared for one in root[1].inputs):
        return None
    return _weighted(squared, root[0], root[1].outputs[0])


def _squared(value: Any) -> Any:
    node = maker(value, "Pow", "Mul")
    if node is None:
        return None
    if node.op_type == "Pow":
        return node.inputs[0] if number(node.inputs[1]) == SQUARE else None
    return node.inputs[0] if node.inputs[0] is node.inputs[1] else None


def _over_last(mean: Any) -> bool:
    rank = len(dims(mean.inputs[0]))
    axes = numbers(mean.inputs[1]) if len(mean.inputs) > 1 else None
    return axes in ((-1,), (rank - 1,)) and bool(attribute(mean, "keepdims", 1))


def _root(mean: Any) -> tuple[float, Any] | None:
    """The epsilon, and the node that divides by the root of what is the mean and it."""
    added: Any = reader(mean, "Add")
    epsilon = 0.0 if added is None else number(beside(added, mean))
    root = reader(mean if added is None else added.outputs[0], "Sqrt", "Pow")
    if root is None or epsilon is None:
        return None
    rooted = root.outputs[0]
    if root.op_type == "Pow":
        scaled = reader(rooted, "Mul") if number(root.inputs[1]) == -1 / SQUARE else None
    else:
        scaled = reader(rooted, "Div") or _inverse(reader(rooted, "Reciprocal"))
    divides = scaled is not None and (scaled.op_type != "Div" or scaled.inputs[1] is rooted)
    return (epsilon, scaled) if divides else None


def _inverse(node: Any) -> Any:
    return None if node is None else reader(node.outputs[0], "Mul")


def _weighted(taken: Any, epsilon: float, given: Any) -> Norm | None:
    """The norm with its weight, and in the type that it came in, where it is cast to and from float32."""
    import onnx_ir

    if taken.dtype != onnx_ir.DataType.FLOAT:
        return None
    widened, narrowed = maker(taken, "Cast"), reader(given, "Cast")
    if widened is not None and narrowed is not None and narrowed.outputs[0].dtype == widened.inputs[0].dtype:
        taken, given = widened.inputs[0], narrowed.outputs[0]
    size = dims(taken)[-1]
    weighted = reader(given, "Mul")
    weight: Any = beside(weighted, given) if weighted is not None else None
    if weighted is not None and dims(weight) == (size,) and weight.dtype == taken.dtype:
        return Norm(taken, weight, epsilon, weighted.outputs[0])
    return Norm(taken, None, epsilon, given) if isinstance(size, int) else None


def _replace(found: Norm, centred: Any) -> None:
    last = found.given.producer()
    size = dims(found.taken)[-1]
    scale = filled_with(last.graph, 1.0, [size], found.taken.dtype) if found.scale is None else found.scale
    kind, taken = ("RMSNormalization", found.taken) if centred is None else ("LayerNormalization", centred)
    node = made(last, kind, [taken, scale], [(found.given, found.given.shape)], axis=-1, epsilon=found.epsilon)
    instead(found.given, node.outputs[0])
