"""The sections of a graph: each node of it lies in exactly one, and the layers are those of the model."""

from functools import cache

import onnx
import pytest
import tiny
from attrs import evolve
from refusals import refusal

import onnxfn
from onnxfn.check.cuts.cut import EMBEDDING, HEAD, SHARED, check_coverage, graph_sections, layer_paths

PAST = "text-generation-with-past"
MODELS = {
    **dict.fromkeys(("llama", "gpt2", "gemma3_text", "lfm2", "falcon", "mixtral", "mamba", "opt", "cohere2"), PAST),
    **dict.fromkeys(("bert", "deberta-v2", "modernbert", "albert", "clip"), "feature-extraction"),
    "vit": "image-classification",
    "t5": "text2text-generation-with-past",
    "timesfm2_5": "time-series-forecasting",
}
"""Model type -> the task."""

PATHS = {
    "model.layers": ("llama", "gemma3_text", "lfm2", "mixtral", "cohere2", "timesfm2_5"),
    "transformer.h": ("gpt2", "falcon"),
    "encoder.layer": ("bert", "deberta-v2"),
    "backbone.layers": ("mamba",),
    "model.decoder.layers": ("opt",),
    "layers": ("modernbert",),
    "text_model.encoder.layers": ("clip",),
    "vit.layers": ("vit",),
    "encoder.block": ("t5",),
}
CHAINS = {model_type: path for path, model_types in PATHS.items() for model_type in model_types}
"""Model type -> the path of the list of its layers."""


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """A function from a model type to its model, the first part of its plan, and its graph; each is exported once."""

    @cache
    def graph(model_type):
        spec, model = tiny.spec_and_model(model_type, MODELS[model_type])
        folder = tmp_path_factory.mktemp(model_type) / "out"
        part = onnxfn.export(spec, model, folder, check=False).plan.parts[0]
        return model, part, onnx.load(folder / f"{part.name}.onnx").graph

    return graph


def sections_of(model, part, graph):
    layers = layer_paths(model, {each.name for each in graph.initializer})
    of_layers = [each.name for each in (*part.spec.inputs, *part.spec.outputs) if each.layer is not None]
    rank = {value.name: len(value.type.tensor_type.shape.dim) for value in (*graph.value_info, *graph.output)}
    return graph_sections(graph, layers, model.state_dict(), of_layers, lambda name, _: rank[name] == 3)


@pytest.mark.parametrize("model_type", CHAINS)
def test_each_node_lies_in_one_section_and_reads_the_weights_of_its_layer_and_earlier_sections(graphs, model_type):
    model, part, graph = graphs(model_type)
    sections = sections_of(model, part, graph)
    assert sorted(index for each in sections.sections for index in each.nodes) == list(range(len(graph.node)))
    paths = [f"{CHAINS[model_type]}.{index}" for index in range(len(sections.hidden) - 1)]
    names = [each.name for each in sections.sections]
    assert [name for name in names if name not in (SHARED, EMBEDDING, HEAD)] == paths
    of_section = {each.name: each for each in sections.sections}
    assert len(names) == len(of_section)
    for path in of_section.keys() - {SHARED, EMBEDDING, HEAD}:
        strange = [
            name
            for other in of_section.keys() - {path, SHARED}
            for index in of_section[other].nodes
            for name in graph.node[index].input
            if name.startswith(f"{path}.")
        ]
        assert strange == []
    known = {each.name for each in graph.input}
    for each in sections.sections:
        assert {*each.inputs} <= known, each.name
        known |= {*each.outputs}
    assert {each.name for each in graph.output} <= known


@pytest.mark.parametrize("model_type", ["llama", "bert"])
def test_a_section_that_is_left_out_is_found(graphs, model_type):
    model, part, graph = graphs(model_type)
    sections = sections_of(model, part, graph)
    for index in range(len(sections.sections)):
        fewer = evolve(sections, sections=sections.sections[:index] + sections.sections[index + 1 :])
        assert "the sections are not the whole graph: node" in refusal(onnxfn.CheckFailed, check_coverage, graph, fewer)
        twice = evolve(sections, sections=(*sections.sections, sections.sections[index]))
        assert "the sections are not the whole graph: node" in refusal(onnxfn.CheckFailed, check_coverage, graph, twice)


def test_a_model_whose_layers_share_weights_is_refused(graphs):
    message = refusal(onnxfn.InvalidSpec, sections_of, *graphs("albert"))
    assert message.startswith("AlbertModel has no list of layers with weights in this graph; check the whole graph")


def test_layers_that_are_no_chain_are_refused(graphs):
    model, part, graph = graphs("llama")
    changed = onnx.GraphProto()
    changed.CopyFrom(graph)
    early = next(node for node in changed.node if "model.layers.0.mlp.up_proj.weight" in node.input)
    late = next(node for node in changed.node if "model.layers.1.mlp.up_proj.weight" in node.input)
    add = onnx.helper.make_node("Add", [late.output[0], early.output[0]], ["past the hidden states"])
    reader = next(node for node in changed.node if late.output[0] in node.input)
    reader.input[[*reader.input].index(late.output[0])] = add.output[0]
    changed.node.insert([*changed.node].index(late) + 1, add)
    message = refusal(onnxfn.InvalidSpec, sections_of, model, part, changed)
    assert "no single value leads the hidden states into model.layers.1" in message
    assert "check the whole graph: --check whole" in message
