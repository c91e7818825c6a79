"""PyTorch's model gets the quantized weights of a file, in every form in which a file may hold them."""

import numpy as np
import onnx
import pytest
import tiny
import torch
from stock_quantizers import FORMATS, quantized_in_blocks

import onnxfn
from onnxfn.check.variants.file_weights import with_file_weights
from onnxfn.models.dtypes import in_dtype
from onnxfn.models.read_weights import rows_of

TASKS = {
    "llama": "text-generation",  # matrices [outputs, inputs]
    "gpt2": "text-generation",  # matrices [inputs, outputs], a tied table
    "mixtral": "text-generation",  # matrices of experts
    "resnet": "image-classification",  # kernels
}
DTYPES = ("q4", "q8", "int8", "bnb4")
UNEVEN = {"hidden_size": 40, "head_dim": 8, "intermediate_size": 72}
"""Sizes that are no multiple of a block."""


def exported(model_type, folder, dtype=None, **sizes):
    spec, model = tiny.spec_and_model(model_type, TASKS[model_type], **sizes)
    onnxfn.export(spec, model, folder, dtypes=(dtype,) if dtype else (), check=False)
    return model, next(folder.glob("*.onnx"))


def assert_near(model, of_file):
    own, every = model.state_dict(), of_file.state_dict(keep_vars=True)
    read = [name for name, tensor in every.items() if rows_of(tensor)]
    copied = in_dtype(of_file, "float64").state_dict()
    for name in read:
        left, right = copied[name].flatten(), own[name].double().flatten()
        assert copied[name].shape == own[name].shape
        assert 0.97 < torch.nn.functional.cosine_similarity(left, right, dim=0) < 1, name
    assert all(torch.equal(copied[name], own[name].double()) for name in every.keys() - read)
    return read


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model_type", TASKS)
def test_a_model_has_the_weights_of_each_form(model_type, dtype, tmp_path):
    model, file = exported(model_type, tmp_path / "out", dtype)
    read = assert_near(model, with_file_weights(model, file))
    if model_type != "resnet":
        assert len(read) > len([name for name in model.state_dict() if "_proj" in name or "c_" in name]) // 2
    assert bool(read) or (model_type, dtype) in (("resnet", "q4"), ("resnet", "bnb4"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_that_are_not_full_have_no_padding_and_rows_are_those_of_the_whole_weight(dtype, tmp_path):
    model, file = exported("llama", tmp_path / "out", dtype, **UNEVEN)
    read = with_file_weights(model, file)
    assert assert_near(model, read)
    for tensor in read.parameters():
        if rows := rows_of(tensor):
            whole = rows(slice(None))
            assert torch.equal(rows(slice(3, 8)), whole[3:8])
            assert torch.equal(rows(torch.tensor([7, 2])), whole[[7, 2]])


@pytest.mark.parametrize("form", FORMATS)
def test_a_model_has_the_weights_that_stock_quantizers_write(form, tmp_path):
    model, own = exported("llama", tmp_path / "own")
    file = FORMATS[form](own, tmp_path / "quantized" / "model.onnx")
    assert len(assert_near(model, with_file_weights(model, file))) == 15


def test_a_tied_table_that_a_file_has_as_floats_stays(tmp_path):
    """The stock quantizer leaves the table, and quantizes the output layer that is tied to it."""
    model, own = exported("llama", tmp_path / "own", tie_word_embeddings=True)
    file = quantized_in_blocks(own, tmp_path / "quantized" / "model.onnx")
    stored = {tensor.name for tensor in onnx.load(file).graph.initializer}
    state = with_file_weights(model, file).state_dict(keep_vars=True)
    read = {name for name, tensor in state.items() if rows_of(tensor)}
    tied = {"lm_head.weight", "model.embed_tokens.weight"}
    assert tied & read == (tied if not tied & stored else tied & read - {"model.embed_tokens.weight"})
    assert len(read) >= 14


def test_a_weight_of_a_file_is_the_product_of_its_codes_and_scales(tmp_path):
    model, file = exported("llama", tmp_path / "out", "q4")
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(file).graph.initializer}
    name = "model.layers.1.mlp.down_proj.weight"
    codes, scales = arrays[f"{name}.codes"], arrays[f"{name}.scales"].astype(np.float32)
    unpacked = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*scales.shape, -1)
    expected = ((unpacked.astype(np.float32) - 8) * scales[..., None]).reshape(len(scales), -1)
    values = in_dtype(with_file_weights(model, file), "float32").state_dict()[name]
    assert np.array_equal(values.numpy(), expected[:, : values.shape[1]])
