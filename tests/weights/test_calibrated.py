"""Codes of blocks that are chosen with real inputs: what they change in products, and how far they are from weights."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx_ir.tensor_adapters import TorchTensor
from transformers import AutoConfig, AutoModelForCausalLM

from onnxfn.models.product_inputs import product_inputs
from onnxfn.specs.quantization import REACH, WeightRule
from onnxfn.weights.calibrated import calibrated_codes, input_errors
from onnxfn.weights.onnxruntime_kernels import block_codes
from onnxfn.weights.quantized import QuantizedWeight, dequantized

RULES = st.builds(
    WeightRule, bits=st.sampled_from([2, 4, 8]), block_size=st.sampled_from([16, 32]), symmetric=st.booleans()
)


def drawn(seed, count, width):
    """A matrix of weights, and inputs each of which is mostly a sum of a few others."""
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(4 * width, width // 4)) @ generator.normal(size=(width // 4, width))
    inputs += 0.1 * generator.normal(size=inputs.shape)
    return generator.normal(size=(count, width)).astype(np.float32), torch.from_numpy(inputs.astype(np.float32))


def numbers(packed, count, bits):
    """The first numbers along the last axis of bytes that hold several, the first one in the low bits."""
    places = packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)
    return places.reshape(*packed.shape[:-1], -1)[..., :count].astype(np.float32)


def steps_and_values(arrays, rule, width):
    """The step of each element, its distance from zero in steps, and its value."""
    codes, scales, zeros = arrays
    points = numbers(zeros, scales.shape[1], rule.bits)[..., None]
    points = np.float32(2 ** (rule.bits - 1)) if rule.symmetric else points
    distances = numbers(codes, rule.block_size, rule.bits) - points
    steps = np.broadcast_to(scales.astype(np.float16).astype(np.float32)[..., None], distances.shape)
    return tuple(each.reshape(len(codes), -1)[:, :width] for each in (steps, distances, steps * distances))


def calibrated(rows, inputs, rule):
    return calibrated_codes(rows, input_errors(inputs.T @ inputs, len(inputs)), rule)


@given(st.integers(0, 2**16), RULES, st.integers(1, 40), st.integers(16, 70))
def test_a_code_is_within_reach_of_its_weight_but_for_what_the_range_clips(seed, rule, count, width):
    rows, inputs = drawn(seed, count, width)
    steps, _, values = steps_and_values(calibrated(rows, inputs, rule), rule, width)
    assert np.all(np.abs(values - rows) <= (REACH + 1.01) * np.abs(steps))


@given(st.integers(0, 2**16), RULES, st.booleans(), st.integers(16, 70))
def test_values_are_what_codes_scales_and_zero_points_stand_for(seed, rule, is_calibrated, width):
    rows, inputs = drawn(seed, 24, width)
    errors = input_errors(inputs.T @ inputs, len(inputs)) if is_calibrated else None
    nearest = block_codes(rows, rule.bits, rule.block_size, symmetric=rule.symmetric)
    arrays = nearest if errors is None else calibrated_codes(rows, errors, rule)
    weight = QuantizedWeight("w", TorchTensor(torch.from_numpy(rows)), rule, lambda _: errors)
    assert np.array_equal(dequantized(weight), steps_and_values(arrays, rule, width)[2])


@given(st.integers(0, 2**16), RULES)
def test_products_change_less_than_with_the_nearest_codes(seed, rule):
    rows, inputs = drawn(seed, 24, 64)
    nearest = block_codes(rows, rule.bits, rule.block_size, symmetric=rule.symmetric)
    errors = [
        np.square((steps_and_values(arrays, rule, 64)[2] - rows) @ inputs.numpy().T).sum()
        for arrays in (calibrated(rows, inputs, rule), nearest)
    ]
    assert errors[0] < errors[1]


@given(st.integers(0, 2**16), st.integers(-8, 4))
def test_weights_that_are_codes_times_a_scale_stay(seed, exponent):
    whole = np.random.default_rng(seed).integers(-8, 8, size=(8, 64)).astype(np.float32)
    whole[:, ::32] = -8
    codes = calibrated(whole * 2.0**exponent, drawn(seed, 1, 64)[1], WeightRule())
    _, _, values = steps_and_values(codes, WeightRule(), 64)
    assert np.array_equal(values, whole * 2.0**exponent)


class Layers(torch.nn.Module):
    """Two layers that get the same tensor, a third that gets a sum, and a table."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(9, 8)
        self.one, self.two, self.three = (torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, ids):
        states = self.table(ids)
        return self.three(states + self.one(states) + self.two(states))


