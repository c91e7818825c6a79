"""Small passes: other opsets, simplification by onnxscript, sizes that are read twice, pads, wider integers."""

from collections.abc import Mapping
from copy import copy
from types import MappingProxyType
from typing import Any

import numpy as np

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.nodes import nodes
from onnxfn.specs.algebra.dummies import size_inputs
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import CaptureFailed

INPUT_LIMIT, OUTPUT_LIMIT = 8192, 512 * 512
"""The most elements of the inputs and of the output of a node that is folded to a constant."""


def simplify(model: Any) -> Any:
    """Folds constants, merges equal nodes, inlines functions, removes unused nodes, and gives values different names.

    Before: a graph as torch translates it. A Resize of constants is not folded: the reference evaluator of onnx takes
    minutes for it. CaptureFailed if one of the passes fails.
    """
    from onnx_ir.passes import PassManager, Sequential, common
    from onnxscript.rewriter import RewritePass

    options = {"shape_inference": True, "input_size_limit": INPUT_LIMIT, "output_size_limit": OUTPUT_LIMIT}
    fold = torch_name("FoldConstantsPass")(
        **options, should_fold=lambda node: False if node.op_type == "Resize" else None
    )
    rounds = PassManager([fold, RewritePass(_rules()), common.RemoveUnusedNodesPass()], steps=2, early_stop=True)
    passes = Sequential(
        *(common.InlinePass(), rounds, common.RemoveUnusedFunctionsPass(), common.RemoveUnusedOpsetsPass()),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        *(common.LiftSubgraphInitializersToMainGraphPass(), common.DeduplicateInitializersPass()),
        *(common.CommonSubexpressionEliminationPass(), common.RemoveUnusedNodesPass()),
        *(common.OutputFixPass(), common.NameFixPass()),
    )
    # A model may have constants that are not finite.
    with nodes.pass_errors("the simplification"), np.errstate(all="ignore"):
        passes(model)
    return model


def _rules() -> list[Any]:
    """The default rules of onnxscript without two kinds."""
    # Rules with several outputs are slow: onnxscript tries each pair of nodes. Rules that remove `+ 0` and `* 1` also
    # remove `+ 1e-8`, which is the epsilon of a norm (helium).
    no_op = {id(rule) for rule in torch_name("no_op_rules")}
    single = (rule for rule in torch_name("default_rules") if rule._target_pattern.has_single_output_node)
    return [_only_for_its_operator(rule) for rule in single if id(rule) not in no_op]


def _only_for_its_operator(rule: Any) -> Any:
    """A rule that tries only nodes of the last operator of its pattern: a fiftieth of all nodes."""
    operator = rule._target_pattern.output_node.op_identifier()
    if operator is None:
        return rule
    quick = copy(rule)
    quick.try_rewrite = lambda model, graph, node, **options: (
        rule.try_rewrite(model, graph, node, **options) if node.op_identifier() == operator else None
    )
    return quick


def read_numbers(model: Any, part: Part) -> Any:
    """Makes an input that is a number, the size of an axis, one number.

    Before: the inputs are in the order of the plan. That input is a tensor with this axis, which only Shape nodes read.
    After: the input is an int64 of one element, and one Reshape of it stands for these nodes.
    """
    import onnx_ir

    numbers = size_inputs(part.spec)
    ports = list(zip(part.spec.inputs, model.graph.inputs, strict=False))
    for input_, value in [(input_, of) for input_, of in ports if input_.name in numbers]:
        readers = [use.node for use in value.uses()]
        if strange := [node.op_type for node in readers if node.op_type != "Shape"]:
            raise CaptureFailed(f"a number that is the size of an axis is read as a tensor, by {strange[0]}")
        value.type = onnx_ir.TensorType(onnx_ir.DataType.INT64)
        value.shape = onnx_ir.Shape([1] * len(input_.axes.axes))
        if readers:
            size = onnx_ir.node("Reshape", [value, nodes.int_constant(model.graph, 1)])
            model.graph.insert_before(model.graph[0], size)
        for node in readers:
            node.outputs[0].replace_all_uses_with(size.outputs[0])
            model.graph.remove(node, safe=True)
    return model


def share_size_reads(model: Any, part: Part) -> Any:
    """Reads each dynamic size from the first input that has it: torch reads it from the cache of any layer."""
    import onnx_ir

    first: dict[str, tuple[Any, int]] = {}
    symbols = dict(zip(model.graph.inputs, part.inputs.values(), strict=False))
    for value, axes in symbols.items():
        for axis, symbol in axes.items():
            first.setdefault(symbol, (value, axis))
    for node in [node for node in model.graph.all_nodes() if node.op_type == "Shape"]:
        axis = nodes.read_axis(node)
        symbol = None if axis is None else symbols.get(node.inputs[0], {}).get(axis)
        if symbol is not None:
            value, axis = first[symbol]
            node.replace_input_with(0, value)
            bounds = {"start": axis, "end": axis + 1}
            node.attributes.update({name: onnx_ir.AttrInt64(name, end) for name, end in bounds.items()})
    return model


