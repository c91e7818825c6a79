"""What `forward` gets besides the inputs of a graph, and the output of an encoder that a decoder receives."""

import numpy as np
import pytest
import tiny
import torch
from vector_specs import vector_spec

import onnxfn
from onnxfn.models.argument_builders import (
    moonshine_encoder_output,
    moonshine_streaming_encoder_output,
    parakeet_encoder_output,
)

FRAME = 32


@pytest.fixture(scope="module")
def streaming():
    return tiny.model("moonshine_streaming", "AutoModelForSpeechSeq2Seq")


@pytest.mark.parametrize("extra_samples", [0, 7])
def test_the_mask_is_the_one_of_the_streaming_encoder(streaming, extra_samples):
    encoder = streaming.get_encoder()
    for frames in range(1, 34):
        samples = torch.arange(frames + 1) * FRAME
        mask = (torch.arange(frames * FRAME) < samples[:, None] + extra_samples).long()
        with torch.no_grad():
            expected = encoder(torch.ones(mask.shape), attention_mask=mask)
        tensors = {"last_hidden_state": expected.last_hidden_state, "attention_mask": mask}
        output = moonshine_streaming_encoder_output(streaming, tensors)
        assert torch.equal(output.attention_mask, expected.attention_mask)


def test_the_decoder_does_not_change_the_states(streaming):
    states, mask = torch.ones(1, 4, 24), torch.ones(1, 16 * FRAME, dtype=torch.long)
    output = moonshine_streaming_encoder_output(streaming, {"last_hidden_state": states, "attention_mask": mask})
    with torch.no_grad():
        streaming(encoder_outputs=output, decoder_input_ids=torch.ones(1, 2, dtype=torch.long))
    assert torch.equal(states, torch.ones(1, 4, 24))
    assert not torch.equal(output.last_hidden_state, states)


@pytest.mark.parametrize("model_type", ["canary", "cohere_asr"])
def test_the_mask_is_the_one_of_parakeets_encoder(model_type):
    model = tiny.model(model_type, "AutoModelForSpeechSeq2Seq")
    mask = (torch.arange(75) < torch.arange(9, 76)[:, None]).long()
    with torch.no_grad():
        expected = model.get_encoder()(torch.ones(*mask.shape, 16), attention_mask=mask)
    output = parakeet_encoder_output(model, {"last_hidden_state": expected.last_hidden_state, "attention_mask": mask})
    assert torch.equal(output.attention_mask, expected.attention_mask)
    assert len(set(output.attention_mask.sum(-1).tolist())) > 8


@pytest.mark.parametrize("build", [moonshine_encoder_output, parakeet_encoder_output])
def test_states_of_a_graph_without_a_mask_have_none(build):
    states = torch.ones(1, 4, 8)
    output = build(None, {"last_hidden_state": states})
    assert output.attention_mask is None
    assert output.last_hidden_state is states


def test_a_constant_that_forward_passes_on_itself_is_left_out():
    """T5Gemma's heads call their model with `use_cache=False` and with their own keyword arguments."""

    def inner(x, *, use_cache=True, scale=1.0):
        return x * (2.0 if use_cache else 3.0) * scale

    class Head(torch.nn.Module):
        def forward(self, x, **kwargs):
            return inner(x, use_cache=False, **kwargs)

    class Open(torch.nn.Module):
        def forward(self, x, **kwargs):
            return inner(x, **kwargs)

    for module in (Head(), Open()):
        result = onnxfn.export(onnxfn.compose(vector_spec(3), onnxfn.always(use_cache=False)), module)
        x = np.ones((4, 3), np.float32)
        assert np.allclose(result(x=x)["y"], 3 * x)
