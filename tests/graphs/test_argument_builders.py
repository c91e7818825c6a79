"""What a decoder is handed is what its encoder would have handed it."""

from __future__ import annotations

import pytest
import tiny
import torch

from onnxfn.graphs.capture.argument_builders import moonshine_streaming_encoder_output, parakeet_encoder_output

FRAME = 32


@pytest.fixture(scope="module")
def streaming():
    return tiny.model("moonshine_streaming", "AutoModelForSpeechSeq2Seq")


@pytest.mark.parametrize("beyond", [0, 7])
def test_the_states_that_are_heard_are_those_that_the_streaming_encoder_says(streaming, beyond):
    encoder = streaming.get_encoder()
    for frames in range(1, 34):
        heard = torch.arange(frames + 1) * FRAME
        mask = (torch.arange(frames * FRAME) < heard[:, None] + beyond).long()
        with torch.no_grad():
            given = encoder(torch.ones(mask.shape), attention_mask=mask)
        told = moonshine_streaming_encoder_output(
            streaming, {"last_hidden_state": given.last_hidden_state, "attention_mask": mask}
        )
        assert torch.equal(told.attention_mask, given.attention_mask)


def test_the_states_are_not_the_decoders_to_change(streaming):
    states, mask = torch.ones(1, 4, 24), torch.ones(1, 16 * FRAME, dtype=torch.long)
    handed = moonshine_streaming_encoder_output(streaming, {"last_hidden_state": states, "attention_mask": mask})
    with torch.no_grad():
        streaming(encoder_outputs=handed, decoder_input_ids=torch.ones(1, 2, dtype=torch.long))
    assert torch.equal(states, torch.ones(1, 4, 24))
    assert not torch.equal(handed.last_hidden_state, states)


@pytest.mark.parametrize("model_type", ["canary", "cohere_asr"])
def test_the_states_that_are_heard_are_those_that_parakeets_encoder_says(model_type):
    model = tiny.model(model_type, "AutoModelForSpeechSeq2Seq")
    mask = (torch.arange(75) < torch.arange(9, 76)[:, None]).long()
    with torch.no_grad():
        given = model.get_encoder()(torch.ones(*mask.shape, 16), attention_mask=mask)
    told = parakeet_encoder_output(model, {"last_hidden_state": given.last_hidden_state, "attention_mask": mask})
    assert torch.equal(told.attention_mask, given.attention_mask)
    assert len(set(told.attention_mask.sum(-1).tolist())) > 8
