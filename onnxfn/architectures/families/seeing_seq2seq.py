"""Encoder-decoders that see and write: the encoder reads embeddings of tokens with features among them."""

from __future__ import annotations

from onnxfn.architectures.families.seq2seq import encoder_decoder_cache, encoder_mask, encoder_states, encodes
from onnxfn.architectures.families.text import text_cases, text_dummies
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import SOURCE, TARGET, TOKENS, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import behaves
from onnxfn.specs.edits.token_embeddings import EMBEDS

WIDTH = "embedding_width="

encoder_and_decoder_of_embeddings: ExportSpec = compose(
    encodes(
        compose(
            takes(EMBEDS, f"{SOURCE} {WIDTH}", "embeddings", kind="float"),
            takes("attention_mask", SOURCE, "padding_mask"),
            generates("embeddings", "normal"),
        )
    ),
    behaves(
        "decoder",
        runs("decoders.decoder_of_embeddings"),
        encoder_states,
        encoder_mask,
        takes(EMBEDS, f"{TARGET} {WIDTH}", "embeddings", kind="float", path=("decoder_inputs_embeds",)),
        generates("embeddings", "normal"),
        encoder_decoder_cache(EMBEDS),
    ),
)
"""The encoder of the embeddings of a text with images, and the decoder of the embeddings of its own tokens."""

token_rows: ExportSpec = compose(
    text_dummies, text_cases, takes(EMBEDS, f"{TOKENS} {WIDTH}", "embeddings", kind="float")
)
"""The outputs of the token embedding, for the encoder and for the decoder."""
