"""Files that quantize activations: the graph is compared in its float form, and the groups have the form of onnxfn."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import tiny
from graph_edits import edited_file, new_constant, nodes, users
from stock_quantizers import quantized_dynamically

import onnxfn
from onnxfn.check.variants import file_weights
from onnxfn.check.variants.float_form import HALVES, float_form
from onnxfn.weights.onnx_files import with_inner_graphs

SPEC = onnxfn.spec_for("llama", "text-generation-with-past")
LOW = onnxfn.Floors(agreement=0.0, kl=9.0, cosine=-1.0, cases=-1.0)
"""Floors that random weights reach."""


@pytest.fixture(scope="module")
def llama():
    return tiny.model("llama", "AutoModelForCausalLM", tie_word_embeddings=True)


@pytest.fixture(scope="module")
def integers(llama, tmp_path_factory):
    """A file with integers, and a tied table in blocks of 8 bits at level 4."""
    folder = tmp_path_factory.mktemp("integers") / "out"
    onnxfn.export(SPEC, llama, folder, dtypes=("uint8",), check=False)
    return folder / "model_uint8.onnx"


def report_of(llama, file, change, folder):
    folder.mkdir()
    edited_file(file, change, folder / file.name)
    return onnxfn.validate(SPEC, llama, onnxfn.load(folder, dtype="uint8"), floors=LOW)


def operators(content):
    return {node.op_type for node in onnx.ModelProto.FromString(content).graph.node}


def test_a_float_form_has_no_integers_and_the_weights_of_the_file(integers):
    content, findings = float_form(integers)
    assert findings == ()
    assert operators(integers.read_bytes()) >= {"DynamicQuantizeLinear", "MatMulInteger", "MatMulNBits"}
    assert operators(content).isdisjoint({"DynamicQuantizeLinear", "MatMulInteger", "MatMulNBits"})
    names = [each.name for each in onnx.ModelProto.FromString(content).graph.initializer]
    own = [each.name for each in onnx.load(integers).graph.initializer]
    assert names[: len(own)] == own
    assert all(name.startswith("float_form_") for name in names[len(own) :])


@pytest.mark.parametrize("rule", [{"bits": 4}, {"bits": 4, "kind": "nf4"}, {"bits": 8, "kind": "dynamic"}])
def test_a_float_form_computes_nothing_in_16_bits(rule, tmp_path):
    """Not in the branches of a merged decoder either; the inputs stay as they are."""
    model = tiny.model("t5", "AutoModelForSeq2SeqLM")
    half = onnxfn.with_dtypes(onnxfn.spec_for(model, "text2text-generation-with-past"), float="float16")
    exported = onnxfn.export(onnxfn.quantize(half, read_by=["MatMul"], **rule), model, tmp_path / "out", floors=LOW)
    content, _ = float_form(next(Path(file) for file in exported.files if "merged" in str(file)), "float16")
    values = onnx.shape_inference.infer_shapes(onnx.ModelProto.FromString(content), strict_mode=True).graph
    computed = {name for graph in with_inner_graphs(values) for node in graph.node for name in node.output}
    types = {each.name: each.type for graph in with_inner_graphs(values) for each in (*graph.value_info, *graph.output)}
    assert {types[name].tensor_type.elem_type for name in computed & types.keys()}.isdisjoint(HALVES.values())


def test_a_file_whose_products_are_those_of_floats_has_no_other_form(tmp_path):
    onnxfn.export(SPEC, tiny.model("llama", "AutoModelForCausalLM"), tmp_path, dtypes=("bnb4",), check=False)
    assert "MatMulBnb4" in operators((tmp_path / "model_bnb4.onnx").read_bytes())
    assert float_form(tmp_path / "model_bnb4.onnx") == (None, ())


UNEVEN = {"hidden_size": 40, "head_dim": 8, "intermediate_size": 72}
"""Sizes that are no multiple of a block."""


@pytest.mark.parametrize(("model_type", "sizes"), [("llama", {}), ("gpt2", {}), ("llama", UNEVEN)])
@pytest.mark.parametrize("rule", [{"bits": 4}, {"bits": 4, "symmetric": False}, {"bits": 8, "accuracy_level": 4}])
def test_weights_in_blocks_are_the_same_in_memory_and_in_the_graph(model_type, sizes, rule, tmp_path, monkeypatch):
    """A large model has them in the graph alone. Blocks may not be full, and may have zero points."""
    model = tiny.model(model_type, "AutoModelForCausalLM", **sizes)
    spec = onnxfn.quantize(onnxfn.spec_for(model, "text-generation-with-past"), read_by=["MatMul"], **rule)
    errors = []
    for most in (file_weights.KEPT_WEIGHTS, 0):
        monkeypatch.setattr(file_weights, "KEPT_WEIGHTS", most)
        report = onnxfn.export(spec, model, tmp_path / str(most), floors=LOW).report
        assert report.passed
        errors.append([each.max_rel for each in report.differences])
    assert max(map(max, errors)) < 1e-5


def test_kernels_of_a_convolution_have_a_float_form(tmp_path):
    model = tiny.model("resnet", "AutoModelForImageClassification")
    spec = onnxfn.spec_for(model, "image-classification")
    floors = onnxfn.Floors(agreement=0.0, cosine=-1.0)
    report = onnxfn.export(spec, model, tmp_path / "out", dtypes=("uint8",), floors=floors).report
    assert "ConvInteger" in operators((tmp_path / "out" / "model_uint8.onnx").read_bytes())
    assert report.passed
    assert report.differences


def test_the_form_of_stock_quantizers_is_known(llama, tmp_path):
    onnxfn.export(SPEC, tiny.model("llama", "AutoModelForCausalLM"), tmp_path / "own", check=False)
    stock = quantized_dynamically(tmp_path / "own" / "model.onnx", tmp_path / "stock" / "model.onnx", signed=False)
    content, findings = float_form(stock)
    assert findings == ()
    assert "MatMulInteger" not in operators(content)


def without_zero_point(model):
    nodes(model, "MatMulInteger")[0].input[2] = new_constant(model, np.zeros((), np.uint8))


def with_another_scale(model):
    """The result is scaled with the weight's scale twice."""
    quantizer = nodes(model, "DynamicQuantizeLinear")[0]
    factor = users(model, quantizer.output[1], "Mul")[0]
    other = next(name for name in factor.input if name != quantizer.output[1])
    factor.input[:] = [other, other]


