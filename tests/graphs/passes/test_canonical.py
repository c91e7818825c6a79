"""The order and the names of a graph follow from its structure: not from the trace, and not from Python's hash seed."""

import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import onnx
import onnx_ir
import pytest
import swept
from exported_folders import content
from onnx import TensorProto, helper

from onnxfn.graphs.passes.canonical import order_by_structure

TESTS = Path(__file__).resolve().parents[2]

EXPORTS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import tiny, torch, onnxfn
for name in sys.argv[3:]:
    torch.manual_seed(0)
    task = next((task for task in onnxfn.tasks_for(name) if task.endswith("-with-past")), onnxfn.tasks_for(name)[0])
    spec = onnxfn.spec_for(name, task)
    onnxfn.export(spec, tiny.model(name, spec.call.loader), f"{sys.argv[2]}/{name}", check=False)
print(json.dumps(list(set(["full_attention", "sliding_attention"]))))
"""

MORE = (
    *("modernbert", "gemma3", "mimo_v2_flash", "cohere2", "beam", "gemma4_text", "dots1", "llama", "mamba2"),
    *("qwen3_moe", "bert", "t5", "bart", "whisper", "vit", "clip", "detr", "sam", "wav2vec2", "vits", "deberta-v2"),
    "nemotron_h",
)


# The code of Gemma 3 iterates over a set of layer types.
@pytest.mark.parametrize("names", swept.with_sweep([("gemma3_text",)], [(MORE,)]), ids=["sets", "many"])
def test_exports_in_two_processes_write_the_same_bytes(names, tmp_path):
    processes = {}
    for seed in ("0", "1"):
        command = [sys.executable, "-c", EXPORTS, str(TESTS / "tiny_models"), str(tmp_path / seed), *names]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        processes[seed] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    orders = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes.values()]
    first, second = (content(tmp_path / seed) for seed in processes)
    assert orders[0] != orders[1]
    assert {Path(name).parts[0] for name in first} == set(names)
    assert [name for name in first if first[name] != second.get(name)] == []


def branch(name, captured, weight):
    nodes = [
        helper.make_node("Neg", [captured], [f"{name}_neg"], name=f"{name}_1"),
        helper.make_node("Mul", [f"{name}_neg", weight], [f"{name}_out"], name=f"{name}_2"),
    ]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, ["n"])])


def shuffled_model(seed):
    """One graph, its nodes in a random order in which operands come first, and with random names of inner values."""
    shuffle = random.Random(seed)
    new = {}

    def name(old):
        return new.setdefault(old, f"val_{shuffle.randrange(10**9)}")

    steps = [
        ("Abs", ["x"], "abs"),
        ("Neg", ["x"], "neg"),
        ("Add", ["abs", "one"], "added"),
        ("Mul", ["neg", "two"], "scaled"),
        ("Greater", ["added", "scaled"], "greater"),
        ("ReduceMax", ["greater32"], "condition32"),
        ("Cast", ["greater"], "greater32"),
        ("Cast", ["condition32"], "condition"),
        ("Exp", ["scaled"], "captured"),
    ]
    nodes, done = [], {"x", "one", "two"}
    while steps:
        step = shuffle.choice([step for step in steps if set(step[1]) <= done])
        steps.remove(step)
        done.add(step[2])
        to = {"greater32": TensorProto.INT32, "condition": TensorProto.BOOL}
        more = {"to": to[step[2]]} if step[0] == "Cast" else {"keepdims": 0} if step[0] == "ReduceMax" else {}
        inputs = [value if value == "x" else name(value) for value in step[1]]
        nodes.append(helper.make_node(step[0], inputs, [name(step[2])], name=f"node_{shuffle.random()}", **more))
    branches = {
        key: branch(f"{key}_{shuffle.randrange(99)}", name(value), name("two"))
        for key, value in (("then_branch", "captured"), ("else_branch", "added"))
    }
    nodes.append(helper.make_node("If", [name("condition")], ["y"], name="if", **branches))
    nodes.append(helper.make_node("Sqrt", [name("added")], ["z"], name="last"))
    constants = [helper.make_tensor(name(key), TensorProto.FLOAT, [1], [one]) for key, one in (("one", 1), ("two", 2))]
    shuffle.shuffle(constants)
    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, ["n"]) for port in ("x", "y", "z")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def canonical(model):
    copy = onnx.ModelProto.FromString(model.SerializeToString())  # onnx_ir renames tensors in the model that it reads
    return onnx_ir.to_proto(order_by_structure(onnx_ir.from_proto(copy)))


def computed(model, x):
    import onnxruntime

    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})


def test_the_same_structure_has_the_same_bytes():
    models = [shuffled_model(seed) for seed in range(20)]
    assert len({model.SerializeToString() for model in models}) == 20
    assert len({canonical(model).SerializeToString() for model in models}) == 1


def test_the_graph_is_valid_and_computes_what_it_computed():
    import numpy as np

    for seed in range(3):
        model = shuffled_model(seed)
        ordered = canonical(model)
        onnx.checker.check_model(ordered, full_check=True)
        for x in (np.ones(3, np.float32), np.array([-2.0, 0.5, 3.0], np.float32)):
            for before, after in zip(computed(model, x), computed(ordered, x), strict=True):
                np.testing.assert_array_equal(before, after)


def test_names_say_the_operator_and_ports_keep_theirs():
    ordered = canonical(shuffled_model(0)).graph
    assert [value.name for value in (*ordered.input, *ordered.output)] == ["x", "y", "z"]
    assert {value.name for value in ordered.initializer} == {"constant_0", "constant_1"}
    names = [name for node in ordered.node for name in node.output]
    assert names[-2:] == ["y", "z"]
    assert {"Abs_0", "Neg_0", "Add_0", "Mul_0", "Exp_0", "Cast_0", "Cast_1"} <= set(names)
    assert [node.name for node in ordered.node if node.op_type == "Cast"] == ["Cast", "Cast_1"]


def canonical_graph(nodes, *names):
    """The graph of nodes with an input and an output of these names, in its order by structure."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in names]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:])
    return canonical(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)).graph


@pytest.mark.parametrize(
    ("names", "operators", "outputs", "expected"),
    [
        (("Abs_0", "Neg_0"), ("Abs", "Neg"), ["mid"], ["Abs_1"]),
        (("x", "y"), ("Dropout", "Neg"), ["mid", ""], ["Dropout_0"]),
    ],
    ids=["of a port", "of an output that is not computed"],
)
def test_a_name_is_not_given(names, operators, outputs, expected):
    first, last = operators
    nodes = [helper.make_node(first, names[:1], outputs), helper.make_node(last, ["mid"], names[1:])]
    assert [list(node.output) for node in canonical_graph(nodes, *names).node] == [expected, [names[1]]]


def test_a_deep_graph_needs_no_deep_stack():
    names = ["x", *(f"v{number}" for number in range(3000)), "y"]
    nodes = [helper.make_node("Neg", [before], [after]) for before, after in pairwise(names)]
    ordered = canonical_graph(nodes, "x", "y")
    assert len(ordered.node) == 3001
    assert ordered.node[-1].output == ["y"]
