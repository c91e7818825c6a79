import numpy as np
import pytest
import strategies as some
import tiny
import torch
from agreement import assert_agreement
from attrs import evolve
from hypothesis import given

import onnxfn
from onnxfn.specs.edits.token_embeddings import by_tokens
from onnxfn.specs.records import Link

LLAMA = onnxfn.for_task(onnxfn.spec_for("llama"), "text-generation-with-past")
T5 = onnxfn.for_task(onnxfn.spec_for("t5"), "text2text-generation-with-past")
TOKENS = {0: "batch_size", 1: "sequence_length"}


def planned(spec, **overrides):
    return onnxfn.plan(onnxfn.with_inputs_embeds(spec), tiny.config(spec.name, **overrides)).parts


def test_the_embedding_file_computes_the_input_of_the_model():
    table, model = planned(LLAMA)
    assert table.name == "embed_tokens"
    assert (table.inputs, table.outputs) == ({"input_ids": TOKENS}, {"inputs_embeds": TOKENS})
    assert (model.name, next(iter(model.inputs.items()))) == ("model", ("inputs_embeds", TOKENS))
    assert "input_ids" not in model.inputs
    assert model.spec.links == (Link("inputs_embeds", "embed_tokens", "inputs_embeds"),)
    assert "float[batch_size, sequence_length, 32]" in str(model)


def test_an_embedding_is_as_wide_as_the_configuration_says():
    table, model = planned(onnxfn.for_task(onnxfn.spec_for("albert"), "fill-mask"))
    axes = [str(one.axes) for one in (table.spec.outputs[0], model.spec.inputs[0])]
    assert axes == ["[batch_size, sequence_length, 16]"] * 2


def test_one_graph_of_an_encoder_decoder_takes_embeddings():
    table, decoder = planned(onnxfn.with_behavior(T5, "decoder", past="outputs"))
    assert (table.name, decoder.name) == ("embed_tokens", "decoder_model")
    assert decoder.spec.inputs[2].forward_path == ("decoder_inputs_embeds",)


@given(some.specs)
def test_adding_twice_equals_adding_once(spec):
    ids = onnxfn.takes("input_ids", "batch_size sequence_length", "token_ids")
    once = onnxfn.with_inputs_embeds(onnxfn.compose(evolve(spec, parts=onnxfn.Parts()), ids))
    assert onnxfn.with_inputs_embeds(once) == once


@given(some.specs)
def test_by_tokens_restores_the_token_input(spec):
    tokens = onnxfn.takes("input_ids", "batch_size sequence_length", "token_ids")
    plain = onnxfn.compose(evolve(spec, parts=onnxfn.Parts(), inputs=()), tokens)
    embedded = onnxfn.with_inputs_embeds(plain)
    planned = onnxfn.PlannedSpec(inputs=tuple(embedded.inputs), links=tuple(embedded.parts.links))
    places = [(one.name, one.forward_path, one.axes) for one in by_tokens(planned).inputs]
    assert places == [(one.name, one.forward_path, one.axes) for one in plain.inputs]


def test_both_files_generate_the_tokens_of_pytorch(tmp_path):
    """The check, too, holds what both write against PyTorch's logits of the tokens."""
    model = tiny.model("llama", LLAMA.call.loader)
    result = assert_agreement(onnxfn.export(onnxfn.with_inputs_embeds(LLAMA), model, tmp_path / "out"))
    assert any("different tokens" in case for case in result.report.cases)
    text = torch.tensor([[1, 5, 9, 3]])
    for _ in range(6):
        text = torch.cat([text, model(text).logits[:, -1:].argmax(-1)], dim=1)
    for exported in (result, tmp_path / "out"):
        written = onnxfn.generate(exported, np.array([[1, 5, 9, 3]]), max_new_tokens=6)
        assert written.tolist() == text.tolist()


@pytest.mark.parametrize(
    "spec",
    [
        onnxfn.for_task(onnxfn.spec_for("bert"), "multiple-choice"),
        onnxfn.with_shapes(onnxfn.for_task(onnxfn.spec_for("opt"), "text-generation"), batch_size=1, sequence_length=9),
        onnxfn.with_behavior(T5, "decoder", past="both"),
    ],
    ids=["choices", "fixed", "decoder"],
)
def test_both_files_agree_with_pytorch(spec, tmp_path):
    model = tiny.model(spec.name, spec.call.loader)
    assert_agreement(onnxfn.export(onnxfn.with_inputs_embeds(spec), model, tmp_path / "out"))
