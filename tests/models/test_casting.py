"""A model computes in another float dtype than that of its weights, as a converted copy of it does."""

import gc
import weakref

import numpy as np
import pytest
import tiny
import torch
from other_threads import in_another_thread

import onnxfn
from onnxfn.models import casting
from onnxfn.models.casting import cast_on_use
from onnxfn.models.dtypes import in_dtype
from onnxfn.models.forward import torch_outputs
from onnxfn.models.torch_modes import torch_functions
from onnxfn.specs.algebra.dummies import dummies

MODELS = {
    "bert": "fill-mask",
    "gpt2": "text-generation-with-past",
    "llama": "text-generation-with-past",
    "mamba": "text-generation-with-past",
    "mixtral": "text-generation-with-past",
    "resnet": "image-classification",
    "t5": "text2text-generation-with-past",
    "wav2vec2": "audio-classification",
}


# torch has no product of experts in float64
PAIRS = [(model_type, dtype) for model_type in MODELS for dtype in ("float32", "float64")]
PAIRS.remove(("mixtral", "float64"))


@pytest.mark.parametrize(("model_type", "dtype"), PAIRS)
def test_weights_that_are_converted_on_use_give_the_outputs_of_a_converted_copy(model_type, dtype, monkeypatch):
    monkeypatch.setattr(casting, "BLOCK", 64)
    spec = onnxfn.with_dtypes(onnxfn.spec_for(model_type, MODELS[model_type]), float=dtype)
    model = tiny.model(model_type, spec.call.loader or "AutoModel").bfloat16()
    for part in onnxfn.plan(spec, model).parts:
        arrays = dummies(part.spec, {})
        expected = torch_outputs(in_dtype(model, dtype), part, arrays)
        for array, other in zip(torch_outputs(model, part, arrays), expected, strict=True):
            assert array.dtype == other.dtype
            np.testing.assert_allclose(array, other, rtol=0, atol=4e-6 * max(1, np.abs(other).max()))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_a_weight_has_the_dtype_for_all_that_asks():
    layer = torch.nn.Linear(4, 2).bfloat16()
    with cast_on_use(layer, torch.float32):
        assert layer.weight.dtype == layer.weight.T.dtype == layer.weight[0].dtype == torch.float32
        assert layer(torch.ones(3, 4)).dtype == torch.float32
        assert torch.cat([layer.weight, layer.weight]).dtype == torch.float32
    assert layer.weight.dtype == torch.bfloat16


def test_parts_of_a_weight_are_converted_alone():
    module = torch.nn.Module()
    module.experts = torch.nn.Parameter(torch.ones(1000, 8, dtype=torch.bfloat16))
    with cast_on_use(module, torch.float32):
        assert module.experts[3].untyped_storage().nbytes() == 8 * 4


def test_other_threads_compute_in_the_dtype_of_the_weights():
    layer = torch.nn.Linear(4, 2).bfloat16()
    with cast_on_use(layer, torch.float32):
        output = in_another_thread(layer, torch.ones(3, 4, dtype=torch.bfloat16))
    assert output.dtype == torch.bfloat16


def test_a_converted_weight_is_released_when_its_function_ends():
    layer, converted = torch.nn.Linear(64, 64).bfloat16(), []

    def watched(function, arguments, named):
        converted.extend(weakref.ref(each) for each in arguments if getattr(each, "ndim", 0) and len(each) == 64)
        return function(*arguments, **named)

    gc.disable()
    try:
        with torch_functions(watched), cast_on_use(layer, torch.float32):
            layer(torch.ones(3, 64))
        assert len(converted) > 1
        assert {id(reference()) for reference in converted} <= {id(None), id(layer.weight), id(layer.bias)}
    finally:
        gc.enable()
