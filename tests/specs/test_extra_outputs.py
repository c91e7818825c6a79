"""What a graph gives besides its task's outputs: which, under which names and axes, and that the numbers are right."""

import numpy as np
import pytest
import strategies as some
import tiny
import torch
from agreement import assert_agreement
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from session_outputs import outputs_of

import onnxfn
from onnxfn import compose, for_task, spec_for, with_behavior, with_outputs, with_past
from onnxfn.specs.algebra.spec import Cache, ExportSpec, Parts
from onnxfn.specs.edits.extra_outputs import SINGLE_MODEL_OUTPUTS
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.records import OutputSpec
from onnxfn.specs.stored.reports import CheckFailed

BERT = for_task(spec_for("bert"), "text-classification")
SIZES = {"vocab_size": 99, "type_vocab_size": 2, "num_hidden_layers": 2}


def given_by(spec, config=SIZES):
    return onnxfn.outputs(spec, config)


# Plans


def test_hidden_states_are_one_output_per_layer_from_the_embeddings_on():
    tokens = {0: "batch_size", 1: "sequence_length"}
    assert given_by(with_outputs(BERT, "hidden_states")) == {
        "logits": {0: "batch_size"},
        **{f"hidden_states.{layer}": tokens for layer in range(3)},
    }


def test_attentions_are_over_cached_tokens_too():
    llama = for_task(spec_for("llama"), "text-generation-with-past")
    axes = {0: "batch_size", 2: "sequence_length", 3: "past_sequence_length + sequence_length"}
    assert given_by(with_outputs(llama, "attentions"), tiny.config("llama"))["attentions.1"] == axes


def test_outputs_can_be_added_before_or_after_a_past():
    plain = for_task(spec_for("llama"), "text-generation")
    assert with_past(with_outputs(plain, "attentions")).outputs == with_outputs(with_past(plain), "attentions").outputs


@pytest.mark.parametrize("task", ["text-classification", "multiple-choice", "fill-mask"])
def test_outputs_can_be_added_before_or_after_the_task(task):
    """The task before the edit has it as data."""
    before = for_task(with_outputs(spec_for("bert"), "hidden_states", "attentions"), task)
    after = with_outputs(for_task(spec_for("bert"), task), "hidden_states", "attentions")
    assert evolve(before, tasks=()) == evolve(after, tasks=())


def test_a_length_that_is_a_formula_has_no_past():
    squares = OutputSpec("last_hidden_state", "batch_size height*width _")
    of_squares = ExportSpec(outputs=[squares], cache=Cache(past="inputs"))
    assert given_by(with_outputs(of_squares, "attentions.0"))["attentions.0"] == {
        0: "batch_size",
        2: "height * width",
        3: "height * width",
    }


def test_the_batch_of_hidden_states_counts_choices():
    asked = with_outputs(for_task(spec_for("bert"), "multiple-choice"), "hidden_states")
    assert given_by(asked)["hidden_states.1"] == {0: "batch_size * num_choices", 1: "sequence_length"}


@given(st.lists(st.sampled_from((*SINGLE_MODEL_OUTPUTS, "hidden_states.1", "attentions.0")), max_size=4), some.specs)
def test_adding_twice_equals_adding_once(names, spec):
    once = with_outputs(evolve(spec, tasks=(), parts=Parts()), *names)
    assert with_outputs(once, *names) == once


def test_the_output_of_one_layer_is_chosen_by_its_number():
    assert list(given_by(with_outputs(BERT, "hidden_states.1"))) == ["logits", "hidden_states.1"]
    every = with_outputs(BERT, "hidden_states")
    assert with_outputs(every, "hidden_states.1") == every
    assert with_outputs(BERT, "hidden_states.1", "hidden_states") == every


def test_each_file_of_an_encoder_decoder_has_the_outputs_that_it_computes():
    t5 = for_task(spec_for("t5"), "text2text-generation-with-past")
    made = onnxfn.plan(with_outputs(t5, "encoder_hidden_states", "cross_attentions"), tiny.config("t5"))
    encoder, decoder = made.parts
    assert [name for name in encoder.outputs if "hidden" in name] == [
        "last_hidden_state",
        *(f"hidden_states.{layer}" for layer in range(3)),
    ]
    axes = {0: "batch_size", 2: "decoder_sequence_length", 3: "encoder_sequence_length"}
    assert decoder.outputs["cross_attentions.1"] == axes


