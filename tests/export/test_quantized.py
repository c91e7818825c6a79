"""Quantized checkpoints: refused before a weight is read, or exported with float weights that the format says."""

import json
import re

import numpy as np
import onnx
import pytest
import tiny
import torch
from attrs import evolve
from command_line import invoke, succeed
from quantized_checkpoints import FORMATS, mxfp4, write_checkpoint, write_tensors
from refusals import refusal

import onnxfn
from onnxfn.specs.errors import LoadFailed
from onnxfn.weights.packed import quantized_checkpoint, stored_blocks

TASK = "text-generation-with-past"


def llama(folder, name="gptq", seed=0):
    sizes = {"num_hidden_layers": 1, "intermediate_size": 64, "num_key_value_heads": 4}
    model = tiny.model("llama", "AutoModelForCausalLM", **sizes)
    return write_checkpoint(model, folder, FORMATS[name], seed=seed)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_dequantized_as_its_description_says(name, tmp_path):
    _, expected = llama(tmp_path, name)
    model = onnxfn.model_for(str(tmp_path), TASK, dequantize=True)
    state = model.state_dict()
    assert state.keys() >= expected.keys()
    for key, weight in expected.items():
        assert torch.equal(state[key], weight), key
    assert model.name_or_path == str(tmp_path)
    assert model.onnxfn_weights_from.startswith(f"dequantized from {FORMATS[name].name}, ")
    assert getattr(model.config, "quantization_config", None) is None


def kept(folder, name="gptq"):
    """A model whose weights stay as the checkpoint stores them, and its spec."""
    llama(folder, name)
    model = onnxfn.model_for(str(folder), TASK)
    return onnxfn.spec_for(model, TASK), model


REASONS = {
    "gptq act-order": "its groups are not columns that follow one another (desc_act)",
    "gptq 3": "its integers have 3 bits, and those of MatMulNBits 4 or 8",
    "fp8": "its values are not integers with a scale and a zero point for each group of columns",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_quantized_checkpoint_is_refused_before_its_weights_are_read(name, tmp_path, monkeypatch):
    size, expected = llama(tmp_path, name)
    monkeypatch.setattr(quantized_checkpoint.QuantizedWeight, "rows", None)
    floats = 4 * sum(weight.numel() for weight in expected.values())
    text = refusal(LoadFailed, onnxfn.model_for, str(tmp_path), TASK)
    assert text == (
        f"{tmp_path} is quantized: {FORMATS[name].name}, {size / 1e9:.3g} GB; a graph cannot keep "
        f"model.layers.0.mlp.down_proj.weight: {REASONS[name]}; dequantize it (--dequantize, dequantize=True) to "
        f"export a float model of {floats / 1e9:.3g} GB in float32, half of that in float16, or export the checkpoint "
        "that it was made from"
    )
    result = invoke("export", tmp_path, tmp_path / "out")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, f"error: {text}")
    assert not (tmp_path / "out").exists()


def test_the_command_line_dequantizes_checks_and_reports(tmp_path):
    llama(tmp_path, "awq")
    out = tmp_path / "out"
    command = ["export", str(tmp_path), str(out), "--dequantize", "--task", TASK, "--no-template-cache"]
    assert "dequantized from AWQ with 4 bits, " in succeed(*command).stdout
    report = json.loads((out / "report.json").read_text())
    assert report["check"]["status"] == "passed"
    assert report["weights_from"].startswith("dequantized from AWQ with 4 bits, ")
    assert "quantization_config" not in json.loads((out / "config.json").read_text())


def gpt_oss(folder):
    model = tiny.model("gpt_oss", "AutoModelForCausalLM", hidden_size=64, intermediate_size=32)
    model = model.bfloat16()
    model.save_pretrained(folder)
    random, stored, expected = np.random.default_rng(0), {}, {}
    for name, tensor in model.state_dict().items():
        if name.endswith(("gate_up_proj", "down_proj")):
            parts, weight = mxfp4(random, *tensor.shape)
            stored |= {name + end: part for end, part in parts.items()}
            expected[name] = torch.from_numpy(weight)
        else:
            stored[name] = expected[name] = tensor.clone()
    write_tensors(folder, stored, {"quant_method": "mxfp4"})
    return expected


def test_mxfp4_is_what_transformers_makes_of_it(tmp_path):
    from transformers import AutoModelForCausalLM, Mxfp4Config

    expected = gpt_oss(tmp_path)
    options = {"dtype": torch.bfloat16, "quantization_config": Mxfp4Config(dequantize=True)}
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, **options).state_dict()
    state = onnxfn.model_for(str(tmp_path), TASK, dequantize=True).state_dict()
    for key, weight in expected.items():
        assert torch.equal(state[key], weight.float()), key
        assert torch.equal(state[key], theirs[key].float()), key


def test_fp8_is_what_transformers_makes_of_it(tmp_path):
    from transformers import AutoModelForCausalLM, FineGrainedFP8Config

    llama(tmp_path, "fp8")
    settings = FineGrainedFP8Config(weight_block_size=(8, 16), dequantize=True)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, quantization_config=settings)
    state = onnxfn.model_for(str(tmp_path), TASK, dequantize=True).state_dict()
    for key, weight in theirs.state_dict().items():
        assert torch.equal(state[key], weight), key


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"quant_method": "hqq"}, "is quantized by hqq, which onnxfn cannot read; known: gptq, awq, "),
        ({"quant_method": "awq", "version": "gemv"}, "AWQ with version='gemv', which onnxfn cannot read; known: gemm"),
        ({"quant_method": "gptq", "bits": 5}, "GPTQ with bits=5, which onnxfn cannot read; known: 2, 3, 4, 8"),
        ({"quant_method": "mxfp4"}, "is quantized (MXFP4) by its config.json, and none of its tensors is; it has: "),
    ],
)
def test_what_cannot_be_read_is_named(settings, text, tmp_path):
    llama(tmp_path, "gptq")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": settings}))
    assert text in refusal(LoadFailed, onnxfn.model_for, str(tmp_path), TASK, dequantize=True)