def with_codes_of_other_activations(model):
    quantizers = nodes(model, "DynamicQuantizeLinear")
    users(model, quantizers[len(quantizers) // 2].output[0], "MatMulInteger")[0].input[0] = quantizers[0].output[0]


@pytest.mark.parametrize("change", [without_zero_point, with_another_scale, with_codes_of_other_activations])
def test_a_group_of_another_form_is_a_finding(llama, integers, change, tmp_path):
    report = report_of(llama, integers, change, tmp_path / "out")
    assert not report.passed
    assert any("MatMulInteger whose neighbours are not those of onnxfn" in line for line in report.findings)


def test_the_file_itself_is_measured_too(llama, integers):
    """A right file is compared in its float form, and its own kernels are measured on the text."""
    report = onnxfn.validate(SPEC, llama, onnxfn.load(integers.parent, dtype="uint8"), floors=LOW)
    assert report.passed
    assert {each.output for each in report.differences} >= {"logits"}
    assert 0 < {each.measure: each.value for each in report.measurements}["kl"] < 0.1


def test_a_float_form_reads_weights_in_external_data(llama, tmp_path):
    write = onnxfn.WriteOptions(external_data_threshold=0)
    report = onnxfn.export(SPEC, llama, tmp_path / "out", dtypes=("uint8",), floors=LOW, write=write).report
    assert [*Path(tmp_path / "out").glob("*.onnx_data")]
    assert report.passed
    assert report.differences
