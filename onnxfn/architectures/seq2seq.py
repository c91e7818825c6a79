"""Encoder-decoders, those of two models, and the table of all; rows of Optimum take its inputs and tasks."""

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures import speech
from onnxfn.architectures.families.audio import FRAMES, wav2vec2_frames
from onnxfn.architectures.families.heads import text_classification
from onnxfn.architectures.families.rows import rows
from onnxfn.architectures.families.seq2seq import (
    STATES,
    audio_mask,
    decoder_ids,
    decoder_reads,
    encoder_decoder_cache,
    encoder_mask,
    encoder_states,
    encodes,
    generation_tasks,
    mask_lengths,
    next_ids,
    seq2seq,
    source_states,
    standalone_decoder,
    t5_reads,
    text_seq2seq,
    waveform_inputs,
)
from onnxfn.architectures.families.text import global_mask_dummies, text_inputs
from onnxfn.architectures.families.vision import image_inputs, image_reads, pixel_inputs
from onnxfn.specs.algebra.compose import EMPTY, compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import SOURCE, TARGET, builds, gives, links, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import behaves
from onnxfn.specs.edits.caches import cross_cache, self_cache
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.tasks.tasks import tasked

t5: ExportSpec = compose(text_seq2seq, t5_reads)

marian: ExportSpec = compose(text_seq2seq, standalone_decoder)

global_attention_mask: ExportSpec = takes("global_attention_mask", SOURCE, "global_mask")

# The model pads to a multiple of its block size. The trace has another length, so that the padding is in the graph.
pegasus_x: ExportSpec = compose(text_seq2seq, sized(encoder_sequence_length=15))

# The decoder has its own model type. If it is the decoder of an encoder-decoder, the cache also has the keys and
# values of the cross-attention: four tensors per layer. If not (GPT-2), the cross-attention is computed in each call,
# and the cache has two tensors per layer, with the names of a decoder.
DECODER_LAYERS = "decoder.decoder_layers"
NUM_DECODER_LAYERS = f"({DECODER_LAYERS} or decoder.num_hidden_layers)"
composite_reads: ExportSpec = reads(
    vocab_size="decoder.vocab_size",
    hidden_size="encoder.hidden_size",
    decoder_num_attention_heads="decoder.decoder_attention_heads or decoder.num_attention_heads",
    decoder_head_dim="decoder.hidden_size // decoder_num_attention_heads",
)


def composite_cache(after: str) -> ExportSpec:
    """A spec of the decoder's cache, after the input `after`: four or two tensors per layer."""
    heads, size = "decoder_num_attention_heads", "decoder_head_dim"
    four, two = (f"{NUM_DECODER_LAYERS} if {DECODER_LAYERS} else 0", f"0 if {DECODER_LAYERS} else {NUM_DECODER_LAYERS}")
    return compose(
        cross_cache(heads=heads, key=size, value=size, layers=four, after=after),
        self_cache(heads=heads, key=size, value=size, layers=two, after=after),
    )


def composite(inputs: ExportSpec, states: str, task: str, facts: ExportSpec, *decoder: ExportSpec) -> ExportSpec:
    """A spec of an encoder with these inputs and facts, and axes of `states`, which the decoder attends to."""
    new_ids = takes("input_ids", TARGET, "token_ids", path=("decoder_input_ids",))
    return compose(
        seq2seq,
        composite_reads,
        facts,
        behaves("monolith", inputs, decoder_ids, composite_cache("decoder_input_ids")),
        encodes(inputs, states),
        behaves("decoder", encoder_states, *decoder, new_ids, composite_cache("input_ids")),
        generation_tasks(task),
    )


composite_text_inputs: ExportSpec = compose(
    takes("input_ids", SOURCE, "encoder_ids"),
    takes("attention_mask", SOURCE, "padding_mask"),
    generates("encoder_ids", "integers", high=from_config("encoder.vocab_size")),
)

# The encoder reads waveforms, as wav2vec2 does.
speech_encoder_decoder: ExportSpec = composite(
    waveform_inputs,
    FRAMES,
    "automatic-speech-recognition",
    compose(
        wav2vec2_frames("encoder.", "encoder_sequence_length"),
        reads(hidden_size="encoder.output_hidden_size if encoder.add_adapter else encoder.hidden_size"),
    ),
    audio_mask,
    # These mask lengths give the number of states in the cases: the model indexes the last state of the mask.
    mask_lengths(5300, 2400, 3610, 7950, 2960, 6805),
)

