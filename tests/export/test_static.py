"""Static int8 in QDQ form: `int8-static` and `uint8-static`."""

import logging
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from graph_edits import change_weights, constant, edited_file, new_constant, nodes
from onnxruntime.quantization import qdq_loss_debug
from refusals import refusal
from small_modules import module
from torch import nn

import onnxfn
from onnxfn.export.load.calibration import RUN_PICTURES, RUNS
from onnxfn.models.folded_norms import with_folded_norms
from onnxfn.specs.plan.real_inputs import picture_inputs

SHAPE, DTYPES = (2, 3, 32, 32), ("float32", "int8-static", "uint8-static")


def convolution(inputs, outputs, kernel=1, **options):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False, **options), nn.BatchNorm2d(outputs)
    )


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = convolution(3, 8, 3, stride=2)
        self.wide, self.depth, self.narrow = convolution(8, 24), convolution(24, 24, 3, groups=24), convolution(24, 8)
        self.shortcut, self.inner = convolution(8, 16, stride=2), convolution(8, 16, 3, stride=2)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, pixel_values):
        images = nn.functional.relu6(self.stem(pixel_values))
        images = images + self.narrow(nn.functional.relu6(self.depth(nn.functional.relu6(self.wide(images)))))
        images = torch.relu(self.shortcut(images) + self.inner(images))
        return {"logits": self.head(self.layer(images.flatten(2).mT).mean(1))}


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    model = Net()
    with torch.no_grad():
        for _ in range(20):  # the norms see pictures
            pictures = torch.randn(SHAPE) * 0.3 + torch.rand(2, 3, 1, 1) * 2 - 1
            model(pixel_values=pictures)
        for norm in (each for each in model.modules() if isinstance(each, nn.BatchNorm2d)):
            norm.weight.copy_(torch.randn_like(norm.weight).abs() + 0.2)
            norm.weight[0] *= -1
    return model.eval()


@pytest.fixture(scope="module")
def spec(net):
    axes = {"pixel_values": "batch_size _ _ _"}
    return onnxfn.derived(net, sample={"pixel_values": torch.randn(SHAPE)}, axes=axes, task="image-classification")


@pytest.fixture(scope="module")
def exported(net, spec, tmp_path_factory):
    return onnxfn.export(spec, net, tmp_path_factory.mktemp("static") / "out", dtypes=DTYPES)


def file_of(exported, dtype):
    ending = f"model_{dtype.replace('-', '_')}.onnx" if dtype in DTYPES[1:] else "model.onnx"
    return next(Path(file) for file in exported.files if file.endswith(ending))


