"""Several stacks of repeated layers in one model: the graph equals that of a trace of all layers, node by node."""

import torch
from graph_equality import first_difference, repeated_and_traced
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import PretrainedConfig
from vector_specs import vector_spec

from onnxfn.graphs.layers.repeated_layers import repeated_layers
from onnxfn.specs.plan.planning import plan

(PART,) = plan(vector_spec(4), PretrainedConfig()).parts


class Block(nn.Module):
    """A layer with a branch around it; the first layer of a stage has another width."""

    def __init__(self, before, width):
        super().__init__()
        self.linear, self.dropout = nn.Linear(before, width), nn.Dropout(0.1)
        self.branch = nn.Identity() if before == width else nn.Linear(before, width, bias=False)

    def forward(self, x):
        return self.dropout(torch.tanh(self.linear(x))) + self.branch(x)


class Stages(nn.Module):
    """Stages of layers, of which `scaled` is treated differently: a pair of stage and layer, or None."""

    def __init__(self, depths, scaled=None):
        super().__init__()
        widths = [4, *(8 if index % 2 == 0 else 4 for index in range(len(depths)))]
        self.stages = nn.ModuleList(
            nn.ModuleList([Block(before, width), *(Block(width, width) for _ in range(1, depth))])
            for before, width, depth in zip(widths, widths[1:], depths, strict=False)
        )
        self.head, self.scaled = nn.Linear(widths[-1], 4), scaled

    def forward(self, x):
        for stage, layers in enumerate(self.stages):
            for index, layer in enumerate(layers):
                x = layer(x) * 2 if (stage, index) == self.scaled else layer(x)
        return {"y": self.head(x)}


@settings(deadline=None, max_examples=6)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_stages_of_any_depths_are_the_graph_of_all_layers(depths):
    model = Stages(depths)
    repeated, traced = repeated_and_traced(model, PART)
    assert first_difference(repeated.model, traced.model) is None
    assert repeated.traced_layers == ", ".join(
        f"{stack.layers} layers of {stack.path} from {stack.traced_layers}" for stack in repeated_layers(model)
    )


@settings(deadline=None, max_examples=4)
@given(st.integers(0, 1), st.integers(2, 3))
def test_a_layer_of_the_compared_periods_that_is_treated_differently_is_traced(stage, index):
    repeated, traced = repeated_and_traced(Stages([9, 9], scaled=(stage, index)), PART)
    assert repeated.traced_layers.startswith("every layer traced: ")
    assert first_difference(repeated.model, traced.model) is None
