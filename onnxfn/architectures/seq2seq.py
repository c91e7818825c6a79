"""Encoder-decoders: those that read and generate texts, and the table of all of them.

Rows that Optimum also has take its inputs and tasks (tests/contract).
"""

from __future__ import annotations

from collections.abc import Mapping

from onnxfn.architectures import encoder_decoders, speech
from onnxfn.architectures.families.heads import text_classification
from onnxfn.architectures.families.rows import rows
from onnxfn.architectures.families.seq2seq import standalone_decoder, t5_reads, text_seq2seq
from onnxfn.architectures.families.text import global_mask_dummies, text_inputs
from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import SOURCE, builds, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import behaves
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.tasks.tasks import tasked

t5: ExportSpec = compose(text_seq2seq, t5_reads)

marian: ExportSpec = compose(text_seq2seq, standalone_decoder)

global_attention_mask: ExportSpec = takes("global_attention_mask", SOURCE, "global_mask")

# The model pads to a multiple of its block size. The trace has another length, so that the padding is in the graph.
pegasus_x: ExportSpec = compose(text_seq2seq, sized(encoder_sequence_length=15))

ROWS: Mapping[str, ExportSpec] = rows(
    {
        # Their decoders start with the last token of the encoder's text.
        "bart bigbird_pegasus mbart": compose(marian, text_classification, tasked("question-answering", text_inputs)),
        "blenderbot blenderbot-small marian mvp pegasus": marian,
        "led": compose(
            text_seq2seq,
            behaves("monolith", global_attention_mask),
            behaves("encoder", global_attention_mask),
            global_mask_dummies,
        ),
        # The trace has several global blocks, and a length that is not a multiple of the local blocks.
        "longt5": compose(t5, sized(encoder_sequence_length=57)),
        "m2m_100": text_seq2seq,
        "mt5 t5 umt5": t5,
        "pegasus_x": pegasus_x,
        "plbart": compose(marian, text_classification),
        # With a cache, the decoder reads one token at a time only (modeling_prophetnet.ProphetNetDecoder.forward).
        "prophetnet": compose(
            only_tasks(text_seq2seq, "feature-extraction", "text2text-generation"),
            reads(
                hidden_size="hidden_size",
                decoder_num_layers="num_decoder_layers",
                decoder_num_attention_heads="num_decoder_attention_heads",
            ),
        ),
        "switch_transformers": compose(t5, behaves("decoder", builds("encoder_outputs", "moe_encoder_output"))),
        "t5gemma": compose(
            text_seq2seq,
            reads(
                hidden_size="encoder.hidden_size",
                decoder_num_layers="decoder.num_hidden_layers",
                decoder_num_attention_heads="decoder.num_key_value_heads",
                decoder_head_dim="decoder.head_dim",
            ),
        ),
        **encoder_decoders.ROWS,
        **speech.ROWS,
    }
)
