"""A graph made of a few layers is the graph of all that a whole trace gives, or the whole is traced and says why."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import tiny
import torch
from sameness import unlike
from torch import nn
from transformers import AutoConfig, AutoModel

import onnxfn
from onnxfn.export.pipeline import RETRACED
from onnxfn.graphs.build import TRACED_LAYERS, BuildOptions, graph_with_slots, trace_all_layers
from onnxfn.graphs.capture.repeated_layers import repeated_layers
from onnxfn.specs.plan.planning import plan

LAYERS = 9
COUNTS = (
    *("num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers"),
    *("encoder_num_hidden_layers", "decoder_num_hidden_layers", "n_layer", "n_layers"),
)

# One of each kind of layer, cache and stack: see SWEPT for all.
SAMPLE = [
    ("bert", "feature-extraction"),
    ("gpt2", "text-generation-with-past"),
    ("llama", "text-generation-with-past"),
    ("gemma2", "text-generation-with-past"),
    ("t5", "text2text-generation-with-past"),
]
SWEPT = [
    *((name, "feature-extraction") for name in ("deberta-v2", "distilbert", "modernbert", "nystromformer", "roformer")),
    *((name, "text-generation-with-past") for name in ("bloom", "falcon", "gemma3_text", "gpt_neox", "gpt_oss")),
    *((name, "text-generation-with-past") for name in ("deepseek_v3", "mamba2", "mixtral", "opt", "phi", "qwen3")),
    *((name, "text2text-generation-with-past") for name in ("bart", "longt5", "m2m_100", "marian")),
    ("whisper", "automatic-speech-recognition-with-past"),
    ("moonshine", "automatic-speech-recognition-with-past"),
]


def timed(*_):
    return nullcontext()


def deep(model_type, loader):
    """A tiny model of nine layers, whose configuration says as much of each as it does of the two."""
    known = tiny.config(model_type)
    counts = {name: LAYERS for name in COUNTS if isinstance(getattr(known, name, None), int)}
    kinds = vars(known).get("layer_types")
    told = {"layer_types": [kinds[index % len(kinds)] for index in range(LAYERS)]} if kinds else {}
    return tiny.model(model_type, loader, **counts, **told)


def agrees(model_type, task):
    spec = onnxfn.spec_for(model_type, task)
    model = deep(model_type, spec.call.loader)
    assert repeated_layers(model)
    for part in plan(spec, model.config, decoders="separate").parts:
        graph, whole = (
            graph_with_slots(model, part, timed, BuildOptions(find_repeats=repeats))
            for repeats in (repeated_layers, trace_all_layers)
        )
        assert graph.meta[TRACED_LAYERS].startswith(f"{LAYERS} layers of ")
        assert unlike(graph, whole) is None


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_a_graph_of_a_few_layers_is_that_of_all(model_type, task):
    agrees(model_type, task)


@pytest.mark.parametrize("windows", [[[4, 2]] * LAYERS, [[4, 2], [3, 0]] * 4 + [[4, 2]]], ids=["one", "two"])
def test_layers_that_see_through_windows_are_told_by_those_with_the_same(windows):
    spec = onnxfn.spec_for("moonshine_streaming", "automatic-speech-recognition")
    sides = tiny.SPECIAL["moonshine_streaming"]["encoder_config"]
    heard = {**sides, "num_hidden_layers": LAYERS, "sliding_windows": windows}
    model = tiny.model("moonshine_streaming", spec.call.loader, encoder_config=heard)
    (part, _) = plan(spec, model.config).parts
    graph, whole = (
        graph_with_slots(model, part, timed, BuildOptions(find_repeats=repeats))
        for repeats in (repeated_layers, trace_all_layers)
    )
    assert graph.meta[TRACED_LAYERS].startswith(f"{LAYERS} layers of model.encoder.layers")
    assert unlike(graph, whole) is None


SIGHT = onnxfn.compose(
    onnxfn.takes("pixel_values", "batch_size 3 24 24", "pixels", kind="float"),
    onnxfn.generates("pixels", "normal"),
    onnxfn.gives("last_hidden_state", "batch_size _ _"),
    onnxfn.sized(batch_size=2),
)


@pytest.mark.parametrize("model_type", ["vit", "dinov2"])
def test_layers_that_see_are_told_by_a_few(model_type):
    small = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48, "image_size": 24, "patch_size": 8}
    config = AutoConfig.for_model(model_type, num_hidden_layers=LAYERS, **small)
    model = AutoModel.from_config(config).eval()
    (part,) = plan(SIGHT, config).parts
    graph, whole = (
        graph_with_slots(model, part, timed, BuildOptions(find_repeats=repeats))
        for repeats in (repeated_layers, trace_all_layers)
    )
    assert graph.meta[TRACED_LAYERS].startswith(f"{LAYERS} layers of ")
    assert unlike(graph, whole) is None


@pytest.mark.sweep
@pytest.mark.parametrize(("model_type", "task"), SWEPT)
def test_every_kind_of_layer_is_told_by_a_few(model_type, task):
    agrees(model_type, task)


def test_what_is_exported_of_a_few_layers_passes_its_check(tmp_path):
    spec = onnxfn.spec_for("llama", "text-generation-with-past")
    result = onnxfn.export(spec, deep("llama", spec.call.loader), tmp_path / "out")
    assert result.report.passed
    assert len([name for name in result.inputs if name.startswith("past_")]) == 2 * LAYERS
    assert result.repeats == ("9 layers of model.layers from 4",)


# Where layers are alike and what they are given is not, the proof fails and all are traced


class Skipping(nn.Module):
    """A stack whose end looks at what came out of its second layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(LAYERS)])

    def forward(self, x):
        states = [x]
        for layer in self.layers:
            states.append(torch.tanh(layer(states[-1])))
        return {"y": states[-1] + states[2]}


class Scaled(nn.Module):
    """A stack that scales by how many layers there are yet."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(LAYERS)])

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            x = torch.tanh(layer(x)) * (1 + 0.01 * index * index)
        return {"y": x}


class Dipping(nn.Module):
    """A stack that does otherwise in its seventh layer, by no word of the layer or the configuration."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(LAYERS)])

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            x = torch.tanh(layer(x)) * (2 if index == 6 else 1)
        return {"y": x}


SPEC = onnxfn.compose(
    onnxfn.takes("x", "batch_size 4", "normal", kind="float"),
    onnxfn.generates("normal", "normal"),
    onnxfn.gives("y", "batch_size 4"),
    onnxfn.sized(batch_size=2),
    onnxfn.with_tolerance(onnxfn.EMPTY, atol=1e-5, rtol=1e-4),
)


def test_layers_that_are_given_other_numbers_are_all_traced(tmp_path):
    result = onnxfn.export(SPEC, Scaled(), tmp_path / "out")
    (told,) = result.repeats
    assert told.startswith("every layer traced: layers: Mul (")
    assert result.report.passed


def test_an_end_that_looks_far_back_is_traced_with_all_layers(tmp_path):
    result = onnxfn.export(SPEC, Skipping(), tmp_path / "out")
    assert result.repeats[0].startswith("every layer traced: layers: ")
    assert result.report.passed


def test_what_no_proof_can_see_is_convicted_by_the_check_and_traced_whole(tmp_path):
    result = onnxfn.export(SPEC, Dipping(), tmp_path / "out")
    assert result.repeats == (RETRACED,)
    assert result.report.passed
