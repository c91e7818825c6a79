from operator import setitem

import pytest
import tiny
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import onnxfn
from onnxfn.graphs.layers import repeated_layers as its


def block(width=4, **attributes):
    layer = nn.Sequential(nn.Linear(width, width), nn.ReLU())
    vars(layer).update(attributes)
    return layer


def model_of(*layers):
    model = nn.Module()
    model.layers = nn.ModuleList(layers)
    return model


def stacks_of(*layers):
    return its.repeated_layers(model_of(*layers))


@given(layers=st.integers(1, 200), head=st.integers(1, 9), period=st.integers(1, 9))
def test_the_layers_that_are_not_traced_are_a_number_of_periods(layers, head, period):
    stack = its.LayerStack("layers", layers, head, period)
    assert (stack.layers - stack.traced_layers) % period == 0
    assert head + 2 * period < stack.traced_layers <= head + 3 * period


@given(st.integers(0, 99), st.integers(0, 99))
def test_a_shifted_parameter_belongs_to_the_later_layer(layer, by):
    stack = its.LayerStack("model.layers", 200, 1, 1)
    shifted = stack.shifted(f"model.layers.{layer}.mlp.weight", by)
    assert stack.layer_index(shifted) == layer + by
    assert shifted.endswith(".mlp.weight")
    assert stack.layer_index(f"other.model.layers.{layer}.mlp.weight") is None
    assert stack.layer_index("model.layers_norm.weight") is None


@pytest.mark.parametrize(
    ("attributes", "head", "period"),
    [
        (lambda _: {}, 1, 1),
        (lambda index: {"layer_idx": index}, 1, 1),
        (lambda index: {"window": index % 2}, 1, 2),
        (lambda index: {"dense": index < 2}, 3, 1),
    ],
    ids=["equal", "numbered", "two alternating kinds", "first ones of another kind"],
)
def test_layers_are_a_stack_with_a_head_and_a_period(attributes, head, period):
    layers = [block(**attributes(index)) for index in range(9)]
    assert stacks_of(*layers) == (its.LayerStack("layers", 9, head=head, period=period),)


def test_a_few_layers_and_layers_without_parameters_are_not_a_stack():
    assert stacks_of(*(block() for _ in range(4))) == stacks_of(*(Shift() for _ in range(20))) == ()


@pytest.mark.parametrize("layers", range(5, 12))
def test_a_proof_must_save_a_fifth_of_the_modules(layers):
    """A layer has 3 modules, a trace needs 4 layers, and the model and its list are modules too."""
    model = model_of(*(block() for _ in range(layers)))
    share = 3 * (layers - 4) / (3 * layers + 2)
    assert its.saved_share(model, its.repeated_layers(model)) == pytest.approx(share)
    assert bool(its.stacks_worth_a_proof(model)) is (share >= 0.2)


@pytest.mark.parametrize(
    ("name", "worth"), [("ResNetForImageClassification", False), ("RTDetrModel", False), ("ViTModel", True)]
)
def test_a_few_of_many_layers_are_not_worth_a_proof(name, worth):
    """By default, a trace of ResNet-50 could leave out one block of 16, and one of RT-DETR a tenth."""
    model_class = getattr(transformers, name)
    with torch.device("meta"):
        model = model_class(model_class.config_class())
    assert its.repeated_layers(model)
    assert bool(its.stacks_worth_a_proof(model)) is worth


def changed(change):
    layers = [block() for _ in range(9)]
    change(layers)
    return stacks_of(*layers)


def a_float_attribute(layers):
    layers[6].scale = 0.5
    for layer in layers[:6] + layers[7:]:
        layer.scale = 1.0


def a_computed_buffer(layers):
    for index, layer in enumerate(layers):
        layer.register_buffer("table", torch.full((2,), float(index == 6)), persistent=False)


DIFFERENCES = {
    "a float attribute": a_float_attribute,
    "a width": lambda layers: setitem(layers[6], 0, nn.Linear(4, 4, bias=False)),
    "a computed buffer": a_computed_buffer,
    "a type": lambda layers: setitem(layers[6], 1, nn.GELU()),
    "a hook": lambda layers: layers[6].register_forward_hook(lambda *_: None),
    "a shared parameter": lambda layers: setattr(layers[6][0], "weight", layers[3][0].weight),
}


@pytest.mark.parametrize("change", DIFFERENCES.values(), ids=DIFFERENCES)
def test_layers_of_which_one_differs_are_not_a_stack(change):
    assert changed(change) == ()


def test_stored_buffers_may_differ():
    def statistics(layers):
        for index, layer in enumerate(layers):
            layer.register_buffer("mean", torch.full((2,), float(index)))

    assert changed(statistics) == (its.LayerStack("layers", 9, head=1, period=1),)


def test_lists_of_the_configuration_with_a_value_per_layer_count():
    model = tiny.model("llama", "AutoModelForCausalLM", num_hidden_layers=9)
    assert its.repeated_layers(model) == (its.LayerStack("model.layers", 9, head=1, period=1),)
    model.config.rates = [1, 1, 1, 1, 1, 1, 2, 1, 1]
    assert its.repeated_layers(model) == ()


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([[4, 2]] * 9, (its.LayerStack("encoder.layers", 9, head=1, period=1),)),
        ([[4, 2], [3, 0]] * 4 + [[4, 2]], (its.LayerStack("encoder.layers", 9, head=1, period=2),)),
        ([[4, 2]] * 6 + [[3, 0]] + [[4, 2]] * 2, ()),
    ],
)
def test_window_sizes_that_are_only_in_the_configuration_count(windows, expected):
    encoder = tiny.SPECIAL["moonshine_streaming"]["encoder_config"]
    encoder_config = {**encoder, "num_hidden_layers": 9, "sliding_windows": windows}
    assert its.repeated_layers(tiny.model("moonshine_streaming", encoder_config=encoder_config)) == expected


def test_a_model_is_truncated_inside_and_restored_also_after_an_error():
    model = tiny.model("llama", "AutoModelForCausalLM", num_hidden_layers=9)
    before, layers = model.state_dict(), list(model.model.layers)
    with pytest.raises(KeyError), its.truncated(model, its.repeated_layers(model)):
        assert len(model.model.layers) == 4
        raise KeyError
    assert list(model.model.layers) == layers
    assert model.state_dict().keys() == before.keys()


class Shift(nn.Module):
    def forward(self, x):
        return torch.sin(1.1 * x) + 0.3


@pytest.mark.parametrize("layers", [block, Shift], ids=["parameters", "none"])
def test_a_model_that_is_itself_the_list_of_layers_is_exported_with_all_of_them(layers, tmp_path):
    model = nn.Sequential(*(layers() for _ in range(20)))
    spec = onnxfn.derived(model, sample={"input": torch.randn(3, 4)})
    assert onnxfn.validate(spec, model, onnxfn.export(spec, model, tmp_path / "model.onnx", check=False)).passed
