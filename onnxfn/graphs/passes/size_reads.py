"""The pass that reads each size of the inputs from one input."""

from __future__ import annotations

from typing import Any

from onnxfn.specs.algebra.planned import Part


def share_size_reads(model: Any, part: Part) -> Any:
    """Reads each dynamic size from the first input that has it.

    Before: the inputs are in the order of the plan. A Shape node may read a size from any of them.
    After: each Shape node that reads one axis reads it from the first input that has the symbol of this axis.

    torch reads the length of the past from the cache of any layer. After this pass no layer depends on the cache of
    another one for it.
    """
    first: dict[str, tuple[Any, int]] = {}
    symbols = dict(zip(model.graph.inputs, part.inputs.values(), strict=False))
    for value, axes in symbols.items():
        for axis, symbol in axes.items():
            first.setdefault(symbol, (value, axis))
    for node in [node for node in model.graph.all_nodes() if node.op_type == "Shape"]:
        axis = _axis(node)
        symbol = None if axis is None else symbols.get(node.inputs[0], {}).get(axis)
        if symbol is not None:
            value, axis = first[symbol]
            node.replace_input_with(0, value)
            node.attributes.update(_bounds(axis))
    return model


def _axis(shape: Any) -> int | None:
    """The axis that a Shape node reads; None if it reads several, or counts from the end."""
    start, end = (shape.attributes[name].as_int() if name in shape.attributes else None for name in ("start", "end"))
    return start if start is not None and end == start + 1 and start >= 0 else None


def _bounds(axis: int) -> dict[str, Any]:
    """The attributes of a Shape node that reads one axis."""
    import onnx_ir

    return {name: onnx_ir.AttrInt64(name, value) for name, value in (("start", axis), ("end", axis + 1))}
