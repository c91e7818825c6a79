"""Graphs of tiny models do not grow, and no axis becomes static: each row is compared with what was recorded of it."""

import onnx_ir
import pytest
import swept
import tiny

import onnxfn
from onnxfn.specs.tasks.tasks import task_names

FAMILIES = ("text", "decoders", "seq2seq", "vision", "detection", "multimodal", "audio", "series")
PAIRS = sorted({(name, task_names(onnxfn.ARCHITECTURES[name])[-1]) for each in FAMILIES for name in swept.seen(each)})
GROWTH = 1.02
"""The most nodes of a graph, divided by those that were recorded."""


def counts(line):
    """From the name of a file to its nodes and dynamic axes, out of `model.onnx 406 nodes 2 axes, ...`."""
    words = (text.split() for text in line.split(", "))
    return {name: (int(nodes), int(axes)) for name, nodes, _, axes, _ in words}


def line(folder):
    """What is recorded of the graphs in a folder. Axes are those of inputs and outputs, each for itself."""
    texts = []
    for file in sorted(folder.rglob("*.onnx")):
        model = onnx_ir.load(file)
        nodes = sum(1 for graph in [model.graph, *model.functions.values()] for _ in graph.all_nodes())
        shapes = [value.shape for value in (*model.graph.inputs, *model.graph.outputs)]
        axes = sum(not isinstance(size, int) for shape in shapes for size in shape)
        texts.append(f"{file.name} {nodes} nodes {axes} axes")
    return ", ".join(texts)


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), PAIRS)
def test_a_graph_has_no_more_nodes_than_were_recorded(model_type, task, tmp_path, only_left, record, request):
    only_left("nodes", model_type, task)
    spec = onnxfn.spec_for(model_type, task)
    onnxfn.export(spec, tiny.model(model_type, spec.call.loader), tmp_path / "out", check=False)
    now = line(tmp_path / "out")
    if request.config.getoption("--record"):
        record("nodes", model_type, task, now, set(PAIRS))
    else:
        before = counts(swept.seen("nodes")[model_type][task])
        assert counts(now).keys() == before.keys()
        for name, (nodes, axes) in counts(now).items():
            assert nodes <= before[name][0] * GROWTH, name
            assert axes >= before[name][1], name


def test_the_recorded_counts_are_of_this_table():
    assert swept.pairs("nodes") == set(PAIRS)
