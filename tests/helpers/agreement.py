"""Assertions that hold for every export: it agrees with PyTorch, and its files have the planned names and axes."""

from pathlib import Path

import onnx

from onnxfn.check.cases.references import check_cases
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.specs.axes import symbols, terms, value


def assert_agreement(result):
    """Asserts that the files of an export agree with PyTorch and with the plan; returns the result."""
    assert result.report.passed
    # Outputs may be in the thousands, such as the masked scores of a layout: there the error relative to them counts.
    assert all(min(difference.max_abs, difference.max_rel) < 1e-4 for difference in result.report.differences)
    for part in result.plan.parts:
        graph = onnx.load(Path(result.path) / f"{part.name}.onnx").graph
        assert list(dynamic_axes(graph.input).items()) == list(part.inputs.items())
        assert list(dynamic_axes(graph.output).items()) == list(part.outputs.items())
    return result


def dynamic_axes(values):
    """`{name: {axis: symbol}}` of the dynamic axes of an ONNX graph's inputs or outputs."""
    return {
        value.name: {i: dim.dim_param for i, dim in enumerate(value.type.tensor_type.shape.dim) if dim.dim_param}
        for value in values
    }


def assert_axis_sizes(result):
    """Asserts that dynamic axes of outputs have the size of symbols of inputs, but for long texts."""
    for part in result.plan.parts:
        shapes = {
            difference.output: difference.shapes
            for difference in result.report.differences
            if difference.part == part.name
        }
        planned = [
            case for case in check_cases(part, limits=result.limits) if not case.name.startswith(("long", "far"))
        ]
        for index, case in enumerate(planned):
            arrays = dummies(case.spec, {})
            sizes = {
                symbol: arrays[input_.name].shape[axis]
                for input_ in part.spec.inputs
                for axis, symbol in symbols(input_.axes).items()
            }
            for output in part.spec.outputs:
                for axis, symbol in symbols(output.axes).items():
                    if sizes.keys() >= set(terms(symbol)):
                        assert shapes[output.name][index][axis] == value(symbol, sizes), (output.name, case.name)
    return result
