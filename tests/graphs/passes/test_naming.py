import onnx_ir as ir
import pytest
from refusals import refusal

import onnxfn
from onnxfn.graphs.passes.naming import add_metadata, name_ports, order_ports
from onnxfn.specs.plan.planning import plan


def part(*specs):
    return plan(onnxfn.compose(*specs), {}).parts[0]


INPUT = onnxfn.takes("x", "batch_size width", "numbers", kind="float")
FIXED = "is dynamic in the plan (width), but the trace fixes it to 8; write 8 for it, or trace at sizes where it moves"
PLANNED = part(INPUT, onnxfn.gives("y", "batch_size width"))


def graph(shape=("s4", "s7"), *, inner_shape=("s4", "2*s7"), output_shape=None):
    def value(name, sizes):
        return ir.Value(name=name, shape=ir.Shape(sizes), type=ir.TensorType(ir.DataType.FLOAT))

    x = value("a", shape)
    first = ir.node("Add", [x, x], outputs=[value("y", inner_shape)])
    second = ir.node("Add", [first.outputs[0], x], outputs=[value("b", output_shape or shape)])
    return ir.Model(ir.Graph([x], second.outputs, nodes=[first, second], opset_imports={"": 18}), ir_version=10)


@pytest.mark.parametrize(("sizes", "named"), [("2*s7", "[batch_size,2*width]"), ("u9 + s7", "[batch_size,None]")])
def test_inner_values_get_other_names_and_the_symbols_that_the_plan_has(sizes, named):
    inner = name_ports(graph(inner_shape=("s4", sizes)), PLANNED).graph[0].outputs[0]
    assert (inner.name, str(inner.shape)) == ("y__inner", named)


def test_an_output_that_is_an_input_gets_its_own_name():
    model = graph()
    model.graph.outputs[0] = model.graph.inputs[0]
    named = name_ports(model, PLANNED).graph
    assert (named.inputs[0].name, named.outputs[0].name) == ("x", "y")


@pytest.mark.parametrize(
    ("model", "planned", "message"),
    [
        (graph(("s4", 8)), PLANNED, f"model: axis 1 of 'x' {FIXED}"),
        (graph(output_shape=("s4", 8)), PLANNED, f"model: axis 1 of 'y' {FIXED}"),
        (
            graph(output_shape=("s4", "s9")),
            part(INPUT, onnxfn.gives("y", "batch_size _")),
            (
                "model: axis 1 of 'y' is dynamic in the graph (s9), but the plan has no symbol for it; "
                "use gives('y', ...) with a word such as 'n' for axis 1"
            ),
        ),
        (
            graph(output_shape=("s4", 8)),
            part(INPUT, onnxfn.gives("y", "batch_size 9")),
            "model: axis 1 of 'y' is 8 in the graph, but 9 in the plan",
        ),
        (
            graph(),
            part(INPUT, onnxfn.gives("y", "batch_size")),
            "model: 'y' has 2 axes ([s4,s7]) in the graph, but the plan has [batch_size]",
        ),
        (graph(("s4",)), PLANNED, "model: 'x' has 1 axes ([s4]) in the graph, but the plan has [batch_size, width]"),
        (
            graph(),
            part(INPUT, onnxfn.takes("z", "batch_size", "numbers"), onnxfn.gives("y", "batch_size width")),
            "model: the graph has 1 inputs (a), but the plan has 2 (x, z)",
        ),
    ],
)
def test_a_graph_that_differs_from_the_plan_is_refused(model, planned, message):
    assert refusal(onnxfn.CaptureFailed, name_ports, model, planned) == message


def test_inputs_are_sorted_as_in_the_plan_and_one_that_the_graph_lacks_is_refused():
    planned = part(INPUT, onnxfn.takes("z", "batch_size", "numbers"), onnxfn.gives("y", "batch_size width"))
    model = name_ports(graph(), PLANNED)
    message = refusal(onnxfn.CaptureFailed, order_ports, model, planned)
    assert message == "model: the graph has no input z; it has x"
    model.graph.inputs.insert(0, ir.Value(name="z"))
    assert [value.name for value in order_ports(model, planned).graph.inputs] == ["x", "z"]


def test_metadata_names_the_producer_and_the_facts():
    model = add_metadata(graph(), {"task": "fill-mask"})
    assert (model.producer_name, model.producer_version) == ("onnxfn", onnxfn.VERSION)
    assert model.metadata_props["onnxfn.task"] == "fill-mask"
