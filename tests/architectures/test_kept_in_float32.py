"""What a model of 16 bits keeps in float32, such as its routers, is float32 in a file of 16 bits: the same experts."""

import copy

import numpy as np
import onnx
import onnxruntime
import pytest
import tiny
import torch
from refusals import refusal

import onnxfn
from onnxfn.models.dtypes import dtypes_in, in_dtype
from onnxfn.models.forward import torch_outputs
from onnxfn.specs.algebra.dummies import dummies

TASK = "text-generation-with-past"
TOKENS = 300


def router_of(model):
    return model.model.layers[1].mlp.gate


def tokens():
    return torch.randint(1, 128, (1, TOKENS), generator=torch.Generator().manual_seed(1))


def experts_of(model):
    chosen = []
    hook = router_of(model).register_forward_hook(lambda _, __, result: chosen.append(result[2].numpy()))
    with torch.no_grad():
        model(input_ids=tokens())
    hook.remove()
    return np.sort(chosen[0], axis=-1)


def experts_of_file(file):
    """The experts that a file chooses: what its last TopK selects."""
    graph = onnx.load(file)
    last = [node for node in graph.graph.node if node.op_type == "TopK"][-1].output[1]
    graph.graph.output.append(onnx.helper.make_empty_tensor_value_info(last))
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    given = {"input_ids": tokens().numpy(), "attention_mask": np.ones((1, TOKENS), np.int64)}
    given |= {"position_ids": np.arange(TOKENS)[None]}
    caches = {
        each.name: np.zeros((1, each.shape[1], 0, each.shape[3]), np.float16)
        for each in session.get_inputs()
        if each.name not in given
    }
    named = {each.name: given[each.name] for each in session.get_inputs() if each.name in given}
    return np.sort(session.run([last], {**named, **caches})[0].reshape(TOKENS, -1), axis=-1)


def different(left, right):
    return int((left != right).any(axis=-1).sum())


@pytest.mark.parametrize(
    ("model_type", "is_float32"), [("deepseek_v3", False), ("glm4_moe", False), ("glm4_moe", True)]
)
def test_a_file_in_float16_chooses_the_experts_of_pytorch_in_float16(model_type, is_float32, tmp_path):
    """From transformers 5.24 on, its models keep the router in float32; before, PyTorch and the file round it."""
    wide = tiny.model(model_type, "AutoModelForCausalLM", num_local_experts=16, max_position_embeddings=TOKENS)
    weight, random = router_of(wide).weight, torch.Generator().manual_seed(5)
    with torch.no_grad():  # weights so close that the router tells the experts apart in float32, and not in float16
        common = torch.randn(1, weight.shape[1], generator=random) / 4
        weight.copy_(common + 3e-4 * torch.randn(weight.shape, generator=random))
    half = type(wide)._from_config(copy.deepcopy(wide.config), dtype=torch.float16).eval()
    half.load_state_dict(wide.state_dict())
    model, dtypes = (wide, ("float16",)) if is_float32 else (half, ())
    file = tmp_path / "model.onnx"
    onnxfn.export(onnxfn.spec_for(model, TASK), model, file, check=False, dtypes=dtypes)
    expected = experts_of(half)
    assert different(experts_of_file(file), expected) <= 1  # a hidden state is rounded otherwise
    if router_of(half).weight.dtype == torch.float32:
        assert different(experts_of(copy.deepcopy(half).half()), expected) > TOKENS // 10


def test_a_weight_that_transformers_keeps_is_float32_in_a_copy_and_where_it_is_converted_on_use():
    spec = onnxfn.with_dtypes(onnxfn.spec_for("t5", "text2text-generation-with-past"), float="float16")
    model = tiny.model("t5", "AutoModelForSeq2SeqLM")
    copied = in_dtype(model, "float16")
    kept = {name for name, parameter in copied.named_parameters() if parameter.dtype == torch.float32}
    assert kept == {name for name, _ in model.named_parameters() if name.endswith("wo.weight")}
    assert in_dtype(copied, "float16") is copied
    assert {parameter.dtype for parameter in in_dtype(copied, "float32").parameters()} == {torch.float32}
    for part in onnxfn.plan(spec, model).parts:
        arrays = dummies(part.spec, {})
        for array, other in zip(torch_outputs(model, part, arrays), torch_outputs(copied, part, arrays), strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_frequencies_of_rotary_embeddings_stay_in_float32(dtype):
    model = tiny.model("llama", "AutoModelForCausalLM")
    dtypes = dtypes_in(model, dtype)
    assert dtypes[id(model.model.rotary_emb.inv_freq)] == torch.float32
    assert {dtypes[id(parameter)] for parameter in model.parameters()} == {dtype}


class Island(torch.nn.Module):
    """Layers of 16 bits around one of 32, which casts what it takes and gives."""

    def __init__(self, size):
        super().__init__()
        self.first, self.last = (torch.nn.Linear(8, 8, dtype=torch.float16) for _ in range(2))
        self.island = torch.nn.Linear(8, size)

    def forward(self, x):
        return self.last(self.first(x) + self.island(x.float()).mean(-1, keepdim=True).half())


def test_a_module_of_16_bits_with_a_layer_of_32_is_exported_as_it_is(tmp_path):
    module = Island(8)
    exported = onnxfn.export(onnxfn.derived(module, sample={"x": torch.ones(2, 8).half()}), module, tmp_path / "out")
    types = {each.name: each.data_type for each in onnx.load(exported.files[0]).graph.initializer}
    assert types["island.bias"] == onnx.TensorProto.FLOAT
    assert types["first.bias"] == onnx.TensorProto.FLOAT16


def test_a_module_that_has_more_weights_of_32_bits_than_of_16_needs_a_dtype_of_the_spec(tmp_path):
    module = Island(64)
    spec = onnxfn.derived(Island(8).float(), sample={"x": torch.ones(2, 8)})
    assert "choose that of the graph" in refusal(onnxfn.InvalidSpec, onnxfn.export, spec, module, tmp_path / "out")