@pytest.mark.parametrize(
    ("name", "lost", "kind", "part"),
    [
        ("fp8", "model.layers.0.self_attn.q_proj.weight_scale_inv", LoadFailed, "no scales that onnxfn knows for"),
        ("gptq", "model.norm.weight", onnxfn.InvalidSpec, "lacks weights that LlamaForCausalLM needs: model.norm.wei"),
    ],
)
def test_a_checkpoint_that_lacks_scales_or_weights_is_refused(name, lost, kind, part, tmp_path):
    from safetensors.torch import load_file

    llama(tmp_path, name)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors[lost]
    write_tensors(tmp_path, tensors, FORMATS[name].settings)
    text = refusal(kind, onnxfn.model_for, str(tmp_path), TASK, dequantize=True)
    assert str(tmp_path) in text
    assert part in text


def dequantized(file):
    """The values of each MatMulNBits of a file, by the formula of ONNX Runtime's documentation: rows by columns."""
    graph = onnx.load(file).graph
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    matrices = {}
    for node in (node for node in graph.node if node.op_type == "MatMulNBits"):
        facts = {attribute.name: attribute.i for attribute in node.attribute}
        bits, block, columns = facts["bits"], facts["block_size"], facts["K"]
        codes, scales, zeros = (tensors[name] for name in node.input[1:4])
        values = np.empty((facts["N"], columns), np.float32)
        for row, column in np.ndindex(values.shape):
            group, flat = column // block, codes[row].reshape(-1)
            code, zero = (
                int(packed[index * bits // 8]) >> index * bits % 8 & 2**bits - 1
                for packed, index in ((flat, column), (zeros[row], group))
            )
            values[row, column] = np.float32(code - zero) * scales[row, group]
        matrices[node.input[1].removesuffix("_codes")] = values
    return matrices


@pytest.mark.parametrize("name", ["gptq", "gptq 8", "gptq v2", "gptq long", "awq", "packed", "packed asym"])
def test_weights_stay_as_they_are_stored_bit_for_bit(name, tmp_path):
    """The file is compared with PyTorch on the float weights that the description of the format says."""
    _, expected = llama(tmp_path, name)
    model = onnxfn.model_for(str(tmp_path), TASK)
    result = onnxfn.export(onnxfn.spec_for(model, TASK), model, tmp_path / "out")
    assert result.report.passed
    assert re.fullmatch(f"kept from {FORMATS[name].name}, .* GB; 7 matrices as they are stored", result.weights_from)
    matrices = dequantized(tmp_path / "out" / "model.onnx")
    assert len(matrices) == 7
    for key, values in matrices.items():
        assert np.array_equal(values, expected[key].numpy()), key


def test_a_float16_graph_keeps_scales_in_float16(tmp_path):
    spec, model = kept(tmp_path)
    spec = onnxfn.with_opset(onnxfn.with_dtypes(spec, float="float16"), 23)
    result = onnxfn.export(spec, model, tmp_path / "out")
    assert result.report.passed
    assert result.weights_from.endswith("; 7 matrices as they are stored")
    names = [tensor.name for tensor in onnx.load(tmp_path / "out" / "model.onnx").graph.initializer]
    assert not [name for name in names if name.endswith("proj.weight")]


def test_scales_that_the_dtype_of_the_graph_does_not_hold_are_refused(tmp_path):
    spec, model = kept(tmp_path, "awq")
    spec = onnxfn.with_dtypes(spec, float="bfloat16")
    text = refusal(onnxfn.InvalidSpec, onnxfn.export, spec, model, tmp_path / "out", check=False)
    assert "has scales in float16, and a graph in bfloat16 cannot keep them; export in float32, or dequantize" in text


def test_a_kept_matrix_whose_scales_are_halved_is_found_by_the_check(tmp_path):
    spec, model = kept(tmp_path)
    weight = stored_blocks.stored_weight(model.model.layers[0].mlp.down_proj.weight)
    packing = weight.format.packing
    halved = evolve(packing, scales=lambda *rows: packing.scales(*rows) / 2)
    wrong = evolve(weight, format=evolve(weight.format, packing=halved))
    setattr(model.model.layers[0].mlp.down_proj.weight, stored_blocks.ATTRIBUTE, wrong)
    with pytest.raises(onnxfn.CheckFailed):
        onnxfn.export(spec, model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_template_of_float_weights_serves_kept_ones(tmp_path):
    """The cache holds the graph of float weights; what a checkpoint stores is put into it later."""
    build = onnxfn.BuildOptions(template_cache=tmp_path / "cache")
    results = {}
    for name in ("gptq", "awq"):
        (tmp_path / name).mkdir()
        results[name] = onnxfn.export(*kept(tmp_path / name, name), tmp_path / f"{name} out", build=build)
    assert results["awq"].weights_from.endswith("; 7 matrices as they are stored")
    assert [stage for stage, _ in results["awq"].seconds if stage == "capture"] == []