def operators(file, folder):
    """The operators of a file after the optimizations of ONNX Runtime, which may read int8 activations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node)


@pytest.mark.skipif(
    "vnni" not in Path("/proc/cpuinfo").read_text(),
    reason="without VNNI, kernels of signed weights add two products in 16 bits, which overflow",
)
def test_pictures_that_did_not_calibrate_have_pytorchs_class(exported):
    measured = {(each.part, each.measure): each for each in exported.report.measurements}
    for part in ("model_int8_static", "model_uint8_static"):
        assert measured[part, "agreement"].value >= 0.98
        assert measured[part, "agreement"].cases == "32 pictures"
        assert measured[part, "cosine"].value > 0.999


def test_the_pictures_of_a_calibration_are_not_those_of_the_report(exported):
    part = exported.plan.parts[0]
    seeds = range(RUNS + 1)
    runs = [picture_inputs(part.spec, count=RUN_PICTURES, seed=seed)["pixel_values"] for seed in seeds]
    assert all(each.shape == (RUN_PICTURES, *SHAPE[1:]) for each in runs)
    assert not any(
        np.array_equal(mine, other) for own, *rest in [runs] for mine in own for each in rest for other in each
    )


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_onnx_runtimes_tools_match_every_weight_and_activation(exported, dtype, tmp_path, caplog):
    source, file = file_of(exported, "float32"), file_of(exported, dtype)
    read = Counter(node.op_type for node in onnx.load(file).graph.node)
    with caplog.at_level(logging.ERROR):
        weights = qdq_loss_debug.create_weight_matching(str(source), str(file))
    assert caplog.text == ""
    assert len(weights) == 11
    assert read["DequantizeLinear"] - read["QuantizeLinear"] == 11
    qdq_loss_debug.modify_model_output_intermediate_tensors(str(file), str(tmp_path / "watched.onnx"))
    arrays = picture_inputs(exported.plan.parts[0].spec, count=2, seed=9)
    values = qdq_loss_debug.collect_activations(str(tmp_path / "watched.onnx"), [arrays])
    activations = qdq_loss_debug.create_activation_matching(values)
    assert len(activations) == read["QuantizeLinear"]
    with_floats = {name: {**each, "float": each["pre_qdq"]} for name, each in activations.items()}
    noise = qdq_loss_debug.compute_activation_error(with_floats)
    assert min(each["qdq_err"] for each in noise.values()) > 15  # dB


def test_onnx_runtime_computes_with_integers(exported, tmp_path):
    found = operators(file_of(exported, "uint8-static"), tmp_path)
    assert found["QLinearConv"] == 6
    assert found["QLinearAdd"] >= 1
    assert found["MatMulIntegerToFloat"] == 3  # with two axes, a product and its bias become a Gemm of floats
    assert not found["Conv"] + found["FusedConv"] + found["BatchNormalization"]
    symmetric = operators(file_of(exported, "int8-static"), tmp_path)
    assert symmetric["QLinearConv"] >= 2  # Relu and zero points of 0 do not go together there
    assert symmetric["MatMulIntegerToFloat"] == found["MatMulIntegerToFloat"]


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_zero_points(exported, dtype):
    """int8 has zero in its middle, for weights and for what TensorRT reads."""
    graph = onnx.load(file_of(exported, dtype)).graph
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    readers = [node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    of_weights = [arrays[node.input[2]] for node in readers if node.input[0] in arrays]
    others = [arrays[node.input[2]] for node in readers if node.input[0] not in arrays]
    assert all(each.dtype == np.int8 and not each.any() for each in of_weights)
    signed = dtype == "int8-static"
    assert {each.dtype.name for each in others} == {"int8" if signed else "uint8"}
    assert any(each.any() for each in others) != signed


def report_after(exported, net, spec, dtype, folder, changes):
    """The report on a static file whose initializers were changed: a name -> a function of its array."""
    file = folder / "edited" / file_of(exported, dtype).name
    file.parent.mkdir()
    file.write_bytes(file_of(exported, dtype).read_bytes())
    change_weights(file, changes)
    return onnxfn.validate(spec, net, onnxfn.load(file.parent, dtype=dtype))


@pytest.mark.parametrize("name", ["layer.linear1.weight_scale", "wide.0.weight_scale"])
def test_a_wrong_scale_of_a_weight_is_a_finding(exported, net, spec, name, tmp_path):
    report = report_after(exported, net, spec, "uint8-static", tmp_path, {name: lambda scales: scales * 1.05})
    assert any("more than a step away" in line for line in report.findings)


def test_a_wrong_scale_of_an_activation_is_measured(exported, net, spec, tmp_path):
    """The graph is that of PyTorch, and its outputs are not."""
    graph = onnx.load(file_of(exported, "int8-static")).graph
    scale = next(node.input[1] for node in graph.node if node.op_type == "QuantizeLinear")
    report = report_after(exported, net, spec, "int8-static", tmp_path, {scale: lambda array: array / 20})
    assert not report.findings
    assert all(each.passed for each in report.differences)
    assert not all(each.passed for each in report.measurements)


def test_codes_that_are_read_with_another_scale_are_a_difference(exported, net, spec, tmp_path):
    def change(model):
        quantizer = next(node for node in nodes(model, "QuantizeLinear") if node.input[0] != "pixel_values")
        reader = next(node for node in nodes(model, "DequantizeLinear") if node.input[0] == quantizer.output[0])
        reader.input[1] = new_constant(model, np.float32(1.0))

    file = edited_file(file_of(exported, "int8-static"), change, tmp_path / "model_int8_static.onnx")
    report = onnxfn.validate(spec, net, onnxfn.load(file.parent, dtype="int8-static"))
    assert not all(each.passed for each in report.differences)


def test_arrays_of_the_caller_calibrate(exported, net, spec, tmp_path):
    np.savez(tmp_path / "own.npz", pixel_values=np.random.default_rng(0).normal(0, 9, SHAPE).astype(np.float32))
    floors = onnxfn.Floors(agreement=0.0, cosine=-1.0)
    options = {"dtypes": ["int8-static"], "floors": floors, "calibration": tmp_path / "own.npz"}
    other = onnxfn.export(spec, net, tmp_path / "out", **options)
    first = [onnx.load(file_of(each, "int8-static")) for each in (exported, other)]
    scales = [constant(each, nodes(each, "QuantizeLinear")[0].input[1]) for each in first]
    assert scales[1] > 3 * scales[0]
    (tmp_path / "own.npz").write_bytes(b"no arrays")
    assert "cannot be read" in refusal(onnxfn.InvalidSpec, onnxfn.export, spec, net, tmp_path / "none", **options)


def test_a_weight_that_a_rule_leaves_stays_in_floats(net, spec, tmp_path):
    rules = onnxfn.quantize(spec, bits=8, kind="static", read_by=["MatMul", "Conv"])
    kept = onnxfn.quantize(rules, where="head*", kind="as is")
    exported = onnxfn.export(kept, net, tmp_path / "out", check=False)
    names = {each.name for each in onnx.load(file_of(exported, "")).graph.initializer}
    assert {"head.weight", "wide.0.weight_quantized"} <= names


def test_norms_that_nothing_else_reads_are_folded(net):
    pictures = torch.randn(SHAPE)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}

    def run(model):
        with torch.no_grad():
            return [model(pixel_values=pictures)["logits"].numpy()]

    folded = with_folded_norms(net, [run])
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    np.testing.assert_allclose(run(folded)[0], run(net)[0], atol=1e-4)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_a_norm_stays_where_another_layer_reads_the_convolution():
    read_twice = lambda self, pixel_values: (y := self.convolution(pixel_values)) + self.norm(y)  # noqa: E731
    model = module(read_twice, convolution=nn.Conv2d(3, 3, 1), norm=nn.BatchNorm2d(3)).eval()
    model.norm.running_mean += 1
    assert with_folded_norms(model, [lambda each: [each(torch.ones(SHAPE)).detach().numpy()]]) is model
