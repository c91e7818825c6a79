"""Encoder-decoders: rows. Where Optimum has one, inputs and tasks are those of its table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.behaviors import behaves
from onnxfn.edits import gives, patched, takes
from onnxfn.families import (
    decoder_alone,
    encoded,
    four_entries,
    speech_seq2seq,
    text_inputs,
    text_seq2seq,
    to_continue,
    written,
)
from onnxfn.generators import generates
from onnxfn.normalizers import constant, from_config, product, reads
from onnxfn.records import ExportSpec
from onnxfn.tasks import tasked

t5 = compose(
    text_seq2seq,
    reads(
        decoder_num_layers="num_decoder_layers",
        decoder_num_attention_heads="num_heads",
        decoder_head_dim="d_kv",
    ),
)

marian = compose(text_seq2seq, decoder_alone)


def classifier(model: str) -> ExportSpec:
    """Classification by what the decoder says at the end of a text, for a class of transformers so called."""
    return tasked(
        "text-classification",
        spec=compose(
            text_inputs,
            generates("token_ids", "ended", high=from_config("vocab_size"), end=from_config("eos_token_id")),
            patched(
                f"{model}ForSequenceClassification.forward",
                by="onnxfn.patches.bart:classified",
                why="selects rows by a mask, so that their number depends on the tokens",
            ),
        ),
    )


answers = tasked("question-answering", spec=text_inputs)
BART = "transformers.models.bart.modeling_bart:Bart"
MBART = "transformers.models.mbart.modeling_mbart:MBart"
BIGBIRD = "transformers.models.bigbird_pegasus.modeling_bigbird_pegasus:BigBirdPegasus"
PLBART = "transformers.models.plbart.modeling_plbart:PLBart"


def shifting(module: str) -> ExportSpec:
    """A module of transformers whose decoder starts with the last token that the encoder reads."""
    return patched(
        f"{module}:shift_tokens_right",
        by="onnxfn.patches.shifted:shift_tokens_right",
        why="squeezes the axis of the batch away where it is 1",
    )


mbart = compose(marian, classifier(MBART), answers, shifting("transformers.models.mbart.modeling_mbart"))
plbart = compose(marian, classifier(PLBART), shifting("transformers.models.plbart.modeling_plbart"))
m2m_100 = compose(
    text_seq2seq,
    patched(
        "transformers.models.m2m_100.modeling_m2m_100:"
        "M2M100SinusoidalPositionalEmbedding.create_position_ids_from_input_ids",
        by="onnxfn.patches.numbered:position_ids_of",
        why="adds a length to whole numbers of 32 bits",
    ),
)

# What is heard is of one length: the encoder knows as many places as it has (modeling_whisper.WhisperEncoder.forward).
heard = takes("input_features", "batch_size num_mel_bins= num_frames=", "mel", kind="float")
whisper = compose(
    speech_seq2seq,
    reads(num_mel_bins="num_mel_bins", num_frames=product("max_source_positions", constant(2))),
    generates("mel", "normal"),
    behaves(
        "monolith",
        heard,
        written,
        four_entries("decoder_input_ids"),
        gives("encoder_last_hidden_state", "batch_size _ _"),
    ),
    behaves("encoder", heard, ExportSpec(runs="encoder"), gives("last_hidden_state", "batch_size _ _")),
    behaves("decoder", encoded, to_continue),
    tasked("audio-classification", spec=heard),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "bart": compose(marian, classifier(BART), answers),
        "bigbird_pegasus": compose(marian, classifier(BIGBIRD), answers),
        "blenderbot": marian,
        "blenderbot-small": marian,
        "longt5": t5,
        "m2m_100": m2m_100,
        "marian": marian,
        "mbart": mbart,
        "mt5": t5,
        "pegasus": marian,
        "plbart": plbart,
        "t5": t5,
        "umt5": t5,
        "whisper": whisper,
    }
)
