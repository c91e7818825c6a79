import pytest
import tiny
from graph_equality import timed

import onnxfn
from onnxfn.graphs import traced_graphs
from onnxfn.graphs.build import build_graph
from onnxfn.graphs.traced_graphs import graph_with_slots
from onnxfn.specs.errors import CaptureFailed


@pytest.fixture(scope="module")
def part(bert):
    return onnxfn.plan(onnxfn.spec_for("bert", "fill-mask"), bert).parts[0]


def failing(*_, **__):
    try:
        {}["weight"]
    except KeyError as error:
        raise RuntimeError("the pass manager failed\nand says more") from error


@pytest.mark.parametrize("name", ["simplify.simplify", "fuse_operators", "name_ports"])
def test_an_error_of_a_pass_names_the_part_the_line_and_the_cause(name, bert, part, monkeypatch):
    monkeypatch.setattr(f"onnxfn.graphs.traced_graphs.{name}", failing)
    with pytest.raises(CaptureFailed) as caught:
        build_graph(bert, part, timed, onnxfn.BuildOptions())
    line = failing.__code__.co_firstlineno + 4
    assert str(caught.value) == (
        f"a pass failed on the graph of 'model', at test_build.py:{line}: KeyError: 'weight'; "
        "please report it as a fault of onnxfn"
    )
    assert type(caught.value.__cause__) is RuntimeError


def test_the_line_is_the_last_one_of_a_pass(bert, part, monkeypatch):
    monkeypatch.setattr(traced_graphs, "fuse_operators", lambda *_, **__: None)
    with pytest.raises(CaptureFailed, match=r"at simplify.py:\d+: AttributeError: 'NoneType' object has no attribute"):
        build_graph(bert, part, timed, onnxfn.BuildOptions())


def test_an_error_of_a_pass_after_a_trace_of_few_layers_is_followed_by_a_trace_of_all(monkeypatch):
    model = tiny.model("bert", "AutoModel", num_hidden_layers=9)
    (part,) = onnxfn.plan(onnxfn.spec_for("bert", "feature-extraction"), model).parts
    monkeypatch.setattr(traced_graphs, "repeat_layers", failing)
    graph = graph_with_slots(model, part, timed, onnxfn.BuildOptions())
    assert graph.traced_layers.startswith("every layer traced: a pass failed on the graph of 'model', at ")
    assert not graph.from_repeats
