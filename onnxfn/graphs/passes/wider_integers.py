"""A pass that computes integers in a wider dtype where ONNX, or ONNX Runtime's CPU, has no operator for their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

SIXTEEN: Mapping[str, str] = MappingProxyType({"INT16": "INT32", "UINT16": "INT32"})
COMPARED: Mapping[str, str] = MappingProxyType({**SIXTEEN, "UINT32": "INT64"})
SUMMED: Mapping[str, str] = MappingProxyType(
    {**COMPARED, "INT8": "INT32", "UINT8": "INT32", "UINT64": "INT64"}  # the bits of a sum or a product wrap around
)
"""Dtypes -> the wider dtype in which a group of operators is computed."""

WIDER: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("Max", "Min", "Clip", "Relu", "Resize", "Pad"), SIXTEEN),
        **dict.fromkeys(("ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK"), COMPARED),
        **dict.fromkeys(("ReduceSum", "ReduceProd", "CumSum", "MatMul", "Gemm", "Einsum", "Pow", "Trilu"), SUMMED),
        "Neg": MappingProxyType({name: wider for name, wider in SUMMED.items() if name.startswith("U")}),
        "NonZero": MappingProxyType({name: wider for name, wider in SUMMED.items() if name != "UINT8"}),
        "Where": MappingProxyType({**SIXTEEN, "UINT64": "INT64"}),
    }
)
"""Operator -> the dtypes that it lacks in opset 18 or in ONNX Runtime 1.31, and what it is computed in.

The largest integers of uint64 are negative in int64. So operators that compare, other than by equality, are not here.
"""


def widen_integers(model: Any) -> Any:
    """Computes integers in a wider dtype where their own has no operator.

    Before: an operator reads and gives integers of any dtype.
    After: where the dtype is in WIDER, its inputs are cast to the wider one, and its results back. The graph computes
    the same.
    """
    for node in list(model.graph):
        lacking = WIDER.get(node.op_type, {}) if node.domain == "" else {}
        dtypes = {value.dtype.name for value in node.inputs if _is_typed(value)} & lacking.keys()
        for name in sorted(dtypes):
            _widen(model.graph, node, name, lacking[name])
    return model


def _widen(graph: Any, node: Any, name: str, wider: str) -> None:
    """Casts the inputs of a node that have a dtype to a wider one, and its outputs back."""
    import onnx_ir

    for index, value in list(_of_dtype(node.inputs, name)):
        cast = _cast(value, wider)
        graph.insert_before(node, cast)
        node.replace_input_with(index, cast.outputs[0])
    for _, value in list(_of_dtype(node.outputs, name)):
        readers, is_output = list(value.uses()), value.is_graph_output()
        cast = _cast(value, name)
        cast.outputs[0].shape = value.shape
        graph.insert_after(node, cast)
        for reader, index in readers:
            reader.replace_input_with(index, cast.outputs[0])
        if is_output:
            graph.outputs[list(graph.outputs).index(value)] = cast.outputs[0]
        value.type = onnx_ir.TensorType(onnx_ir.DataType[wider])


def _cast(value: Any, dtype: str) -> Any:
    import onnx_ir

    node = onnx_ir.node("Cast", [value], {"to": int(onnx_ir.DataType[dtype])})
    node.outputs[0].type, node.outputs[0].shape = onnx_ir.TensorType(onnx_ir.DataType[dtype]), value.shape
    return node


def _of_dtype(values: Any, name: str) -> Iterator[tuple[int, Any]]:
    return ((index, value) for index, value in enumerate(values) if _is_typed(value) and value.dtype.name == name)


def _is_typed(value: Any) -> bool:
    return value is not None and value.dtype is not None
