"""The ranges of the values of an ONNX file, measured by ONNX Runtime."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.run.sessions import IN_PLACE_BYTES, check_options, run_session, watched_session
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.onnx_files import parsed_model, with_weights_in_place

REDUCTIONS = ("ReduceMin", "ReduceMax")
"""The operators whose outputs are the least and the largest element of a value."""


def value_ranges(
    file: Path,
    feeds: Iterable[Mapping[str, Array]],
    names: Collection[str] | None = None,
    content: bytes | None = None,
    tick: Tick = no_tick,
    outside: float = 0,
) -> Mapping[str, tuple[float, float]]:
    """From the name of a float value of an ONNX file to its least and its largest element over all feeds.

    `names`: the values; None is all that nodes of the outer graph compute. NaN does not count, nor a value without
    elements. `content` replaces the bytes of the file. `outside`: the share of the elements in one feed that may be
    below, and above. The graph computes the ranges, so no value stays in memory. CheckFailed if it does not run.
    """
    import onnx_ir
    from onnxruntime import ExecutionOrder

    content = content or with_weights_in_place(file, IN_PLACE_BYTES)
    model = onnx_ir.from_proto(parsed_model(content))
    every, options = _range_outputs(model, names, outside), check_options(file)
    # The default order may compute all values before the first range.
    options.execution_order = ExecutionOrder.PRIORITY_BASED
    session = watched_session(file, options, onnx_ir.to_proto(model).SerializeToString(), tick)
    runs = []
    for arrays in feeds:
        tick()
        outputs = run_session(session, None, arrays, f"{file.name} with the ranges of its values as outputs")
        runs.append(np.array(outputs, np.float64))
    pairs = np.array(runs).reshape(-1, len(every), 2)
    least, largest = pairs[..., 0].min(0, initial=np.inf), pairs[..., 1].max(0, initial=-np.inf)
    measured = zip(every, map(float, least), map(float, largest), strict=True)
    return {name: (low, high) for name, low, high in measured if low <= high}


def _range_outputs(model: Any, names: Collection[str] | None = None, outside: float = 0) -> tuple[str, ...]:
    """Makes ranges of float values, but the share `outside`, a graph's only outputs; returns the values' names."""
    import onnx_ir

    graph, floats = model.graph, ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")
    computed = [value for node in graph for value in node.outputs if value.name and value.dtype is not None]
    values = [each for each in computed if each.dtype.name in floats and (names is None or each.name in names)]
    graph.outputs.clear()
    for value in values:
        # Right after the node, so that ONNX Runtime needs not keep the value.
        nodes = [_quantile(value, operator, outside) for operator in REDUCTIONS]
        graph.insert_after(value.producer(), [node for each in nodes for node in each])
        for reduction in (each[-1] for each in nodes):
            output = reduction.outputs[0]
            output.type, output.shape = value.type, onnx_ir.Shape([])
            output.name = f"{value.name}.{reduction.op_type}"
            graph.outputs.append(output)
    return tuple(value.name for value in values)


def _quantile(value: Any, operator: str, outside: float) -> list[Any]:
    """The nodes from a value to its least or largest element, or to the one that has a share of them beyond it."""
    import onnx_ir

    if not outside:
        return [onnx_ir.node(operator, [value], attributes={"keepdims": 0})]
    nodes, dtypes = list[Any](), onnx_ir.DataType

    def node(operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        nodes.append(onnx_ir.node(operator, list(inputs), attributes=attributes, num_outputs=outputs))
        return nodes[-1].outputs[0]

    row = node("Constant", value_ints=[-1])
    count = node("Mul", node("Cast", node("Size", value), to=dtypes.FLOAT), node("Constant", value_float=outside))
    count = node("Reshape", node("Cast", node("Ceil", count), to=dtypes.INT64), row)
    largest = int(operator == "ReduceMax")
    ends = node("TopK", node("Reshape", value, row), count, outputs=2, largest=largest)
    node(REDUCTIONS[1 - largest], ends, keepdims=0)
    return nodes
