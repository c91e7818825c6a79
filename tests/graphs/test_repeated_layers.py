"""Layers that are all alike are found, and a model that is cut to a few of them is whole again afterwards."""

from __future__ import annotations

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from onnxfn.graphs.capture.repeated_layers import LayerStack, repeated_layers, truncated


def block(width=4, **said):
    made = nn.Sequential(nn.Linear(width, width), nn.ReLU())
    vars(made).update(said)
    return made


def model_of(*layers):
    made = nn.Module()
    made.layers = nn.ModuleList(layers)
    return made


def found(*layers):
    return repeated_layers(model_of(*layers))


@given(layers=st.integers(1, 200), head=st.integers(1, 9), period=st.integers(1, 9))
def test_what_is_traced_is_in_step_with_the_whole(layers, head, period):
    stack = LayerStack("layers", layers, head, period)
    assert (stack.layers - stack.traced_layers) % period == 0
    assert head + 2 * period < stack.traced_layers <= head + 3 * period


@given(st.integers(0, 99), st.integers(0, 99))
def test_a_parameter_some_layers_further_is_of_the_layer_there(layer, by):
    stack = LayerStack("model.layers", 200, 1, 1)
    moved = stack.shifted(f"model.layers.{layer}.mlp.weight", by)
    assert stack.layer_index(moved) == layer + by
    assert moved.endswith(".mlp.weight")
    assert stack.layer_index(f"other.model.layers.{layer}.mlp.weight") is None
    assert stack.layer_index("model.layers_norm.weight") is None


def test_layers_that_are_alike_are_a_stack():
    assert found(*(block() for _ in range(9))) == (LayerStack("layers", 9, head=1, period=1),)


def test_a_few_layers_are_no_stack():
    assert found(*(block() for _ in range(4))) == ()


def test_layers_may_count_themselves():
    assert found(*(block(layer_idx=index) for index in range(9))) == (LayerStack("layers", 9, head=1, period=1),)


def test_layers_of_two_kinds_in_turns_have_a_period_of_two():
    assert found(*(block(window=index % 2) for index in range(9))) == (LayerStack("layers", 9, head=1, period=2),)


def test_first_layers_of_another_kind_are_the_head():
    assert found(*(block(dense=index < 2) for index in range(9))) == (LayerStack("layers", 9, head=3, period=1),)


def changed(change):
    layers = [block() for _ in range(9)]
    change(layers)
    return found(*layers)


def a_number(layers):
    layers[6].scale = 0.5
    for layer in layers[:6] + layers[7:]:
        layer.scale = 1.0


def a_width(layers):
    layers[6][0] = nn.Linear(4, 4, bias=False)


def a_table(layers):
    for index, layer in enumerate(layers):
        layer.register_buffer("table", torch.full((2,), float(index == 6)), persistent=False)


def a_kind(layers):
    layers[6][1] = nn.GELU()


def a_hook(layers):
    layers[6].register_forward_hook(lambda *_: None)


def a_tie(layers):
    layers[6][0].weight = layers[3][0].weight


@pytest.mark.parametrize("change", [a_number, a_width, a_table, a_kind, a_hook, a_tie])
def test_one_layer_that_is_otherwise_is_not_told_by_the_others(change):
    assert changed(change) == ()


def test_what_is_stored_of_a_layer_may_differ():
    def statistics(layers):
        for index, layer in enumerate(layers):
            layer.register_buffer("mean", torch.full((2,), float(index)))

    assert changed(statistics) == (LayerStack("layers", 9, head=1, period=1),)


def test_what_the_configuration_says_of_each_layer_counts():
    model = tiny.model("llama", "AutoModelForCausalLM", num_hidden_layers=9)
    assert repeated_layers(model) == (LayerStack("model.layers", 9, head=1, period=1),)
    model.config.rates = [1, 1, 1, 1, 1, 1, 2, 1, 1]
    assert repeated_layers(model) == ()


@pytest.mark.parametrize(
    ("windows", "told"),
    [
        ([[4, 2]] * 9, (LayerStack("encoder.layers", 9, head=1, period=1),)),
        ([[4, 2], [3, 0]] * 4 + [[4, 2]], (LayerStack("encoder.layers", 9, head=1, period=2),)),
        ([[4, 2]] * 6 + [[3, 0]] + [[4, 2]] * 2, ()),
    ],
)
def test_windows_that_the_configuration_alone_says_of_each_layer_count(windows, told):
    sides = tiny.SPECIAL["moonshine_streaming"]["encoder_config"]
    heard = {**sides, "num_hidden_layers": 9, "sliding_windows": windows}
    assert repeated_layers(tiny.model("moonshine_streaming", encoder_config=heard)) == told


def test_a_model_is_cut_for_a_while():
    model = tiny.model("llama", "AutoModelForCausalLM", num_hidden_layers=9)
    before, layers = model.state_dict(), list(model.model.layers)
    with pytest.raises(KeyError), truncated(model, repeated_layers(model)):
        assert len(model.model.layers) == 4
        raise KeyError
    assert list(model.model.layers) == layers
    assert model.state_dict().keys() == before.keys()