def test_one_graph_of_an_encoder_decoder_uses_its_own_names():
    t5 = for_task(spec_for("t5"), "text2text-generation-with-past")
    encoder = with_outputs(with_behavior(t5, "encoder"), "hidden_states.0")
    assert list(given_by(encoder, tiny.config("t5"))) == ["last_hidden_state", "hidden_states.0"]


# Refusals


def test_an_output_that_the_model_lacks_is_refused_at_the_trace(tmp_path):
    spec = with_outputs(for_task(spec_for("distilbert"), "feature-extraction"), "pooler_output")
    text = refusal(CaptureFailed, onnxfn.export, spec, tiny.model("distilbert"), tmp_path / "out")
    assert "nothing at 'pooler_output'; there is: last_hidden_state" in text


def test_more_layers_than_planned_are_refused(tmp_path):
    spec = compose(with_outputs(for_task(spec_for("bert"), "feature-extraction"), "hidden_states"))
    config = tiny.config("bert").to_dict() | {"num_hidden_layers": 1}
    text = refusal(CaptureFailed, onnxfn.export, spec, tiny.model("bert"), tmp_path / "out", config=config)
    assert text == "BertModel returns 3 hidden_states, but the plan has 2"


# Numbers


def test_layers_and_attentions_of_a_decoder_are_pytorchs(tmp_path):
    """Of six layers four are traced; the past is one that another call gave."""
    spec = with_outputs(for_task(spec_for("llama"), "text-generation-with-past"), "hidden_states", "attentions")
    model = tiny.model("llama", spec.call.loader, num_hidden_layers=6)
    result = assert_agreement(onnxfn.export(spec, model, tmp_path / "out"))
    assert result.repeats == ("6 layers of model.layers from 4",)
    ids = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    empty = {name: np.zeros((2, 2, 0, 8), np.float32) for name in result.inputs if name.startswith("past")}
    feeds = {"input_ids": ids, "attention_mask": ids**0, "position_ids": ids * 0 + np.arange(5)}
    told = outputs_of(result.session(), {**feeds, **empty})
    model.set_attn_implementation("eager")
    truth = model(torch.tensor(ids), output_hidden_states=True, output_attentions=True)
    for name in ("hidden_states", "attentions"):
        assert len([one for one in told if one.startswith(name)]) == len(truth[name])
        for layer, expected in enumerate(truth[name]):
            np.testing.assert_allclose(told[f"{name}.{layer}"], expected.detach(), atol=1e-5)


def test_the_model_is_left_with_its_own_attention_and_without_hooks(tmp_path):
    spec = with_outputs(for_task(spec_for("bert"), "feature-extraction"), "attentions", "hidden_states")
    model = tiny.model("bert")
    before = model.config._attn_implementation
    assert_agreement(onnxfn.export(spec, model, tmp_path / "out"))
    assert model.config._attn_implementation == before != "eager"
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("model_type", "task", "names"),
    [
        ("bert", "multiple-choice", ("hidden_states", "attentions")),
        ("bert", "feature-extraction", ("pooler_output",)),
        ("vit", "image-classification", ("hidden_states", "attentions")),
        ("bart", "feature-extraction", ("encoder_last_hidden_state", "encoder_attentions", "decoder_hidden_states")),
        (
            "t5",
            "text2text-generation-with-past",
            ("encoder_hidden_states", "encoder_attentions", "decoder_attentions", "cross_attentions"),
        ),
    ],
)
def test_extra_outputs_agree_with_pytorch(model_type, task, names, tmp_path):
    spec = with_outputs(for_task(spec_for(model_type), task), *names)
    assert_agreement(onnxfn.export(spec, tiny.model(model_type, spec.call.loader), tmp_path / "out"))


def test_windows_are_not_a_batch(tmp_path):
    spec = with_outputs(for_task(spec_for("donut-swin"), "feature-extraction"), "attentions.0")
    every = with_outputs(for_task(spec_for("donut-swin"), "feature-extraction"), "attentions")
    assert list(given_by(spec, tiny.config("donut-swin")))[-1] == "attentions.0"
    text = refusal(CheckFailed, onnxfn.export, every, tiny.model("donut-swin", every.call.loader), tmp_path / "out")
    assert "its axes are planned as [batch_size, _, _, _]: give its axes with with_output(spec, " in text
