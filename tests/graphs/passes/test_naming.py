"""The passes that name a graph, and prove that its axes are the planned ones."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from refusals import refusal

import onnxfn
from onnxfn.graphs.passes.naming import add_metadata, name_ports, strip_metadata
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.version import VERSION


def part(*specs):
    return plan(onnxfn.compose(*specs), {}).parts[0]


TAKES = onnxfn.takes("x", "batch_size width", "numbers", kind="float")
DOUBLED = part(TAKES, onnxfn.gives("y", "batch_size width"))


def graph(shape=("s4", "s7"), *, inside=("s4", "2*s7"), out=None):
    """y = (x + x) + x, with shapes as torch writes them."""

    def value(name, dims):
        return ir.Value(name=name, shape=ir.Shape(dims), type=ir.TensorType(ir.DataType.FLOAT))

    x = value("a", shape)
    first = ir.node("Add", [x, x], outputs=[value("y", inside)])
    second = ir.node("Add", [first.outputs[0], x], outputs=[value("b", out or shape)])
    made = ir.Graph([x], second.outputs, nodes=[first, second], opset_imports={"": 18})
    return ir.Model(made, ir_version=10)


def test_inputs_outputs_and_axes_have_the_names_of_the_plan():
    made = name_ports(graph(), DOUBLED).graph
    assert [str(value.shape) for value in (*made.inputs, *made.outputs)] == ["[batch_size,width]"] * 2
    assert [value.name for value in (*made.inputs, *made.outputs)] == ["x", "y"]


def test_values_inside_speak_of_the_plans_sizes_and_leave_its_names():
    inner = name_ports(graph(), DOUBLED).graph[0].outputs[0]
    assert (inner.name, str(inner.shape)) == ("y__inner", "[batch_size,2*width]")


def test_an_inner_size_that_the_plan_does_not_know_is_not_said():
    inner = name_ports(graph(inside=("s4", "u9 + s7")), DOUBLED).graph[0].outputs[0]
    assert str(inner.shape) == "[batch_size,None]"


def test_an_output_that_is_an_input_gets_a_name_of_its_own():
    model = graph()
    model.graph.outputs[0] = model.graph.inputs[0]
    made = name_ports(model, DOUBLED).graph
    assert (made.inputs[0].name, made.outputs[0].name) == ("x", "y")


@pytest.mark.parametrize(
    ("made", "planned", "told"),
    [
        (graph(("s4", 8)), DOUBLED, "model: axis 1 of 'x' should move as 'width'; the model fixes it: 8"),
        (graph(out=("s4", 8)), DOUBLED, "model: axis 1 of 'y' should move as 'width'; the model fixes it: 8"),
        (
            graph(out=("s4", "s9")),
            part(TAKES, onnxfn.gives("y", "batch_size _")),
            "model: axis 1 of 'y' moves (s9), but the plan gives it no name",
        ),
        (
            graph(out=("s4", 8)),
            part(TAKES, onnxfn.gives("y", "batch_size 9")),
            "model: axis 1 of 'y' is 8 where the plan says 9",
        ),
        (
            graph(),
            part(TAKES, onnxfn.gives("y", "batch_size")),
            "model: 'y' has 2 axes ([s4,s7]) where the plan says [batch_size]",
        ),
        (
            graph(),
            part(TAKES, onnxfn.takes("z", "batch_size", "numbers"), onnxfn.gives("y", "batch_size width")),
            "model: the graph has 1 inputs (a) where the plan has 2 (x, z)",
        ),
    ],
)
def test_a_graph_that_is_not_the_planned_one_is_refused(made, planned, told):
    assert refusal(CaptureFailed, name_ports, made, planned) == told


def test_a_stripped_graph_says_nothing_of_where_it_was_made():
    model = graph()
    model.graph[0].metadata_props["pkg.torch.onnx.stack_trace"] = "/home/someone/secret.py"
    assert "secret" not in str(ir.to_proto(strip_metadata(model)))


def test_a_stamped_graph_says_what_made_it():
    model = add_metadata(graph(), {"task": "fill-mask"})
    assert (model.producer_name, model.producer_version) == ("onnxfn", VERSION)
    assert model.metadata_props["onnxfn.task"] == "fill-mask"