@pytest.mark.parametrize("most", [1, 1 << 20])
def test_moments_are_of_all_runs_whatever_fits_into_memory(most):
    model, ids, calls = Layers().eval(), torch.arange(9), []

    def run(index):
        calls.append(index)
        model(ids[index::2])

    errors_of = product_inputs(model, lambda: [partial(run, index) for index in (0, 1)], most)
    states = model.table(ids).detach()
    inputs = {"one": states, "two": states, "three": (states + model.one(states) + model.two(states)).detach()}
    for name, rows in inputs.items():
        assert torch.allclose(errors_of(getattr(model, name).weight).squares, (rows * rows).sum(0), rtol=1e-5)
    assert errors_of(model.table.weight) is None
    assert calls == [0, 1] * (1 if most > 1 else 3)


class Stack(torch.nn.Module):
    """Layers that read the one before; the last one may read the first, too."""

    def __init__(self, reads_first):
        super().__init__()
        self.table, self.reads_first = torch.nn.Embedding(9, 8), reads_first
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(8, 8)) for _ in range(4))

    def forward(self, ids):
        results = [self.table(ids)]
        for layer in self.layers[:-1]:
            results.append(layer(results[-1]))
        return self.layers[-1](results[-1] + results[1] if self.reads_first else results[-1])


@pytest.mark.parametrize("reads_first", [False, True])
def test_a_run_begins_at_the_layer_where_it_ended_if_that_gives_the_same_inputs(reads_first):
    model, calls = Stack(reads_first).eval(), []
    model.layers[0][0].register_forward_hook(lambda *_: calls.append(0))
    runs = [partial(model, torch.arange(start, 9)) for start in range(5)]
    parts, whole = (product_inputs(model, lambda: runs, most) for most in (1, 1 << 20))
    for (layer,) in model.layers:
        assert torch.equal(parts(layer.weight).squares, whole(layer.weight).squares)
    assert len(calls) == 5 + 5 + (1 + 1 + 5 if reads_first else 1 + 1 + 1)


def mixture(model_type):
    """A model with 8 experts, two of which each token reaches, and texts of random tokens."""
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rope_parameters": {"rope_theta": 1e4}}
    sizes = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, **heads}
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2, "initializer_range": 0.15}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **sizes, **experts)).eval()
    return model, torch.randint(99, (5, 4, 64))


@pytest.mark.parametrize("model_type", ["mixtral", "gpt_oss"])
def test_experts_are_calibrated_with_the_tokens_that_reach_them(model_type):
    """Blocks of GPT-OSS lie along outputs, those of Mixtral along inputs."""
    model, (held_out, *texts) = mixture(model_type)
    errors_of = product_inputs(model, lambda: [partial(model, text) for text in texts], leave=pytest.fail)
    divergences, expected = [], model(held_out).logits.log_softmax(-1)
    for inputs_of in (None, errors_of):
        quantized = copy.deepcopy(model)
        for name, weight in model.named_parameters():
            if weight.ndim == 3:
                source = QuantizedWeight(
                    name, TorchTensor(weight), WeightRule(), inputs_of and partial(inputs_of, weight)
                )
                quantized.get_parameter(name).data = torch.from_numpy(dequantized(source))
        logits = quantized(held_out).logits.log_softmax(-1)
        divergences.append(torch.nn.functional.kl_div(logits, expected, reduction="sum", log_target=True).item())
    assert divergences[1] < 0.9 * divergences[0]


def test_experts_that_too_few_tokens_reach_have_no_inputs():
    model, (text, *_) = mixture("mixtral")
    reached, left, one = [], [], model.model.layers[0].mlp.experts
    hook = one.register_forward_pre_hook(lambda _, arguments: reached.append(arguments[1]))
    model(text[:1, :12])
    hook.remove()
    errors_of = product_inputs(model, lambda: [partial(model, text[:1, :12])], leave=lambda *each: left.append(each))
    known = [errors_of(one.gate_up_proj, index) for index in range(8)]
    counts = [int((reached[0] == index).sum()) for index in range(8)]
    assert [each is None for each in known] == [count < 64 / 16 for count in counts]
    assert left == [("model.layers.0.mlp.experts.gate_up_proj", at) for at in range(8) if counts[at] < 4]
    assert 0 < len(left) < 8
