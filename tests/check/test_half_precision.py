"""Models in half precision are exported as they are or in float32, and small faults in their graphs are found."""

import re
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
import tiny
import torch
from graph_edits import at, edited_file
from mutations import KINDS
from onnx import numpy_helper
from refusals import refusal
from vector_specs import vector_spec

import onnxfn
from onnxfn.models import dtypes
from onnxfn.models.dtypes import _converted, in_dtype, with_model_dtype

MODELS = {
    "bert": "fill-mask",
    "llama": "text-generation-with-past",
    "gpt2": "text-generation-with-past",
    "t5": "text2text-generation-with-past",
}


def spec_of(model_type):
    return onnxfn.spec_for(model_type, MODELS[model_type])


def model_of(model_type):
    return tiny.model(model_type, spec_of(model_type).call.loader)


@pytest.mark.parametrize(("model_type", "dtype"), [*((name, "float32") for name in MODELS), ("llama", "float16")])
def test_a_checkpoint_in_bfloat16_is_exported_in_another_dtype_and_stays_as_it_is(model_type, dtype, tmp_path):
    model = model_of(model_type).to(torch.bfloat16)
    assert onnxfn.export(onnxfn.with_dtypes(spec_of(model_type), float=dtype), model, tmp_path / "out").report.passed
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_a_model_with_a_layer_in_half_precision_is_refused_until_the_spec_has_a_dtype(tmp_path):
    model = model_of("bert")
    model.bert.encoder.layer[0].half()
    message = refusal(onnxfn.InvalidSpec, onnxfn.export, spec_of("bert"), model, tmp_path / "out")
    assert 'the dtypes float16, float32; choose that of the graph: with_dtypes(spec, float="float32")' in message
    assert not list(tmp_path.iterdir())
    assert onnxfn.export(onnxfn.with_dtypes(spec_of("bert"), float="float32"), model, tmp_path / "out").report.passed


@pytest.mark.parametrize("model_type", MODELS)
def test_a_model_in_float16_is_exported_as_it_is(model_type, tmp_path):
    exported = onnxfn.export(spec_of(model_type), model_of(model_type).half(), tmp_path / "out")
    assert exported.plan.parts[0].spec.target.float_dtype == "float16"
    assert "PyTorch in float64" in str(exported.report)
    floats = {tensor.data_type for tensor in onnx.load(exported.files[0]).graph.initializer} & {1, 10, 16}
    assert onnx.TensorProto.FLOAT16 in floats


def test_bisect_finds_no_difference_in_a_graph_in_float16(tmp_path):
    spec, model = onnxfn.with_dtypes(spec_of("bert"), float="float16"), model_of("bert")
    exported = onnxfn.export(spec, model, tmp_path / "model.onnx", check=False)
    assert "model.onnx: in the cases that run no output differs" in str(onnxfn.bisect(spec, model, exported))


def test_a_spec_with_a_float_dtype_and_a_model_in_float32_stay_as_they_are():
    chosen = onnxfn.with_dtypes(spec_of("bert"), float="float32")
    assert with_model_dtype(chosen, model_of("bert").half()) is chosen
    assert with_model_dtype(spec_of("bert"), model_of("bert")) == spec_of("bert")


@pytest.mark.parametrize(("dtype", "expected"), [("float32", None), ("float16", "float16"), ("float64", "float64")])
def test_a_parameter_in_float64_counts_only_where_all_have_it(dtype, expected):
    model = model_of("bert").to(getattr(torch, dtype))
    model.loss_scale = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    assert with_model_dtype(spec_of("bert"), model).target.float_dtype == expected


def test_a_copy_in_another_dtype_keeps_shared_weights_shared_and_the_model_as_it_was():
    model = model_of("gpt2")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    copy = in_dtype(model, "float64")
    assert copy.transformer.wte.weight is copy.lm_head.weight
    assert {parameter.dtype for parameter in copy.parameters()} == {torch.float64}
    copy.transformer.wte.weight.data += 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert in_dtype(model, "float32") is model


def test_a_model_is_converted_once_for_its_graphs_and_their_check(tmp_path, monkeypatch):
    model, counted = model_of("bert"), Mock(wraps=_converted)
    monkeypatch.setattr("onnxfn.models.dtypes._converted", counted)
    assert onnxfn.export(onnxfn.with_dtypes(spec_of("bert"), float="float16"), model, tmp_path / "out").report.passed
    floats = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
    assert [call.args[1] for call in counted.call_args_list].count(torch.float16) == len(floats)