def separate_pads(model: Any) -> Any:
    """Names the axes of a Pad that a MaxPool reads, so that ONNX Runtime leaves it where it is (`pad_fusion.cc`)."""
    # ONNX Runtime 1.31 moves a Pad of all axes into the MaxPool, whose padding is not 0 but the lowest number.
    for node in [node for node in model.graph if nodes.is_operator(node, "MaxPool")]:
        pad = nodes.producer(nodes.first_input(nodes.producer(node.inputs[0], "Cast")) or node.inputs[0], "Pad")
        sizes = nodes.integers(pad.inputs[1]) if pad is not None and len(pad.inputs) <= 3 else None  # noqa: PLR2004 - no axes
        if sizes and any(sizes):
            rank = len(sizes) // 2
            axes = [axis for axis in range(rank) if sizes[axis] or sizes[rank + axis]]
            ends = [sizes[start + axis] for start in (0, rank) for axis in axes]
            pad.resize_inputs(4)
            pad.replace_input_with(1, nodes.int_constant(model.graph, *ends))
            pad.replace_input_with(3, nodes.int_constant(model.graph, *axes))
    return model


SIXTEEN: Mapping[str, str] = MappingProxyType({"INT16": "INT32", "UINT16": "INT32"})
COMPARED: Mapping[str, str] = MappingProxyType({**SIXTEEN, "UINT32": "INT64"})
SUMMED: Mapping[str, str] = MappingProxyType(
    {**COMPARED, "INT8": "INT32", "UINT8": "INT32", "UINT64": "INT64"}  # the bits of a sum or a product wrap around
)
"""Dtypes -> the wider dtype in which a group of operators is computed."""

# The largest integers of uint64 are negative in int64. So operators that compare, other than by equality, lack it.
WIDER: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("Max", "Min", "Clip", "Relu", "Resize", "Pad"), SIXTEEN),
        **dict.fromkeys(("ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK"), COMPARED),
        **dict.fromkeys(("ReduceSum", "ReduceProd", "CumSum", "MatMul", "Gemm", "Einsum", "Pow", "Trilu"), SUMMED),
        "Neg": MappingProxyType({name: wider for name, wider in SUMMED.items() if name.startswith("U")}),
        "NonZero": MappingProxyType({name: wider for name, wider in SUMMED.items() if name != "UINT8"}),
        "Where": MappingProxyType({**SIXTEEN, "UINT64": "INT64", "BOOL": "UINT8"}),
    }
)
"""Operator -> each dtype that it lacks in opset 18 or in ONNX Runtime 1.31 -> a wider dtype for the computation."""


def widen_integers(model: Any) -> Any:
    """Casts the inputs of an operator of integers to the dtype of WIDER where theirs has none, and its results back."""
    for node in list(model.graph):
        lacking = WIDER.get(node.op_type, {}) if node.domain == "" else {}
        for name in sorted(set(map(_dtype_name, _operands(node))) & lacking.keys()):
            node = _widened(node, name, lacking[name])  # noqa: PLW2901 - the node in its place
    return model


def _widened(node: Any, name: str, wider: str) -> Any:
    """A node in the place of another: its inputs that have a dtype are cast to a wider one, and its outputs back."""
    from onnx_ir import DataType

    def is_narrow(value: Any) -> bool:
        return _dtype_name(value) == name

    dtype = DataType[wider]
    operands = [nodes.cast_value(node, value, dtype) if is_narrow(value) else value for value in _operands(node)]
    outputs = [(dtype if is_narrow(value) else value, value.shape) for value in node.outputs]
    wide = nodes.insert_node(node, node.op_type, [*node.inputs[: -len(operands)], *operands], outputs)
    wide.attributes.update(node.attributes)
    for old, new in zip(node.outputs, wide.outputs, strict=True):
        nodes.replace_value(old, nodes.cast_value(node, new, DataType[name]) if is_narrow(old) else new)
    node.graph.remove(node, safe=True)
    return wide


def _operands(node: Any) -> Any:
    """The inputs of a node without the condition of Where, which is always bool."""
    return node.inputs[1:] if node.op_type == "Where" else node.inputs


def _dtype_name(value: Any) -> str:
    """The name of the dtype of a value; empty if it is not known."""
    return "" if value is None or value.dtype is None else str(value.dtype.name)


SINCE: Mapping[str, int] = MappingProxyType(
    {
        "LinearAttention": 27,
        "CausalConvWithState": 27,
        "TensorScatter": 24,
        "Attention": 23,
        "RMSNormalization": 23,
        "RotaryEmbedding": 23,
        "Gelu": 20,
        "LayerNormalization": 17,
    }
)
"""A fused operator -> the opset that brings it."""

ATTENTION_OPSET = SINCE["Attention"]


def convert_opset(model: Any, opset: int) -> Any:
    """Converts a graph to an opset; CaptureFailed if that fails: onnx's own converter leaves it without an error."""
    from onnxscript.version_converter import convert_version

    for node in model.graph:  # torch writes a graph without operators, an input that is an output, without a version
        node.version = node.version or model.opset_imports.get("", opset)
    if model.opset_imports.get("") != opset:
        with nodes.pass_errors(f"the conversion to opset {opset}"):
            # onnxscript 0.7 converts to 25 at most. The opsets 26 to 28 of ONNX 1.23 only add operators and dtypes.
            convert_version(model, min(opset, 25), fallback=False)
            model.opset_imports[""] = opset
            for node in model.graph.all_nodes():
                node.version = opset if node.domain == "" else node.version
    return model
