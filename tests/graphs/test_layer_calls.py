"""A layer that asks for its index is not taken for another one, also when no check would find it."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import onnxruntime
import pytest
import tiny
import torch
from torch import nn

import onnxfn
from onnxfn.graphs.build import BuildOptions, graph_with_slots
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.reports import no_tick

LAYERS = 9


class Layer(nn.Module):
    """A layer that asks for its index, in the way of a function that is an attribute of the class."""

    rule = staticmethod(lambda _, x, *__: x)

    def __init__(self, layer_idx):
        super().__init__()
        self.linear, self.layer_idx, self.special = nn.Linear(4, 4), layer_idx, 6

    def forward(self, x, first):
        return torch.tanh(self.rule(self, self.linear(x), first))


class Model(nn.Module):
    """Layers in a row; the model itself may ask for their index, too."""

    def __init__(self, layer, scale=lambda _: 1.0):
        super().__init__()
        self.layers, self.scale = nn.ModuleList([layer(index) for index in range(LAYERS)]), scale

    def forward(self, x):
        first = torch.sigmoid(self.layers[0].linear.weight.sum() + x)
        for index, layer in enumerate(self.layers):
            factor = self.scale(index)
            x = layer(x, first) if factor == 1 else layer(x, first) * factor
        return {"y": x}


def layer_with(rule):
    return type("LayerWithRule", (Layer,), {"rule": staticmethod(rule)})


def number(layer):
    return layer.layer_idx


RULES = {
    "at least": lambda layer, x, *_: x * 2 if layer.layer_idx >= 5 else x,
    "equal to a value of the layer": lambda layer, x, *_: x * 2 if layer.layer_idx == layer.special else x,
    "every fourth": lambda layer, x, *_: x * 2 if layer.layer_idx % 4 == 3 else x,
    "every sixth": lambda layer, x, *_: x * 2 if layer.layer_idx % 6 == 5 else x,
    "through another function": lambda layer, x, *_: x * 2 if number(layer) > 6 else x,
    "by a name": lambda layer, x, *_: x * 2 if getattr(layer, "layer_" + "idx") > 6 else x,
    "in a number": lambda layer, x, *_: x * max(1, layer.layer_idx - 5),
    "in the function": lambda layer, x, *_: torch.relu(x) if layer.layer_idx == 7 else torch.sigmoid(x),
    "in a function that changes its argument": lambda layer, x, *_: (
        (nn.functional.relu(x, inplace=True) if layer.layer_idx == 7 else x) + x
    ),
    "in the tensor that is read": lambda layer, x, first: x + (first if layer.layer_idx == 7 else x),
    "in the axis": lambda layer, x, *_: x + x.sum(dim=0 if layer.layer_idx == 7 else 1, keepdim=True),
    "in the part that is read": lambda layer, x, *_: x + x[:, : 1 if layer.layer_idx == 7 else 4].mean(),
    "in a constant": lambda layer, x, *_: x + torch.tensor(1.0 if layer.layer_idx == 7 else 0.0),
    "in the parameter that is read": lambda layer, x, *_: (
        x + layer.linear.bias * (layer.linear.bias if layer.layer_idx == 7 else x)
    ),
}

SPEC = onnxfn.compose(
    onnxfn.takes("x", "batch_size 4", "normal", kind="float"),
    onnxfn.generates("normal", "normal"),
    onnxfn.gives("y", "batch_size 4"),
    onnxfn.sized(batch_size=2),
)


def assert_right(model, folder, repeats="every layer traced: "):
    """Exports a model unchecked; asserts how it was traced and that the file computes what PyTorch does."""
    result = onnxfn.export(SPEC, model, folder, check=False)
    assert result.repeats[0].startswith(repeats)
    x = torch.randn(5, 4)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], model(x)["y"].detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_layer_may_ask_for_its_index(rule, tmp_path):
    torch.manual_seed(0)
    assert_right(Model(layer_with(rule)), tmp_path / "out")


@pytest.mark.parametrize("special", range(LAYERS))
def test_a_model_may_treat_one_layer_differently(special, tmp_path):
    """The first layer is before the periods."""
    torch.manual_seed(0)
    repeats = f"{LAYERS} layers of layers from 4" if special == 0 else "every layer traced: "
    assert_right(Model(Layer, scale=lambda index: 2.0 if index == special else 1.0), tmp_path / "out", repeats)


def test_layers_that_have_their_index_and_do_not_ask_for_it_are_repeated(tmp_path):
    result = onnxfn.export(SPEC, Model(Layer), tmp_path / "out")
    assert result.repeats == (f"{LAYERS} layers of layers from 4",)


@pytest.mark.parametrize("model_type", ["llama", "mamba2"])
def test_layers_that_find_their_cache_by_their_index_are_repeated(model_type):
    spec = onnxfn.spec_for(model_type, "text-generation-with-past")
    model = tiny.model(model_type, spec.call.loader, num_hidden_layers=LAYERS)
    state = torch.get_rng_state()
    (part,) = plan(spec, model.config).parts
    graph = graph_with_slots(model, part, lambda *_: nullcontext(no_tick), BuildOptions())
    assert graph.traced_layers.startswith(f"{LAYERS} layers of ")
    assert torch.equal(torch.get_rng_state(), state)


class Branching(Layer):
    """A layer that branches on values, which fake tensors do not have."""

    def forward(self, x, _):
        if type(x.shape[0]) is int and x.sum().item() == 1.5:
            return x
        return torch.tanh(self.linear(x))


class Failing(Layer):
    """A layer that cannot run outside of a trace."""

    def forward(self, x, _):
        if not isinstance(x.shape[0], torch.SymInt):
            raise TypeError("no trace")
        return torch.tanh(self.linear(x))


def test_a_model_that_branches_on_values_runs_with_real_ones(tmp_path):
    assert_right(Model(Branching), tmp_path / "out", repeats=f"{LAYERS} layers of layers from 4")


class WithAxisAtTheEnd(Model):
    """A model that adds an axis before the last layer: without that layer, its tensor lacks the axis."""

    def forward(self, x):
        self.scale(x)
        for index, layer in enumerate(self.layers):
            x = layer(x[:, None] if index == LAYERS - 1 else x, None)
        return {"y": x.transpose(1, 2)[..., 0]}


def test_sizes_that_need_all_layers_are_wrong_without_values_too(tmp_path):
    """Such a model is not run with values to compare its layers, which takes long and fails again."""
    kinds = []
    model = WithAxisAtTheEnd(layer_with(lambda _, x, *__: x), lambda x: kinds.append(type(x)))
    result = onnxfn.export(SPEC, model, tmp_path / "out", check=False)
    without_some = "every layer traced: without some of its layers the model does not run on dummy inputs"
    assert result.repeats[0].startswith(f"{without_some} (Dimension out of range")
    assert kinds.count(torch.Tensor) == 1  # on the meta device; others have values


def test_a_model_that_cannot_run_is_traced_with_all_layers(tmp_path):
    result = onnxfn.export(SPEC, Model(Failing), tmp_path / "out", check=False)
    without_some = "every layer traced: without some of its layers the model does not run on dummy inputs"
    assert result.repeats == (f"{without_some} (no trace)",)
