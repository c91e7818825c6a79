"""What each sweep asks of an export: it agrees with PyTorch, and its file has the planned names and axes."""

from __future__ import annotations

import onnx


def agreeing(result, folder):
    """The result, when its files do what the plan says and PyTorch computes."""
    assert result.report.passed
    assert all(one.max_abs < 1e-4 for one in result.report.differences)
    for part in result.plan.parts:
        graph = onnx.load(folder / f"{part.name}.onnx").graph
        assert list(in_file(graph.input).items()) == list(part.inputs.items())
        assert list(in_file(graph.output).items()) == list(part.outputs.items())
    return result


def in_file(values):
    """`{name: {axis: symbol}}` of what an ONNX file says moves."""
    return {
        value.name: {i: dim.dim_param for i, dim in enumerate(value.type.tensor_type.shape.dim) if dim.dim_param}
        for value in values
    }