# The first two numbers of a patch are its row and its column. The processor chooses the number of patches of an image.
patch_inputs: ExportSpec = compose(
    takes("flattened_patches", f"{SOURCE} patch_size=", "patches", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
    generates("patches", "integers", high=4),
)


def captions(encoder: str, decoder: str, *facts: ExportSpec, rows: str = "last_hidden_state") -> ExportSpec:
    """A spec of a model from an image to a text by two functions; the decoder reads the field `rows` of the encoder."""
    return compose(
        seq2seq,
        image_reads(),
        *facts,
        behaves("encoder", image_inputs(), runs(encoder), gives("last_hidden_state", "batch_size _ _", path=(rows,))),
        behaves(
            "decoder",
            runs(decoder),
            gives("logits", f"{TARGET} _"),
            source_states(),
            links("encoder_hidden_states", part="encoder_model", output="last_hidden_state"),
            takes("input_ids", TARGET, "token_ids"),
            takes("attention_mask", TARGET, "padding_mask"),
            encoder_decoder_cache("attention_mask"),
        ),
        generation_tasks("image-to-text"),
    )


# The decoder of BLIP attends to the states of its vision model. The row `blip` is for its other classes.
blip_captions: ExportSpec = captions(
    "self.vision_model",
    "self.text_decoder",
    reads(vocab_size="text_config.vocab_size", hidden_size="vision_config.hidden_size"),
    decoder_reads(
        "text_config.num_hidden_layers",
        "text_config.num_attention_heads",
        "text_config.hidden_size // decoder_num_attention_heads",
    ),
)

# The decoder attends to the projected rows of the tower, which are not its last hidden state.
formulas: ExportSpec = captions(
    "self.model.encoder",
    "decoders.decoder_of_formulas",
    reads(vocab_size="text_config.vocab_size", hidden_size="text_config.d_model"),
    decoder_reads(
        "text_config.decoder_layers",
        "text_config.decoder_attention_heads",
        "text_config.d_model // decoder_num_attention_heads",
    ),
    rows="pooler_output",
)

SEEING: Mapping[str, ExportSpec] = MappingProxyType({"blip": blip_captions, "pp_formulanet": formulas})
"""Model type -> the spec of its encoder-decoder for image-to-text, where it has no row or one for other classes."""

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
            reads(hidden_size="encoder.hidden_size"),
            decoder_reads("decoder.num_hidden_layers", "decoder.num_key_value_heads", "decoder.head_dim"),
        ),
        "encoder-decoder": composite(composite_text_inputs, STATES, "text2text-generation", EMPTY, encoder_mask),
        "pix2struct": compose(
            seq2seq,
            reads(vocab_size="text_config.vocab_size", hidden_size="vision_config.hidden_size"),
            decoder_reads("text_config.num_layers", "text_config.num_heads", "text_config.d_kv"),
            reads(patch_size="vision_config.patch_embed_hidden_size + 2"),
            behaves(
                "monolith",
                patch_inputs,
                decoder_ids,
                takes("decoder_attention_mask", TARGET, "padding_mask"),
                encoder_decoder_cache("decoder_attention_mask"),
            ),
            encodes(patch_inputs),
            behaves(
                "decoder",
                encoder_states,
                encoder_mask,
                next_ids,
                takes("attention_mask", TARGET, "padding_mask", path=("decoder_attention_mask",)),
            ),
            generation_tasks("image-to-text"),
        ),
        "speech-encoder-decoder": speech_encoder_decoder,
        # The decoder alone, TrOCRForCausalLM. It attends to the output of an encoder of images, which is another model.
        "trocr": compose(
            seq2seq,
            reads(
                hidden_size="cross_attention_hidden_size or d_model",
                decoder_head_dim="d_model // decoder_num_attention_heads",
            ),
            behaves(
                "decoder",
                source_states(),
                takes("encoder_attention_mask", SOURCE, "padding_mask"),
                takes("input_ids", TARGET, "token_ids"),
                encoder_decoder_cache("input_ids"),
            ),
            generation_tasks("text-generation", gives("logits", f"{TARGET} _"), encoder=EMPTY),
        ),
        "vision-encoder-decoder": composite(pixel_inputs, "batch_size _ _", "image-to-text", image_reads("encoder.")),
        **speech.ROWS,
    }
)
