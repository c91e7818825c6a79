"""`insert_branches`: a file runs one of two graphs, as a condition on its sizes says."""

import numpy as np
import onnx_ir
import onnxruntime
import pytest
import torch
from small_modules import derived_export, module

import onnxfn
from onnxfn.graphs.passes.merging import insert_branches
from onnxfn.specs.conditions import Condition, is_true


def graph_of(number):
    x = onnx_ir.val("x", shape=("n", "m"), dtype=onnx_ir.DataType.FLOAT)
    constant = onnx_ir.node("Constant", [], {"value_float": number})
    constant.outputs[0].name, constant.outputs[0].dtype, constant.outputs[0].shape = "y", x.dtype, onnx_ir.Shape([])
    graph = onnx_ir.Graph([x], constant.outputs, nodes=[constant], opset_imports={"": 18}, name="graph")
    return onnx_ir.Model(graph, ir_version=10)


def joined(text):
    return insert_branches(graph_of(1.0), graph_of(0.0), Condition(text), {"n": ("x", 0), "m": ("x", 1)})


@pytest.mark.parametrize(
    "text",
    [
        *("n <= 3", "n != m", "n % 3 == 2 or m > 5", "not (n < m and m < 6)", "max(n, m) - 2 * min(n, m) >= 1"),
        *("(n - 4) // 3 == -1", "-(-n // 4) > 1", "(n - m) % 4 == 3", "n ** 2 + 1 > 3 * m"),
    ],
)
def test_the_first_graph_runs_where_the_condition_is_true_and_the_other_elsewhere(text):
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(joined(text)).SerializeToString())
    sizes = [(n, m) for n in range(1, 9) for m in range(1, 9)]
    ran = [bool(session.run(None, {"x": np.zeros(each, np.float32)})[0]) for each in sizes]
    assert ran == [is_true(text, {"n": n, "m": m}) for n, m in sizes]
    assert len({*ran}) == 2


@pytest.mark.parametrize("text", ["n / m > 1.5", "math.sqrt(n) > 2"])
def test_a_condition_of_real_numbers_has_no_branches(text):
    with pytest.raises(onnxfn.CaptureFailed, match="does not have for whole numbers"):
        joined(text)


def forward(self, x):
    return self.two(self.one(x)).cumsum(1) if x.shape[1] > 20 else self.two(self.one(x).tanh())


def of_two_ways():
    """A module of two layers, and its spec: a text of more than 20 steps goes another way."""
    model = module(forward, one=torch.nn.Linear(64, 64), two=torch.nn.Linear(64, 64))
    return model, onnxfn.derived(model, sample=torch.randn(2, 8, 64), axes="batch length 64")


def test_the_two_graphs_share_their_weights_and_are_quantized_alike(tmp_path):
    model, spec = of_two_ways()
    assert onnxfn.export(spec, model, tmp_path, dtypes=["float32", "q8"]).limits == ()
    names = [value.name for value in onnx_ir.load(tmp_path / "model.onnx").graph.initializers.values()]
    assert sorted(name for name in names if "." in name) == ["one.bias", "one.weight", "two.bias", "two.weight"]
    ran = onnxfn.load(tmp_path, dtype="q8")
    for length in (20, 21):
        x = torch.randn(3, length, 64)
        np.testing.assert_allclose(ran(x=x)["output"], model(x).detach(), atol=0.2)


@pytest.mark.parametrize(
    ("dtype", "remark"),
    [
        ("float16", "model_fp16: values that overflow in float16 were not looked for inside If '"),
        ("int8-static", "model_int8_static: activations inside of nodes stay floats beside static weights: 1, such as"),
    ],
)
def test_what_is_not_done_inside_of_branches_is_said(dtype, remark, tmp_path):
    model, spec = of_two_ways()
    floors = None if dtype == "float16" else onnxfn.Floors(cosine=0.9)
    result = onnxfn.export(spec, model, tmp_path, dtypes=[dtype], floors=floors or onnxfn.Floors())
    assert [each.startswith(remark) for each in result.plan.remarks] == [True]


class GrowingTable(torch.nn.Module):
    """Makes its table anew for a text that is longer than it, as fsmt does."""

    def __init__(self):
        super().__init__()
        self.grow(20)

    def grow(self, length):
        self.table = torch.nn.Parameter(torch.arange(length).float().sin(), requires_grad=False)

    def forward(self, x):
        if x.shape[1] > len(self.table):
            self.grow(x.shape[1])
        return x + self.table[: x.shape[1]]


def test_a_module_that_makes_a_weight_anew_for_long_texts_is_right_and_unchanged(tmp_path):
    model = GrowingTable()
    derived_export(model, torch.randn(2, 8), tmp_path, "batch length")
    ran = onnxfn.load(tmp_path)
    for length in (20, 21, 90):
        x = torch.randn(3, length)
        np.testing.assert_allclose(ran(x=x)["output"], GrowingTable()(x), atol=1e-6)
    assert type(model.table) is torch.nn.Parameter
    assert len(model.table) == 20
