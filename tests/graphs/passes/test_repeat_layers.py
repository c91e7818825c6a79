"""A graph with repeated layers equals the graph of a trace of all layers; if the layers differ, all are traced."""

import pytest
import swept
import tiny
import torch
from graph_equality import first_difference, repeated_and_traced
from hypothesis import given, settings
from hypothesis import strategies as st
from small_modules import module
from torch import nn
from transformers import PretrainedConfig
from vector_specs import vector_spec

import onnxfn
from onnxfn.export.run.attempts import RETRACED
from onnxfn.graphs.layers.repeated_layers import repeated_layers
from onnxfn.specs.plan.planning import plan

LAYERS = 9
COUNTS = (
    *("num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"),
    *("encoder_num_hidden_layers", "decoder_num_hidden_layers", "n_layer", "n_layers"),
)

# One model for each kind of layer, cache and stack; SWEPT has more.
SAMPLE = [
    ("bert", "feature-extraction"),
    ("gpt2", "text-generation-with-past"),
    ("llama", "text-generation-with-past"),
    ("gemma2", "text-generation-with-past"),
    ("vit", "image-classification"),
    ("dinov2", "feature-extraction"),
]
SWEPT = [
    *((name, "feature-extraction") for name in ("deberta-v2", "distilbert", "modernbert", "nystromformer", "roformer")),
    *((name, "text-generation-with-past") for name in ("bloom", "falcon", "gemma3_text", "gpt_neox", "gpt_oss")),
    *((name, "text-generation-with-past") for name in ("deepseek_v3", "mamba2", "mixtral", "opt", "phi", "qwen3")),
    *((name, "text2text-generation-with-past") for name in ("bart", "longt5", "m2m_100", "marian", "t5")),
    ("whisper", "automatic-speech-recognition-with-past"),
    ("moonshine", "automatic-speech-recognition-with-past"),
]


def deep_model(model_type, loader):
    """A tiny model of nine layers; lists with an entry for each layer get as many entries."""
    config = tiny.config(model_type)
    counts = {name: LAYERS for name in COUNTS if isinstance(getattr(config, name, None), int)}
    types = vars(config).get("layer_types")
    options = {"layer_types": [types[index % len(types)] for index in range(LAYERS)]} if types else {}
    return tiny.model(model_type, loader, **counts, **options)


def assert_repeated(model, part, stack=""):
    """Asserts that the graph with repeated layers equals that of a trace of all layers."""
    repeated, traced = repeated_and_traced(model, part)
    assert repeated.traced_layers.startswith(f"{LAYERS} layers of {stack}")
    assert first_difference(repeated.model, traced.model) is None
    names = [sorted(node.name for node in each.model.graph.all_nodes()) for each in (repeated, traced)]
    assert names[0] == names[1]


@pytest.mark.parametrize(("model_type", "task"), swept.with_sweep(SAMPLE, SWEPT))
def test_a_graph_of_repeated_layers_is_that_of_all_layers(model_type, task):
    spec = onnxfn.spec_for(model_type, task)
    model = deep_model(model_type, spec.call.loader)
    assert repeated_layers(model)
    for part in plan(spec, model.config, decoders="separate").parts:
        assert_repeated(model, part)


@pytest.mark.sweep
@pytest.mark.parametrize("windows", [[[4, 2]] * LAYERS, [[4, 2], [3, 0]] * 4 + [[4, 2]]], ids=["one", "two"])
def test_layers_with_the_same_attention_window_are_repeated(windows):
    spec = onnxfn.spec_for("moonshine_streaming", "automatic-speech-recognition")
    small = tiny.SPECIAL["moonshine_streaming"]["encoder_config"]
    encoder = {**small, "num_hidden_layers": LAYERS, "sliding_windows": windows}
    model = tiny.model("moonshine_streaming", spec.call.loader, encoder_config=encoder)
    (part, _) = plan(spec, model.config).parts
    assert_repeated(model, part, "model.encoder.layers")


# Modules that are equal, but called in different ways: the proof fails, and all layers are traced


def stack(forward):
    return module(forward, layers=nn.ModuleList([nn.Linear(4, 4) for _ in range(LAYERS)]))


def skipping(self, x):
    states = [x]
    for layer in self.layers:
        states.append(torch.tanh(layer(states[-1])))
    return {"y": states[-1] + states[2]}


def scaled(self, x):
    for index, layer in enumerate(self.layers):
        x = torch.tanh(layer(x)) * (1 + 0.01 * index * index)
    return {"y": x}


def dipping(self, x):
    for index, layer in enumerate(self.layers):
        x = torch.tanh(layer(x)) * (2 if index == 6 else 1)
    return {"y": x}


def widened(self, x):
    """A stack that adds an axis before its last layer: without that layer, the output lacks the axis."""
    for index, layer in enumerate(self.layers):
        x = torch.tanh(layer(x[:, None] if index == LAYERS - 1 else x))
    return {"y": x.transpose(1, 2)[..., 0]}


SPEC = onnxfn.with_tolerance(vector_spec(4), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("forward", [scaled, skipping, widened])
def test_layers_are_all_traced_if_those_that_are_traced_differ_or_do_not_run_alone(forward, tmp_path):
    result = onnxfn.export(SPEC, stack(forward), tmp_path / "out")
    assert result.repeats[0].startswith("every layer traced: ")
    assert result.report.passed


def test_layers_are_all_traced_if_the_check_of_the_repeated_layers_fails(tmp_path):
    result = onnxfn.export(SPEC, stack(dipping), tmp_path / "out")
    assert result.repeats == (RETRACED,)
    assert result.report.passed


def test_layers_are_all_traced_if_there_is_no_check(tmp_path):
    """The graph proof does not show that a later layer differs."""
    model = stack(dipping)
    assert onnxfn.validate(SPEC, model, onnxfn.export(SPEC, model, tmp_path / "out", check=False)).passed


# Several stacks of repeated layers in one model

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
