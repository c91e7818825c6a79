import json
from collections import Counter
from math import prod

import numpy as np
import onnx
import pytest
import tiny
from command_line import error_of, succeed
from onnx import TensorProto, helper

from onnxfn import export, spec_for
from onnxfn.export.report.graph_summary import graph_summary


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    model = tiny.model("llama", "AutoModelForCausalLM")
    dtypes = ("float32", "q4")
    export(spec_for(model, "text-generation-with-past"), model, folder / "out", check=False, dtypes=dtypes)
    return folder / "out"


def inspected(*words):
    return succeed("inspect", *words).stdout


@pytest.mark.parametrize("name", ["model", "model_q4"])
def test_the_summary_counts_what_onnx_reads(llama, name):
    file = llama / f"{name}.onnx"
    summary, proto = graph_summary(file), onnx.load(file)
    tensors = list(proto.graph.initializer)
    operators = {f"{node.domain}.{node.op_type}".removeprefix(".") for node in proto.graph.node}
    assert summary["operators"].keys() >= operators
    assert sum(facts["tensors"] for facts in summary["weights"].values()) == len(tensors)
    assert sum(facts["bytes"] for facts in summary["weights"].values()) == sum(len(each.raw_data) for each in tensors)
    elements = Counter()
    for tensor in tensors:
        elements[TensorProto.DataType.Name(tensor.data_type)] += prod(tensor.dims)
    assert sorted(facts["elements"] for facts in summary["weights"].values()) == sorted(elements.values())
    assert [port["name"] for port in summary["inputs"]] == [port.name for port in proto.graph.input]


def port(name, size=None):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, size)


def test_nodes_in_branches_are_counted(tmp_path):
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["inner"])], "branch", [], [port("inner")])
    chosen = helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    graph = helper.make_graph([chosen], "graph", [flag, port("x", ["n"])], [port("y")])
    onnx.save(helper.make_model(graph), tmp_path / "branches.onnx")
    assert graph_summary(tmp_path / "branches.onnx")["operators"] == {"Relu": 2, "If": 1}


def test_a_missing_file_with_weights_is_named(tmp_path):
    weight = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "weight")
    product = helper.make_node("MatMul", ["x", "weight"], ["y"])
    graph = helper.make_graph([product], "graph", [port("x", ["n", 64])], [port("y", ["n", 64])], [weight])
    model = helper.make_model(graph)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx_data", size_threshold=0)
    assert graph_summary(tmp_path / "m.onnx")["external_data"] == {"m.onnx_data": 64 * 64 * 4}
    (tmp_path / "m.onnx_data").unlink()
    assert graph_summary(tmp_path / "m.onnx")["external_data"] == {"m.onnx_data": None}
    assert "no such file" in inspected(tmp_path / "m.onnx")


def test_the_table_of_a_folder_has_each_file_and_one_row_for_all_layers(llama):
    text = inspected(llama)
    assert [line for line in text.splitlines() if not line.startswith(" ")] == ["model.onnx", "model_q4.onnx"]
    assert "past_key_values.{0,1}.key" in text
    assert "com.microsoft.MatMulNBits" in text
    assert max(map(len, text.splitlines())) <= 120


def test_the_parts_of_a_pipeline_have_the_names_of_their_folders(llama, tmp_path):
    for name in ("unet", "vae"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_bytes((llama / "model.onnx").read_bytes())
    assert [*json.loads(inspected(tmp_path, "--json"))] == ["unet/model.onnx", "vae/model.onnx"]


def test_json_has_the_same_facts(llama):
    facts = json.loads(inspected(llama / "model.onnx", "--json"))
    assert facts == {"model.onnx": json.loads(json.dumps(graph_summary(llama / "model.onnx")))}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{}/nothing.onnx"], "no file or folder"),
        (["{}"], "no ONNX file at"),
        (["{}/text.onnx"], "is not an ONNX file"),
        (["{}/text.onnx", "--task", "fill-mask"], "--task is for a model type"),
    ],
)
def test_wrong_paths_are_refused_in_one_line(tmp_path, words, message):
    if "text" in words[0]:
        (tmp_path / "text.onnx").write_text("no graph")
    assert message in error_of("inspect", *(word.format(tmp_path) for word in words))
