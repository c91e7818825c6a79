"""The two graphs of a transducer: the encoder runs once, the decoder once per token (transformers 5.23)."""

from typing import Any

from torch import Tensor


def encoder(model: Any, input_features: Tensor, attention_mask: Tensor, **options: Tensor) -> dict[str, Tensor]:
    """Audio features, and other inputs such as a language -> frames of the size of the joint network, their mask."""
    outputs = model.get_audio_features(input_features, attention_mask, **options)
    return {"pooler_output": outputs.pooler_output, "encoder_attention_mask": outputs.attention_mask.long()}


def decoder(
    model: Any, input_ids: Tensor, encoder_hidden_states: Tensor, past_hidden_state: Tensor, past_cell_state: Tensor
) -> dict[str, Tensor]:
    """A token, frames and the LSTM state -> next logits and state; after a blank the caller repeats the last token."""
    output, (hidden, cell) = model.decoder.lstm(
        model.decoder.embedding(input_ids), (past_hidden_state, past_cell_state)
    )
    logits = model.joint(
        encoder_hidden_states=encoder_hidden_states[:, :, None],
        decoder_hidden_states=model.decoder.decoder_projector(output)[:, None],
    )
    return {"logits": logits.squeeze(2), "present_hidden_state": hidden, "present_cell_state": cell}
