"""Encoder-decoders: those that read and generate texts, and the table of all of them.

Rows that Optimum also has take its inputs and tasks (tests/contract).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures import encoder_decoders, speech_to_text, text_to_audio
from onnxfn.architectures.common_patches import function_patch, position_ids_patch
from onnxfn.architectures.families import standalone_decoder, text_inputs, text_seq2seq
from onnxfn.architectures.families.heads import ended_texts
from onnxfn.architectures.families.seq2seq import t5_reads
from onnxfn.architectures.families.text import global_mask_dummies
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import sized
from onnxfn.specs.edits.behaviors import behaves
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.facts import SOURCE, builds, patched, takes
from onnxfn.specs.getters import reads
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

BART = "transformers.models.bart.modeling_bart:Bart"
BIGBIRD_PEGASUS = "transformers.models.bigbird_pegasus.modeling_bigbird_pegasus:BigBirdPegasus"
BLENDERBOT_SMALL = "transformers.models.blenderbot_small.modeling_blenderbot_small:BlenderbotSmall"
LED = "transformers.models.led.modeling_led:LEDEncoder"
LONGT5 = "transformers.models.longt5.modeling_longt5"
M2M_100 = "transformers.models.m2m_100.modeling_m2m_100:M2M100"
MARIAN = "transformers.models.marian.modeling_marian:Marian"
MBART = "transformers.models.mbart.modeling_mbart:MBart"
MVP = "transformers.models.mvp.modeling_mvp:Mvp"
PLBART = "transformers.models.plbart.modeling_plbart:PLBart"
SWITCH = "transformers.models.switch_transformers.modeling_switch_transformers:SwitchTransformers"


def pooled_end(model: str, by: str = "bart.sequence_classifier_output") -> ExportSpec:
    """A spec of the patch for text-classification by the decoder's state at the last end-of-sequence token.

    Args:
        model: The module of the model and the prefix of its classes: `transformers.models.bart.modeling_bart:Bart`.
        by: The patch.
    """
    return patched(
        f"{model}ForSequenceClassification.forward",
        by=by,
        why="selects tokens with a boolean mask, so that their number depends on the token ids",
    )


def text_classification(model: str) -> ExportSpec:
    """A spec of text-classification by the decoder's state at the last end-of-sequence token.

    Args:
        model: The module of the model and the prefix of its classes, as for `pooled_end`.
    """
    return tasked("text-classification", spec=compose(ended_texts, pooled_end(model)))


def t5_row(model_type: str) -> ExportSpec:
    """A spec of T5, or of a model of its kind.

    Args:
        model_type: The model type, which is also the name of the module: `umt5`.
    """
    classes = f"transformers.models.{model_type}.modeling_{model_type}:{model_type.upper()}"
    return compose(t5, pooled_end(classes, "bart.t5_sequence_classifier_output"))


def bart_encoder_layers(model: str) -> ExportSpec:
    """A spec of the patch for models with BART's encoder layers.

    Args:
        model: The module of the model and the prefix of its classes.
    """
    return patched(
        f"{model}EncoderLayer.forward",
        by="bart.encoder_layer_output",
        why="branches on whether a float16 tensor has infinities",
    )


question_answering: ExportSpec = tasked("question-answering", spec=text_inputs)

t5: ExportSpec = compose(text_seq2seq, t5_reads)

# The trace has several global blocks, and a length that is not a multiple of the local blocks.
longt5: ExportSpec = compose(
    t5,
    sized(encoder_sequence_length=57),
    patched(
        f"{LONGT5}:_make_global_fixed_block_ids",
        by="longt5.global_block_ids",
        why="branches on the number of blocks, and computes it in floats",
    ),
    patched(
        f"{LONGT5}:_create_global_aggregates",
        by="longt5.global_aggregates",
        why="fixes the number of blocks as a number of classes",
    ),
    patched(
        f"{LONGT5}:LongT5TransientGlobalAttention.compute_side_bias",
        by="longt5.side_bias",
        why="has no block to attend to in a text that is shorter than a block",
    ),
)

switch_transformers: ExportSpec = compose(
    t5,
    behaves("decoder", builds("encoder_outputs", "moe_encoder_output")),
    patched(f"{SWITCH}Top1Router.forward", by="switch_experts.router_outputs", why="converts its weights in each call"),
    patched(
        f"{SWITCH}Experts.forward",
        by="switch_experts.expert_outputs",
        why="loops over the experts that the tokens choose",
    ),
)

marian: ExportSpec = compose(text_seq2seq, standalone_decoder)

# Their decoders start with the last token of the encoder's text.
mbart: ExportSpec = compose(
    marian,
    text_classification(MBART),
    question_answering,
    function_patch("transformers.models.mbart.modeling_mbart", "shift_tokens_right"),
)
plbart: ExportSpec = compose(
    marian,
    bart_encoder_layers(PLBART),
    text_classification(PLBART),
    function_patch("transformers.models.plbart.modeling_plbart", "shift_tokens_right"),
)

global_attention_mask: ExportSpec = takes("global_attention_mask", SOURCE, "global_mask")
led: ExportSpec = compose(
    text_seq2seq,
    behaves("monolith", global_attention_mask),
    behaves("encoder", global_attention_mask),
    global_mask_dummies,
    patched(f"{LED}._pad_to_window_size", by="longformer.led_unpadded_inputs", why="branches on the length"),
    patched(
        f"{LED}SelfAttention.forward",
        by="longformer.attention",
        why="branches on whether any token is global",
    ),
)

# With a cache, the decoder reads one token at a time only (modeling_prophetnet.ProphetNetDecoder.forward).
prophetnet: ExportSpec = compose(
    only_tasks(text_seq2seq, "feature-extraction", "text2text-generation"),
    reads(
        hidden_size="hidden_size",
        decoder_num_layers="num_decoder_layers",
        decoder_num_attention_heads="num_decoder_attention_heads",
    ),
)

# The model pads to a multiple of its block size. The trace has another length, so that the padding is in the graph.
pegasus_x: ExportSpec = compose(text_seq2seq, sized(encoder_sequence_length=15))

t5gemma: ExportSpec = compose(
    text_seq2seq,
    reads(
        hidden_size="encoder.hidden_size",
        decoder_num_layers="decoder.num_hidden_layers",
        decoder_num_attention_heads="decoder.num_key_value_heads",
        decoder_head_dim="decoder.head_dim",
    ),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "bart": compose(marian, bart_encoder_layers(BART), text_classification(BART), question_answering),
        "bigbird_pegasus": compose(marian, text_classification(BIGBIRD_PEGASUS), question_answering),
        "blenderbot": marian,
        "blenderbot-small": compose(marian, bart_encoder_layers(BLENDERBOT_SMALL)),
        "led": led,
        "longt5": longt5,
        "m2m_100": compose(text_seq2seq, position_ids_patch(M2M_100)),
        "marian": compose(marian, bart_encoder_layers(MARIAN)),
        "mbart": mbart,
        "mt5": t5_row("mt5"),
        "mvp": compose(marian, pooled_end(MVP)),
        "pegasus": marian,
        "pegasus_x": pegasus_x,
        "plbart": plbart,
        "prophetnet": prophetnet,
        "switch_transformers": switch_transformers,
        "t5": t5_row("t5"),
        "t5gemma": t5gemma,
        "umt5": t5_row("umt5"),
        **encoder_decoders.ROWS,
        **speech_to_text.ROWS,
        **text_to_audio.ROWS,
    }
)
