"""The graph of a written file, whatever shapes it states, and the runs of its sections one after the other."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser
from refusals import refusal

from onnxfn.check.cuts.cut import Section, Sections
from onnxfn.check.cuts.runs import run_sections, written_graph
from onnxfn.specs.stored.reports import CheckFailed

SCALARS = """<ir_version: 9, opset_import: ["": 18]>
scalars (float[n] x) => (float[n] y) <float factor = {2}>
{
    total = ReduceSum <keepdims = 0> (x)
    scaled = Mul (total, factor)
    y = Add (x, scaled)
}"""

BRANCHES = """<ir_version: 9, opset_import: ["": 18]>
branches (bool c, float[n] x) => (float[n] y)
{
    scaled = If (c) <
        then_branch = once () => (float inner) <float factor = {2}> { inner = Neg (factor) },
        else_branch = twice () => (float inner2) <float factor2 = {2}> { inner2 = Add (factor2, factor2) }
    >
    y = Mul (x, scaled)
}"""


def saved(model, folder):
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def graph_of_factor(model):
    """The graph with the initializer `factor`: the model's own, or the first branch."""
    graph = model.graph
    return graph if graph.initializer else graph.node[0].attribute[0].g


def stating(text, shape, array):
    """The model of a text that states a shape of `factor`, which has the elements of `array`."""
    model = parser.parse_model(text)
    graph = graph_of_factor(model)
    graph.value_info.append(onnx.helper.make_tensor_value_info("factor", TensorProto.FLOAT, shape))
    graph.initializer[0].CopyFrom(numpy_helper.from_array(array, "factor"))
    return model


@pytest.mark.parametrize("text", [SCALARS, BRANCHES])
def test_types_are_inferred_where_a_value_does_not_have_the_shape_that_the_file_states(text, tmp_path):
    expected = written_graph(saved(stating(text, [], np.float32(2)), tmp_path)).types
    assert expected.keys() >= {"x", "scaled", "y"}
    wrong = written_graph(saved(stating(text, [], np.ones(1, np.float32)), tmp_path))
    assert wrong.types == expected
    stated = graph_of_factor(wrong.model).value_info[0]
    assert stated.type.tensor_type.HasField("shape")  # what ONNX Runtime reads is as it was


def test_a_type_that_cannot_be_inferred_is_refused_with_the_name_of_the_file(tmp_path):
    text = refusal(CheckFailed, written_graph, saved(stating(SCALARS, [], np.float64(2)), tmp_path))
    assert text.startswith("ONNX cannot infer the types of the values in model.onnx: ")


def test_a_scalar_that_a_later_section_reads_is_still_a_scalar(tmp_path):
    written = written_graph(saved(parser.parse_model(SCALARS), tmp_path))
    first = Section("first", (0,), ("x",), ("total",))
    second = Section("second", (1, 2), ("x", "total"), ("scaled", "y"))
    outputs = {}
    for _, runs in run_sections(written, Sections((first, second), ()), [{"x": np.arange(3, dtype=np.float32)}], [{}]):
        for values in runs:
            outputs |= values
    assert outputs["scaled"].shape == ()
    np.testing.assert_array_equal(outputs["y"], [6, 7, 8])
