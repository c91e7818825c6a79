"""What each sweep asks of an export: it agrees with PyTorch, and its file has the planned names and axes."""

from __future__ import annotations

import onnx

from onnxfn.specs.axes import symbols, terms, value
from onnxfn.specs.dummies import dummies
from onnxfn.specs.plan.check_cases import cases, in_case


def assert_agreement(result, folder):
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


def assert_axis_sizes(result):
    """The result, when each moving axis of an output is as long in each case as its name says: `sequence_length // 2`.

    A name that no input has says nothing, as how long a speech will be.
    """
    for part in result.plan.parts:
        given = {one.output: one.shapes for one in result.report.differences if one.part == part.name}
        for place, overlay in enumerate(cases(part.spec)):
            sizes = sizes_in(part, dummies(in_case(part.spec, overlay), {}))
            for one in part.spec.outputs:
                for axis, symbol in symbols(one.axes).items():
                    if sizes.keys() >= set(terms(symbol)):
                        assert given[one.name][place][axis] == value(symbol, sizes), (one.name, overlay.name)
    return result


def sizes_in(part, arrays):
    """`{symbol: size}` of the moving axes of what goes in."""
    return {
        symbol: arrays[one.name].shape[axis] for one in part.spec.inputs for axis, symbol in symbols(one.axes).items()
    }
