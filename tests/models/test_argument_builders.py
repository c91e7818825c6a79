"""The encoder output that a decoder receives is the one that the encoder would return."""

import pytest
import tiny
import torch

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
        output = moonshine_streaming_encoder_output(
            streaming, {"last_hidden_state": expected.last_hidden_state, "attention_mask": mask}
        )
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