# Faults


BERT_MATRIX, LLAMA_MATRIX = "bert.encoder.layer.0.output.dense.weight", "model.layers.1.mlp.down_proj.weight"
FAULTS = {
    "logits x 1.001, llama": ("llama", None, "logits shifted", "logits Mul 1.001"),
    "logits x 1.001, gpt2": ("gpt2", None, "logits shifted", "logits Mul 1.001"),
    "epsilon of one layer norm 1e-3": ("bert", None, "eps", " 0.001"),
    "noise of 1 % in a matrix, float16 bert": ("bert", "float16", "weight noise", f"{BERT_MATRIX} 1.0%"),
    "noise of 1 % in a matrix, float16 llama": ("llama", "float16", "weight noise", f"{LLAMA_MATRIX} 1.0%"),
    "masked at -5, float16 llama": ("llama", "float16", "mask weak", " = -5"),
    "masked at -5, float16 gpt2": ("gpt2", "float16", "mask weak", " = -5"),
}
"""A model, the dtype of its export, a kind of faults, and the end of the name of a site."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_small_fault_is_found(fault, tmp_path):
    model_type, dtype, kind, site = FAULTS[fault]
    spec, model = onnxfn.with_dtypes(spec_of(model_type), float=dtype), model_of(model_type)
    exported = onnxfn.export(spec, model, tmp_path / "out", check=False)
    edited_file(exported.files[0], at(KINDS[kind], site))
    report = onnxfn.validate(spec, model, exported)
    assert [difference.passed for difference in report.differences if difference.output == "logits"] == [False]
    assert any(difference.own_error for difference in report.differences)


# Where float64 cannot run


class Narrow(torch.nn.Linear):
    def forward(self, x):
        if x.dtype == torch.float64:
            raise TypeError("float64")
        for _ in range(40):
            x = super().forward(torch.sin(40 * x))
        return {"y": x}


SPEC = vector_spec(64)


def test_a_model_that_cannot_run_in_float64_is_compared_by_scale(tmp_path):
    model = Narrow(64, 64)
    report = onnxfn.validate(SPEC, model, onnxfn.export(SPEC, model, tmp_path / "model.onnx", check=False))
    assert not report.passed
    assert report.differences[0].references[0].startswith("PyTorch in float32, by scale: float64 cannot run: ")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_large_model_is_checked_without_a_copy_of_its_weights(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(dtypes.in_dtype_if_small, "__defaults__", (0,))
    monkeypatch.delattr(dtypes, "in_dtype")
    model = model_of("llama").bfloat16()
    spec = onnxfn.with_dtypes(spec_of("llama"), float=dtype)
    exported = onnxfn.export(spec, model, tmp_path / "out")
    assert exported.report.passed
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(exported.files[0]).graph.initializer}
    table = model.model.embed_tokens.weight.detach().to(getattr(torch, dtype)).numpy()
    assert np.array_equal(stored["model.embed_tokens.weight"], table)
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[:, :4] *= 1.1
    assert not onnxfn.validate(spec, model, exported).passed


def test_a_value_that_float16_cannot_hold_is_named(tmp_path):
    model = model_of("llama")
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[0, :3] = torch.tensor([7e4, -8e4, 1.0])
    spec = onnxfn.with_dtypes(spec_of("llama"), float="float16")
    assert refusal(onnxfn.InvalidSpec, onnxfn.export, spec, model, tmp_path / "out") == (
        "model.layers.1.mlp.down_proj.weight has 2 values that float16 cannot hold, the largest 8e+04; "
        'export in another dtype: with_dtypes(spec, float="float32")'
    )
    assert not list(tmp_path.iterdir())


class WithoutKernel(torch.nn.Linear):
    def forward(self, x):
        if x.dtype == torch.float16 and not torch.compiler.is_exporting():
            raise RuntimeError("\"sinc\" not implemented for 'Half'")
        return {"y": super().forward(x)}


def test_a_model_that_pytorch_cannot_run_in_float16_gets_an_error_that_says_what_to_do(tmp_path):
    message = refusal(onnxfn.CheckFailed, onnxfn.export, SPEC, WithoutKernel(64, 64).half(), tmp_path / "model.onnx")
    assert re.fullmatch(
        r"WithoutKernel does not run in PyTorch on inputs of model in case one \(.*\): RuntimeError: \"sinc\" not "
        r"implemented for 'Half'; .*; "
        r'export in float32: with_dtypes\(spec, float="float32"\)',
        message,
    )
