"""A model whose weights are converted on use, or read from elsewhere, computes as a model that has them."""

import gc
import weakref

import numpy as np
import pytest
import tiny
import torch
from other_threads import in_another_thread
from refusals import refusal

import onnxfn
from onnxfn.models import casting
from onnxfn.models.casting import cast_on_use
from onnxfn.models.dtypes import in_dtype, in_dtype_if_small
from onnxfn.models.forward import torch_outputs
from onnxfn.models.read_weights import read, rows_of, with_rows
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


# Weights that are read from elsewhere


def halved(model):
    """A copy of a model that has half of each matrix, and one that reads halves; both on copies of the tensors."""
    every = model.state_dict(keep_vars=True)
    tensors = {name: each for name, each in every.items() if each.dim() > 1 and each.is_floating_point()}
    functions = {id(each): lambda index, each=each: each.detach().float()[index] / 2 for each in tensors.values()}
    reading = with_rows(model, {name: functions[id(each)] for name, each in tensors.items()})
    with_halves = in_dtype(model, "float64")
    for name, each in with_halves.state_dict().items():
        each.copy_(every[name].detach().double() / (2 if name in tensors else 1))
    return with_halves, reading


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "llama", "mixtral", "resnet", "t5"])
def test_weights_that_are_read_give_the_outputs_of_a_model_that_has_them(model_type, monkeypatch):
    monkeypatch.setattr(casting, "BLOCK", 64)
    spec = onnxfn.spec_for(model_type, MODELS[model_type])
    model = tiny.model(model_type, spec.call.loader or "AutoModel")
    with_halves, reading = halved(model)
    with_halves = in_dtype(with_halves, "float32")
    for part in onnxfn.plan(spec, model).parts:
        arrays = dummies(part.spec, {})
        copied = in_dtype_if_small(reading, "float32")
        assert not any(map(rows_of, copied.parameters()))
        outputs = (torch_outputs(each, part, arrays) for each in (reading, copied, with_halves))
        for array, of_copy, other in zip(*outputs, strict=True):
            np.testing.assert_array_equal(of_copy, other)
            np.testing.assert_allclose(array, other, rtol=0, atol=4e-6 * max(1, np.abs(other).max()))


def counted(weight, reads):
    def rows(index):
        result = weight[index]
        reads.append(len(result))
        return result

    return rows


@pytest.mark.parametrize(
    ("use", "rows"),
    [
        (lambda module: torch.nn.functional.embedding(torch.tensor([[3, 5, 3]]), module.weight), [2]),
        (lambda module: module.weight[7], [1]),
        (lambda module: module.weight[-1], [1]),
        (lambda module: module.weight[torch.tensor([4, 4, 9])], [2]),
        (lambda module: module.weight[2:6], [4]),
        (lambda module: module.weight.T, [100]),
        (lambda module: torch.nn.functional.linear(torch.ones(1, 8), module.weight), [33, 33, 33, 1]),
    ],
)
def test_the_rows_that_a_function_needs_are_read(use, rows, monkeypatch):
    monkeypatch.setattr(casting, "BLOCK", 256)
    module, values, reads = torch.nn.Module(), torch.randn(100, 8), []
    module.weight = torch.nn.Parameter(values)
    expected = use(module)
    module.weight = torch.nn.Parameter(torch.zeros(100, 8))
    reading = with_rows(module, {"weight": counted(values, reads)})
    with cast_on_use(reading, torch.float32):
        assert torch.allclose(use(reading), expected, atol=1e-6)
    assert reads == rows


def test_the_values_are_rounded_to_the_dtype_of_the_weight_only_where_it_is_asked_for():
    third = with_rows(torch.nn.Linear(2, 2).half(), {"weight": lambda index: torch.full((2, 2), 1 / 3)[index]})
    with cast_on_use(third, torch.float16):
        assert third.weight.dtype == torch.float16
    with cast_on_use(third, torch.float64):
        assert third.weight[0, 0].item() == pytest.approx(1 / 3, abs=1e-7)
    assert read(third.weight, torch.float64)[0, 0].item() == pytest.approx(1 / 3, abs=1e-7)
    assert in_dtype(third, "float64").weight[0, 0].item() == pytest.approx(1 / 3, abs=1e-7)


def test_tied_weights_stay_tied_and_the_model_is_as_it_was():
    model = tiny.model("gpt2", "AutoModelForCausalLM")
    names = ("lm_head.weight", "transformer.wte.weight")
    before = [model.state_dict(keep_vars=True)[name] for name in names]
    rows = torch.zeros_like(before[0]).detach().__getitem__
    reading = with_rows(model, dict.fromkeys(names, rows)).state_dict(keep_vars=True)
    assert reading[names[0]] is reading[names[1]]
    assert not any(map(rows_of, before))
    assert all(model.state_dict(keep_vars=True)[name] is each for name, each in zip(names, before, strict=True))


def test_a_model_that_cannot_be_copied_is_refused():
    class Locked(torch.nn.Linear):
        def __deepcopy__(self, memo):
            raise TypeError

    assert refusal(onnxfn.InvalidSpec, with_rows, Locked(2, 2), {"weight": torch.zeros(2, 2).__getitem__}) == (
        "Locked cannot be copied, so it cannot run with the weights of a quantized file; "
        "export it without a check: check=False"
    )
