"""Nodes are named after the modules that compute them; calls of layer functions, inlined, are the plain graph."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
import tiny
import transformers
from graph_equality import first_difference, timed
from small_graphs import run_unoptimized

import onnxfn
from onnxfn import BuildOptions, WriteOptions
from onnxfn.graphs.build import build_graph
from onnxfn.graphs.layers.layer_functions import with_layer_functions
from onnxfn.graphs.layers.repeated_layers import repeated_layers
from onnxfn.graphs.nodes.nodes import module_path, nodes_inside_out
from onnxfn.graphs.passes.naming import SOURCE
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.weights.onnx_files import LAYERS, onnx_model, parsed_model

CONVOLUTIONS = {"wav2vec2.feature_extractor.conv_layers": 4, "wav2vec2.feature_extractor.conv_layers_1": 2}
FAMILIES = {
    "bert": ("fill-mask", {"bert.encoder.layer": 6}),
    "llama": ("text-generation-with-past", {"model.layers": 6}),
    "gemma3_text": ("text-generation-with-past", {"model.layers": 6}),
    "qwen3_moe": ("text-generation-with-past", {"model.layers": 6}),
    "vit": ("image-classification", {"vit.layers": 6}),
    "wav2vec2": ("automatic-speech-recognition", {"wav2vec2.encoder.layers": 6} | CONVOLUTIONS),
    "t5": ("text2text-generation-with-past", {}),
}
"""Model type -> the task of its graphs, and the calls of each function in the first graph."""


@pytest.fixture(scope="module", params=FAMILIES)
def built(request):
    """A model of six layers, its parts, and the graph of each; layers are repeated."""
    layers = {"layer_types": ["sliding_attention", "full_attention"] * 3} if "gemma" in request.param else {}
    spec, model = tiny.spec_and_model(request.param, FAMILIES[request.param][0], num_hidden_layers=6, **layers)
    parts = onnxfn.plan(spec, model.config).parts
    options = BuildOptions(find_repeats=repeated_layers)
    return request.param, model, parts, [build_graph(model, part, timed, options).model for part in parts]


def test_nodes_have_names_of_their_own_and_the_path_of_a_module(built):
    _, model, _, graphs = built
    modules = dict(model.named_modules())
    for graph in graphs:
        nodes = list(nodes_inside_out(graph.graph))
        assert [name for name, count in Counter(node.name for node in nodes).items() if count > 1] == []
        assert {module_path(node) for node in nodes} <= modules.keys()
        assert all(node.name.removeprefix(module_path(node)).lstrip("/").startswith(node.op_type) for node in nodes)


def test_a_product_with_a_weight_is_named_after_the_module_of_the_weight(built):
    _, model, _, graphs = built
    tied = Counter(id(weight) for _, weight in model.named_parameters(remove_duplicate=False))
    own = {name for name, weight in model.named_parameters() if tied[id(weight)] == 1}
    products = [node for graph in graphs for node in nodes_inside_out(graph.graph) if node.op_type == "MatMul"]
    weighted = [node for node in products if node.inputs[1].name in own]
    assert weighted
    assert [node for node in weighted if module_path(node) != node.inputs[1].name.removesuffix(".weight")] == []


def test_functions_inlined_again_are_the_plain_graph(built):
    name, _, parts, graphs = built
    for number, (part, graph) in enumerate(zip(parts, graphs, strict=True)):
        proto = onnx_ir.to_proto(with_layer_functions(graph))
        onnx.checker.check_model(proto, full_check=True)
        inlined = parsed_model(proto.SerializeToString())
        assert not [each for each in inlined.functions if each.domain == LAYERS]
        plain = onnx_ir.to_proto(graph)
        assert first_difference(onnx_ir.from_proto(inlined), onnx_ir.from_proto(plain)) is None
        inputs = {key: np.asarray(array) for key, array in dummies(part.spec, {}).items()}
        outputs = [run_unoptimized(onnx_ir.from_proto(each), **inputs) for each in (proto, plain)]
        assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(*outputs, strict=True))
        if number == 0 and FAMILIES[name][1]:
            assert Counter(node.op_type for node in proto.graph.node if node.domain == LAYERS) == FAMILIES[name][1]


@pytest.mark.parametrize("dtype", ["float16", "q8", "q4"])
def test_quantized_files_have_functions_and_pass_the_check(dtype, bert, tmp_path):
    spec = onnxfn.spec_for("bert", "fill-mask")
    plain = onnxfn.export(spec, bert, tmp_path / "plain", dtypes=[dtype])
    written = onnxfn.export(spec, bert, tmp_path / "out", dtypes=[dtype], write=WriteOptions(functions="layers"))
    calls = [node for node in onnx.load(written.files[0]).graph.node if node.domain == LAYERS]
    assert len(calls) == bert.config.num_hidden_layers
    both = [onnx_ir.from_proto(onnx_model(Path(each.files[0]))) for each in (written, plain)]
    assert len(list(both[0].graph)) == len(list(both[1].graph))
    assert written.report.cases == plain.report.cases


def test_a_node_has_the_line_of_the_source_if_that_is_asked_for(bert, tmp_path):
    spec, package = onnxfn.spec_for("bert", "fill-mask"), Path(transformers.__file__).parents[1]
    exported = onnxfn.export(spec, bert, tmp_path / "out", build=BuildOptions(source_lines=True), check=False)
    nodes = {node.name: node for node in onnx_ir.load(exported.files[0]).graph}
    lines = {name: node.metadata_props.get(SOURCE, "").split(":") for name, node in nodes.items()}
    for file, number in filter(lambda line: len(line) > 1, lines.values()):
        assert (package / file).read_text().splitlines()[int(number) - 1].strip()
    [file, number] = lines["bert.encoder.layer.1.intermediate.dense/MatMul"]
    assert file == "transformers/models/bert/modeling_bert.py"
    assert "self.dense(" in (package / file).read_text().splitlines()[int(number) - 1]
