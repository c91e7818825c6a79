"""The two graphs that a transducer writes with: all that is heard at once, then each token (transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def encoder(model: Any) -> Any:
    """From what is heard to its frames, as wide as the decoder joins them, and which of these are heard.

    `told` is what a model is told besides, as the number of a language.
    """

    def forward(input_features: Tensor, attention_mask: Tensor, **told: Tensor) -> dict[str, Tensor]:
        made = model.get_audio_features(input_features, attention_mask, **told)
        return {"pooler_output": made.pooler_output, "encoder_attention_mask": made.attention_mask.long()}

    return module(forward)


def decoder(model: Any) -> Any:
    """What comes after a token at each of some frames, and what is remembered of the token and those before it.

    Nobody is told of what says that no token comes: who writes keeps the last token and what was remembered before it.
    """

    def forward(
        input_ids: Tensor, encoder_hidden_states: Tensor, past_hidden_state: Tensor, past_cell_state: Tensor
    ) -> dict[str, Tensor]:
        said, (hidden, cell) = model.decoder.lstm(
            model.decoder.embedding(input_ids), (past_hidden_state, past_cell_state)
        )
        logits = model.joint(
            encoder_hidden_states=encoder_hidden_states[:, :, None],
            decoder_hidden_states=model.decoder.decoder_projector(said)[:, None],
        )
        return {"logits": logits.squeeze(2), "present_hidden_state": hidden, "present_cell_state": cell}

    return module(forward)
