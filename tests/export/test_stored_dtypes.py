"""Weights stay in the dtype of the checkpoint where nothing else depends on it."""

import every_part
import numpy as np
import onnx
import pytest
import tiny
import torch
from command_line import succeed
from onnx import numpy_helper

import onnxfn
from onnxfn.export.load.loading import load_configuration, load_model, stored_dtype
from onnxfn.export.run import requests
from onnxfn.export.run.requests import export_request
from onnxfn.models.casting import cast_on_use

SEES = "image-text-to-text-with-past"
TASKS = {"llama": "text-generation-with-past", "gemma2": "text-generation-with-past", "bert": "fill-mask"}


def checkpoint(model_type, dtype, folder):
    spec = onnxfn.spec_for(model_type, TASKS[model_type])
    tiny.model(model_type, spec.call.loader).to(dtype).save_pretrained(folder)
    return spec


def loaded(model_type, dtype, folder):
    spec = checkpoint(model_type, dtype, folder)
    return load_model(str(folder), load_configuration(folder), spec, as_stored=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_weights_stay_as_they_are_stored(dtype, tmp_path):
    model = loaded("llama", dtype, tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert model.config.dtype == torch.float32


def test_a_model_that_computes_a_table_is_loaded_in_float32(tmp_path):
    """Gemma multiplies its embeddings by a buffer, which would be rounded to bfloat16."""
    model = loaded("gemma2", torch.bfloat16, tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.model.embed_tokens.embed_scale.dtype == torch.float32


def test_weights_of_several_dtypes_quantized_ones_and_other_files_are_not_kept(tmp_path):
    checkpoint("llama", torch.bfloat16, tmp_path)
    config = load_configuration(tmp_path)
    assert stored_dtype(tmp_path, config) == "bfloat16"
    config.quantization_config = {"quant_method": "awq"}
    assert stored_dtype(tmp_path, config) is None
    del config.quantization_config
    (tmp_path / "pytorch_model.bin").touch()
    assert stored_dtype(tmp_path, config) is None
    assert stored_dtype(tmp_path / "absent", config) is None
    model = tiny.model("llama", "AutoModelForCausalLM").bfloat16()
    model.model.norm.float()
    model.save_pretrained(tmp_path / "mixed")
    assert stored_dtype(tmp_path / "mixed", config) is None


@pytest.mark.parametrize("model_type", TASKS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_command_line_writes_the_weights_of_a_model_in_float32(model_type, dtype, tmp_path):
    checkpoint(model_type, torch.bfloat16, tmp_path / "checkpoint")
    flags = ("--dtype", dtype, "--task", TASKS[model_type], "--layout", "optimum")
    succeed("export", tmp_path / "checkpoint", tmp_path / "out", *flags)
    spec = onnxfn.spec_for(model_type, TASKS[model_type])
    model = load_model(str(tmp_path / "checkpoint"), load_configuration(tmp_path / "checkpoint"), spec)
    onnxfn.export(onnxfn.with_dtypes(spec, float=dtype), model, tmp_path / "expected", check=False)
    files = (onnx.load(tmp_path / folder / "model.onnx") for folder in ("out", "expected"))
    stored, expected = ({each.name: numpy_helper.to_array(each) for each in file.graph.initializer} for file in files)
    assert stored.keys() == expected.keys()
    assert all(np.array_equal(stored[name], expected[name]) for name in expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_spec_is_derived_in_float32_from_weights_of_16_bits(dtype):
    """A model without a row runs on inputs in float32 to show its spec; its weights are not copied into memory."""
    half, model = (every_part.tiny_model("llava", SEES) for _ in range(2))
    half = half.to(dtype)
    with cast_on_use(half, torch.float32):
        spec = onnxfn.spec_for(half, SEES)
    assert spec == onnxfn.spec_for(model, SEES)
    assert {parameter.dtype for parameter in half.parameters()} == {dtype}


def test_a_checkpoint_without_a_row_is_loaded_as_stored(tmp_path, monkeypatch):
    every_part.tiny_model("llava", SEES).bfloat16().save_pretrained(tmp_path / "checkpoint")
    loaded = []
    loads = lambda *words, **named: loaded.append(load_model(*words, **named)) or loaded[-1]  # noqa: E731
    monkeypatch.setattr(requests, "load_model", loads)
    job = onnxfn.ExportRequest(tmp_path / "checkpoint", tmp_path / "out", edits={"task": SEES}, check="none")
    export_request(job)
    assert [str(each.dtype) for each in loaded] == ["torch.bfloat16"]
    tables = onnx.load(tmp_path / "out" / "onnx" / "embed_tokens.onnx").graph.initializer
    assert {table.data_type for table in tables if table.dims} == {onnx.TensorProto.FLOAT}
