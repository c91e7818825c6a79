"""Encoder-decoders: rows. Where Optimum has one, inputs and tasks are those of its table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.common_patches import function_patch
from onnxfn.architectures.families import (
    convolved_waves,
    decoder_ids,
    encodec_layers,
    encoder_decoder_cache,
    encoder_inputs,
    encoder_mask,
    encoder_states,
    next_ids,
    parakeet_frames,
    pixels,
    seq2seq,
    speech_seq2seq,
    standalone_decoder,
    text_inputs,
    text_seq2seq,
)
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.edits.behaviors import (
    behaves,
    decoder_with_past,
    encoder_and_decoder,
    encoder_and_merged_decoder,
    extra_file,
    model_part,
)
from onnxfn.specs.edits.caches import cross_cache, self_cache
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.facts import SOURCE, TARGET, builds, case, gives, loads, patched, runs, takes
from onnxfn.specs.getters import (
    constant,
    convolved,
    difference,
    either,
    from_config,
    if_else,
    item,
    nearest,
    power,
    product,
    quotient,
    reads,
    repeated,
    total,
)
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

t5_reads = reads(
    decoder_num_layers="num_decoder_layers",
    decoder_num_attention_heads="num_heads",
    decoder_head_dim="d_kv",
)
t5 = compose(text_seq2seq, t5_reads)

# T5 that hears: each place is as wide as its states. Its file of composers, which `generate` of transformers asks
# first, stands beside its encoder and its decoder.
pop2piano = compose(
    seq2seq,
    t5_reads,
    generates("mel", "normal"),
    generates("composers", "integers", high=from_config("composer_vocab_size")),
    behaves(
        "encoder",
        takes("input_features", f"{SOURCE} hidden_size=", "mel", kind="float", path=("inputs_embeds",)),
        takes("attention_mask", SOURCE, "padding_mask"),
        runs("encoder"),
        gives("last_hidden_state", f"{SOURCE} _"),
    ),
    behaves("decoder", encoder_states, encoder_mask, next_ids),
    model_part(
        "mel_conditioner",
        takes("input_features", f"{SOURCE} hidden_size=", "mel", kind="float"),
        takes("attention_mask", SOURCE, "padding_mask"),
        takes("composer", "batch_size", "composers"),
        runs("pop2piano.mel_conditioner"),
        gives("conditioned_features", "batch_size encoder_sequence_length+1 _"),
        gives("conditioned_attention_mask", "batch_size encoder_sequence_length+1"),
    ),
    *(
        tasked(task, spec=compose(files, extra_file("mel_conditioner", "mel_conditioner")))
        for task, files in (
            ("automatic-speech-recognition", encoder_and_decoder()),
            ("automatic-speech-recognition-with-past", encoder_and_merged_decoder()),
        )
    ),
)

LONG_T5 = "transformers.models.longt5.modeling_longt5"
# Traced at a length of several blocks that every token sees, and of no whole number of those it sees one by one.
longt5 = compose(
    t5,
    sized(encoder_sequence_length=57),
    patched(
        f"{LONG_T5}:_make_global_fixed_block_ids",
        by="longt5.global_block_ids",
        why="branches on the number of blocks, and counts them in fractions",
    ),
    patched(
        f"{LONG_T5}:_create_global_aggregates",
        by="longt5.global_aggregates",
        why="makes as many classes as there were blocks in the trace",
    ),
    patched(
        f"{LONG_T5}:LongT5TransientGlobalAttention.compute_side_bias",
        by="longt5.side_bias",
        why="has nothing to see in a text that is shorter than a block",
    ),
)

marian = compose(text_seq2seq, standalone_decoder)

SWITCH = "transformers.models.switch_transformers.modeling_switch_transformers:SwitchTransformers"
switch_transformers = compose(
    t5,
    behaves("decoder", builds("encoder_outputs", "moe_encoder_output")),
    patched(
        f"{SWITCH}Top1Router.forward",
        by="switch_experts.router_outputs",
        why="converts the weights of its classifier while it runs",
    ),
    patched(
        f"{SWITCH}Experts.forward",
        by="switch_experts.expert_outputs",
        why="loops over the experts that were chosen",
    ),
)
LED = "transformers.models.led.modeling_led:LEDEncoder"
globally = takes("global_attention_mask", SOURCE, "global_mask")
led = compose(
    text_seq2seq,
    behaves("monolith", globally),
    behaves("encoder", globally),
    generates("global_mask", "first_one"),
    # Traced with one global token a row; tried with none, and with another number in each row.
    case("one", generates("global_mask", "constant", value=0)),
    case("right-padded", generates("global_mask", "integers", high=2)),
    case("left-padded", generates("global_mask", "integers", high=2)),
    patched(f"{LED}._pad_to_window_size", by="longformer.led_unpadded_inputs", why="branches on the length"),
    patched(
        f"{LED}SelfAttention.forward",
        by="longformer.attention",
        why="branches on whether any token is global",
    ),
)

# With a cache, its decoder reads no more than one token at once (modeling_prophetnet.ProphetNetDecoder.forward).
prophetnet = compose(
    only_tasks(text_seq2seq, "feature-extraction", "text2text-generation"),
    reads(
        hidden_size="hidden_size",
        decoder_num_layers="num_decoder_layers",
        decoder_num_attention_heads="num_decoder_attention_heads",
    ),
)
# Traced at a length that is no multiple of a block's, the graph pads to one, whole blocks too.
pegasus_x = compose(text_seq2seq, sized(encoder_sequence_length=15))
t5gemma = compose(
    text_seq2seq,
    reads(
        hidden_size="encoder.hidden_size",
        decoder_num_layers="decoder.num_hidden_layers",
        decoder_num_attention_heads="decoder.num_key_value_heads",
        decoder_head_dim="decoder.head_dim",
    ),
)


def classifier(model: str) -> ExportSpec:
    """Classification by what the decoder says at the end of a text, for a class of transformers so called."""
    return tasked(
        "text-classification",
        spec=compose(
            text_inputs,
            generates("token_ids", "ids_with_end", high=from_config("vocab_size"), end=from_config("eos_token_id")),
            patched(
                f"{model}ForSequenceClassification.forward",
                by="bart.sequence_classifier_output",
                why="selects rows by a mask, so that their number depends on the tokens",
            ),
        ),
    )


answers = tasked("question-answering", spec=text_inputs)
BART = "transformers.models.bart.modeling_bart:Bart"
MBART = "transformers.models.mbart.modeling_mbart:MBart"
BIGBIRD = "transformers.models.bigbird_pegasus.modeling_bigbird_pegasus:BigBirdPegasus"
BLENDERBOT_SMALL = "transformers.models.blenderbot_small.modeling_blenderbot_small:BlenderbotSmall"
MARIAN = "transformers.models.marian.modeling_marian:Marian"
PLBART = "transformers.models.plbart.modeling_plbart:PLBart"


def layered(model: str) -> ExportSpec:
    """A model of transformers, by how its classes begin, whose encoder has BART's layers."""
    return patched(
        f"{model}EncoderLayer.forward", by="bart.encoder_layer_output", why="branches on infinities in float16"
    )


# Their decoders start with the last token that the encoder reads.
mbart = compose(
    marian,
    classifier(MBART),
    answers,
    function_patch("transformers.models.mbart.modeling_mbart", "shift_tokens_right"),
)
plbart = compose(
    marian,
    layered(PLBART),
    classifier(PLBART),
    function_patch("transformers.models.plbart.modeling_plbart", "shift_tokens_right"),
)
m2m_100 = compose(
    text_seq2seq,
    patched(
        "transformers.models.m2m_100.modeling_m2m_100:"
        "M2M100SinusoidalPositionalEmbedding.create_position_ids_from_input_ids",
        by="position_ids.position_ids_from_input_ids",
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
        decoder_ids,
        encoder_decoder_cache("decoder_input_ids"),
        gives("encoder_last_hidden_state", "batch_size _ _"),
    ),
    behaves("encoder", heard, runs("encoder"), gives("last_hidden_state", "batch_size _ _")),
    behaves("decoder", encoder_states, next_ids),
    tasked("audio-classification", spec=heard),
)

# A mask over what was heard goes to the decoder too, which shortens it as the encoder did.
HEARD = "batch_size audio_sequence_length"
heard_mask = takes("encoder_attention_mask", HEARD, "padding_mask", path=("attention_mask",))


def lengths_heard(traced: int, *tried: int) -> ExportSpec:
    """How much was heard in each case of a decoder, whose states say how much at most: the mask is over all of it."""
    names = ("one", "right-padded", "left-padded", "prompt", "prompts")
    cases = (case(name, sized(audio_sequence_length=length)) for name, length in zip(names, tried, strict=True))
    states = {"prompt": 9, "prompts": 21}
    emptied = (case(name, sized(encoder_sequence_length=length)) for name, length in states.items())
    return compose(sized(audio_sequence_length=traced), *cases, *emptied)


def listens(inputs: ExportSpec, states: str, *, gives_them: bool = True) -> ExportSpec:
    """What is heard and how it comes out of the encoder, alone or in the whole model, which may keep it to itself."""
    whole = (gives("encoder_last_hidden_state", states),) if gives_them else ()
    return compose(
        behaves("monolith", inputs, decoder_ids, encoder_decoder_cache("decoder_input_ids"), *whole),
        behaves("encoder", inputs, runs("encoder"), gives("last_hidden_state", states)),
    )


def told_what_is_heard(by: str, *lengths: int) -> ExportSpec:
    """A decoder that is handed the encoder's output as one, made `by` a builder, with a mask over these lengths."""
    return behaves(
        "decoder",
        encoder_states,
        takes("encoder_attention_mask", HEARD, "padding_mask", path=("encoder_outputs", "attention_mask")),
        next_ids,
        builds("encoder_outputs", by),
        lengths_heard(*lengths),
    )


# Filter banks, halved in length by each convolution (modeling_speech_to_text.Conv1dSubsampler).
banks = compose(
    takes("input_features", f"{SOURCE} num_features=", "mel", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
)
shortened = "batch_size (encoder_sequence_length+shortening-1)//shortening _"
speech_to_text = compose(
    speech_seq2seq,
    reads(
        num_features=product("input_feat_per_channel", "input_channels"),
        shortening=power(constant(2), "num_conv_layers"),
    ),
    generates("mel", "normal"),
    listens(banks, shortened),
    behaves("decoder", encoder_states, heard_mask, next_ids, lengths_heard(64, 28, 41, 95, 34, 82)),
    patched(
        "transformers.models.speech_to_text.modeling_speech_to_text:"
        "Speech2TextSinusoidalPositionalEmbedding.create_position_ids_from_input_ids",
        by="position_ids.position_ids_from_input_ids",
        why="adds a length to whole numbers of 32 bits",
    ),
)

MOONSHINE = "transformers.models.moonshine.modeling_moonshine:MoonshinePreTrainedModel"
waveforms = compose(
    takes("input_values", SOURCE, "waveform", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
    sized(encoder_sequence_length=16000),
    case("one", sized(encoder_sequence_length=9001)),
    case("right-padded", sized(encoder_sequence_length=12000)),
    case("left-padded", sized(encoder_sequence_length=7500)),
)
thrice_convolved = "batch_size (((encoder_sequence_length-127)//64+1-7)//3+1-3)//2+1 _"
moonshine = compose(
    speech_seq2seq,
    reads(
        decoder_num_layers="decoder_num_hidden_layers",
        decoder_num_attention_heads="decoder_num_key_value_heads",
        decoder_head_dim=quotient("hidden_size", "decoder_num_attention_heads"),
        hidden_size="hidden_size",
    ),
    generates("waveform", "normal"),
    listens(waveforms, thrice_convolved),
    told_what_is_heard("moonshine_encoder_output", 16000, 3000, 4400, 9300, 3700, 8300),
    patched(
        f"{MOONSHINE}._get_feat_extract_output_lengths",
        by="moonshine.feature_lengths",
        why="divides lengths as real numbers",
    ),
)

# Whole frames of a few milliseconds: what ends within one the processor pads, and the model refuses. Each of two
# convolutions halves their number. Without a mask the model forgets the windows of its encoder's attention.
framed = compose(
    takes("input_values", "batch_size frame_length*num_frames", "waveform", kind="float"),
    takes("attention_mask", "batch_size frame_length*num_frames", "padding_mask"),
    sized(num_frames=50),
    case("one", sized(num_frames=29)),
    case("right-padded", sized(num_frames=44)),
    case("left-padded", sized(num_frames=83)),
)
# Its decoder adds the places to the states where they lie, so the whole model gives no `encoder_last_hidden_state`.
moonshine_streaming = compose(
    speech_seq2seq,
    reads(
        frame_length=nearest(product("encoder_config.sample_rate", "encoder_config.frame_ms"), constant(1000)),
        hidden_size="encoder_config.hidden_size",
        decoder_num_layers="num_hidden_layers",
        decoder_num_attention_heads=either("num_key_value_heads", "num_attention_heads"),
        decoder_head_dim=either("head_dim", quotient("hidden_size", "num_attention_heads")),
    ),
    generates("waveform", "normal"),
    listens(framed, "batch_size (num_frames+3)//4 _", gives_them=False),
    told_what_is_heard("moonshine_streaming_encoder_output", 4200, 1700, 2300, 6100, 1900, 5000),
)

frames = "batch_size frames _"
# Parakeet's encoder, and a decoder that its own configuration tells, or that of the whole.
parakeet_banks = compose(
    banks,
    sized(encoder_sequence_length=64),
    case("one", sized(encoder_sequence_length=37)),
    case("right-padded", sized(encoder_sequence_length=51)),
    case("left-padded", sized(encoder_sequence_length=90)),
)


def parakeet_seq2seq(decoder: str) -> ExportSpec:
    """A decoder that writes what Parakeet's encoder hears; where its fields are."""
    return compose(
        speech_seq2seq,
        parakeet_frames("encoder_config.", "encoder_sequence_length"),
        reads(
            num_features="encoder_config.num_mel_bins",
            hidden_size="encoder_config.hidden_size",
            decoder_num_layers=f"{decoder}num_hidden_layers",
            decoder_num_attention_heads=f"{decoder}num_key_value_heads",
            decoder_head_dim=f"{decoder}head_dim",
        ),
        generates("mel", "normal"),
        listens(parakeet_banks, frames),
        told_what_is_heard("parakeet_encoder_output", 120, 53, 70, 150, 60, 140),
    )


adapters = if_else("add_adapter", "num_adapter_layers", constant(0))
long_banks = compose(
    banks,
    sized(encoder_sequence_length=101),
    case("one", sized(encoder_sequence_length=59)),
    case("right-padded", sized(encoder_sequence_length=77)),
    case("left-padded", sized(encoder_sequence_length=126)),
)


def seamless(model: str) -> ExportSpec:
    """A model of speech and texts that writes texts, for what its classes begin with: each task has its encoder."""
    hearing = compose(
        listens(long_banks, frames, gives_them=False),
        behaves("decoder", encoder_states, heard_mask, next_ids, lengths_heard(120, 53, 70, 150, 60, 140)),
    )
    reading = compose(
        behaves("monolith", encoder_inputs, decoder_ids, encoder_decoder_cache("decoder_input_ids")),
        behaves("encoder", encoder_inputs, runs("encoder"), gives("last_hidden_state", f"{SOURCE} _")),
        behaves("decoder", encoder_states, encoder_mask, next_ids),
    )
    return compose(
        seq2seq,
        reads(
            hidden_size="hidden_size",
            num_features="feature_projection_input_dim",
            adapter_kernel=difference(
                "adaptor_kernel_size", product(constant(2), quotient("adaptor_stride", constant(2)))
            ),
            frames=convolved(
                "encoder_sequence_length", repeated("adapter_kernel", adapters), repeated("adaptor_stride", adapters)
            ),
        ),
        generates("mel", "normal"),
        tasked("automatic-speech-recognition", spec=compose(hearing, encoder_and_decoder())),
        tasked("automatic-speech-recognition-with-past", spec=compose(hearing, encoder_and_merged_decoder())),
        tasked("text2text-generation", spec=compose(reading, encoder_and_decoder())),
        tasked("text2text-generation-with-past", spec=compose(reading, encoder_and_merged_decoder())),
        patched(
            f"{model}SinusoidalPositionalEmbedding.create_position_ids_from_input_ids",
            by="position_ids.position_ids_from_input_ids",
            why="adds a length to whole numbers of 32 bits",
        ),
    )


# Patches of an image, as many as its processor makes of it; the first two of their numbers are their row and column.
patches = compose(
    takes("flattened_patches", f"{SOURCE} patch_size=", "patches", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
    generates("patches", "whole_floats", high=4),
)
written_mask = takes("attention_mask", TARGET, "padding_mask", path=("decoder_attention_mask",))
pix2struct = compose(
    seq2seq,
    reads(
        vocab_size="text_config.vocab_size",
        hidden_size="vision_config.hidden_size",
        decoder_num_layers="text_config.num_layers",
        decoder_num_attention_heads="text_config.num_heads",
        decoder_head_dim="text_config.d_kv",
        patch_size=total("vision_config.patch_embed_hidden_size", constant(2)),
    ),
    behaves(
        "monolith",
        patches,
        decoder_ids,
        takes("decoder_attention_mask", TARGET, "padding_mask"),
        encoder_decoder_cache("decoder_attention_mask"),
    ),
    behaves("encoder", patches, runs("encoder"), gives("last_hidden_state", f"{SOURCE} _")),
    behaves("decoder", encoder_states, encoder_mask, next_ids, written_mask),
    tasked("image-to-text", spec=encoder_and_decoder()),
    tasked("image-to-text-with-past", spec=encoder_and_merged_decoder()),
)

# Two models in one: the decoder's own configuration tells its cache. That of an encoder-decoder keeps what it reads of
# the encoder, in four entries; one that is not, as GPT-2, computes it each time, and its cache goes by its own names.
FOUR = "decoder.decoder_layers"
depth = either(FOUR, "decoder.num_hidden_layers")
joint_reads = reads(
    vocab_size="decoder.vocab_size",
    hidden_size="encoder.hidden_size",
    decoder_num_attention_heads=either("decoder.decoder_attention_heads", "decoder.num_attention_heads"),
    decoder_head_dim=quotient("decoder.hidden_size", "decoder_num_attention_heads"),
)


def joint_cache(after: str) -> ExportSpec:
    """Four entries a layer or two, by the kind of the decoder."""
    heads, size = "decoder_num_attention_heads", "decoder_head_dim"
    return compose(
        cross_cache(heads=heads, key=size, value=size, layers=if_else(FOUR, depth, constant(0)), after=after),
        self_cache(heads=heads, key=size, value=size, layers=if_else(FOUR, constant(0), depth), after=after),
    )


new_tokens = compose(takes("input_ids", TARGET, "token_ids", path=("decoder_input_ids",)), joint_cache("input_ids"))
read_tokens = compose(
    takes("input_ids", SOURCE, "read_ids"),
    takes("attention_mask", SOURCE, "padding_mask"),
    generates("read_ids", "integers", high=from_config("encoder.vocab_size")),
)
encoder_decoder = compose(
    seq2seq,
    joint_reads,
    behaves("monolith", read_tokens, decoder_ids, joint_cache("decoder_input_ids")),
    behaves("encoder", read_tokens, runs("encoder"), gives("last_hidden_state", f"{SOURCE} _")),
    behaves("decoder", encoder_states, encoder_mask, new_tokens),
    tasked("text2text-generation", spec=encoder_and_decoder()),
    tasked("text2text-generation-with-past", spec=encoder_and_merged_decoder()),
)

vision_encoder_decoder = compose(
    seq2seq,
    joint_reads,
    reads(
        num_channels="encoder.num_channels",
        image_height=either(item("encoder.image_size", 0), "encoder.image_size"),
        image_width=either(item("encoder.image_size", 1), "encoder.image_size"),
    ),
    behaves("monolith", pixels, decoder_ids, joint_cache("decoder_input_ids")),
    behaves("encoder", pixels, runs("encoder"), gives("last_hidden_state", "batch_size _ _")),
    behaves("decoder", encoder_states, new_tokens),
    tasked("image-to-text", spec=encoder_and_decoder()),
    tasked("image-to-text-with-past", spec=encoder_and_merged_decoder()),
)

# Waveforms, as wav2vec2 and those like it hear them.
speech_encoder_decoder = compose(
    seq2seq,
    joint_reads,
    convolved_waves("encoder.", "encoder_sequence_length"),
    reads(hidden_size=if_else("encoder.add_adapter", "encoder.output_hidden_size", "encoder.hidden_size")),
    generates("waveform", "normal"),
    behaves("monolith", waveforms, decoder_ids, joint_cache("decoder_input_ids")),
    behaves("encoder", waveforms, runs("encoder"), gives("last_hidden_state", frames)),
    # As long as makes so many states: the model looks for the last state that is heard among those that there are.
    behaves("decoder", encoder_states, heard_mask, new_tokens, lengths_heard(5300, 2400, 3610, 7950, 2960, 6805)),
    tasked("automatic-speech-recognition", spec=encoder_and_decoder()),
    tasked("automatic-speech-recognition-with-past", spec=encoder_and_merged_decoder()),
)

# A decoder that reads what an encoder of images gave, which is a model of its own: TrOCRForCausalLM.
trocr = compose(
    seq2seq,
    reads(
        hidden_size=either("cross_attention_hidden_size", "d_model"),
        decoder_head_dim=quotient("d_model", "decoder_num_attention_heads"),
    ),
    behaves(
        "decoder",
        takes("encoder_hidden_states", f"{SOURCE} hidden_size=", "hidden_states", kind="float"),
        takes("encoder_attention_mask", SOURCE, "padding_mask"),
        takes("input_ids", TARGET, "token_ids"),
        encoder_decoder_cache("input_ids"),
    ),
    *(
        tasked(task, spec=compose(gives("logits", f"{TARGET} _"), files))
        for task, files in (
            ("text-generation", extra_file("decoder_model", "decoder")),
            ("text-generation-with-past", decoder_with_past()),
        )
    ),
)

VOCODER = "decoder_postnet_and_vocoder"

# One text at a time, as Optimum has it. The decoder takes all frames so far, and keeps something of each of them.
FRAMES = "1 decoder_sequence_length"
spoken_text = "1 encoder_sequence_length"
speecht5 = compose(
    seq2seq,
    reads(
        hidden_size="hidden_size",
        num_mel_bins="num_mel_bins",
        speaker_embedding_dim="speaker_embedding_dim",
        reduction_factor="reduction_factor",
    ),
    generates("frames", "normal"),
    sized(past_decoder_sequence_length=12, n_spectrums_x_reduction_factor=20),
    case("one", sized(past_decoder_sequence_length=2, n_spectrums_x_reduction_factor=2)),
    case("right-padded", sized(past_decoder_sequence_length=8, decoder_sequence_length=9)),
    case("right-padded", sized(n_spectrums_x_reduction_factor=34)),
    case("left-padded", sized(past_decoder_sequence_length=1, n_spectrums_x_reduction_factor=11)),
    behaves(
        "encoder",
        takes("input_ids", spoken_text, "token_ids"),
        runs("speecht5.encoder"),
        gives("encoder_outputs", f"{spoken_text} _"),
        gives("encoder_attention_mask", spoken_text),
    ),
    behaves(
        "decoder",
        takes("output_sequence", f"{FRAMES} num_mel_bins=", "frames", kind="float"),
        takes("speaker_embeddings", "1 speaker_embedding_dim=", "frames", kind="float"),
        takes("encoder_hidden_states", f"{spoken_text} hidden_size=", "hidden_states", kind="float"),
        takes("encoder_attention_mask", spoken_text, "padding_mask"),
        runs("speecht5.decoder"),
        gives("output_sequence_out", "1 decoder_sequence_length+1 _"),
        gives("spectrum", "reduction_factor= num_mel_bins="),
        gives("prob", "reduction_factor="),
        cross_cache(
            heads="decoder_num_attention_heads",
            key="decoder_head_dim",
            value="decoder_head_dim",
            after="encoder_attention_mask",
            batch="1",
            output_length="decoder_sequence_length",
        ),
    ),
    behaves(
        "monolith",
        takes("spectrogram", "n_spectrums_x_reduction_factor num_mel_bins=", "frames", kind="float"),
        runs("speecht5.postnet_and_vocoder"),
        gives("waveform", "n_samples"),
    ),
    *(
        tasked(task, spec=compose(loads("AutoModelForTextToSpectrogram"), files, extra_file(VOCODER, "monolith")))
        for task, files in (
            ("text-to-audio", encoder_and_decoder()),
            ("text-to-audio-with-past", encoder_and_merged_decoder()),
        )
    ),
)

# Three models in one, and a rule of which codes the decoder is to write. It writes a row for each codebook of a text.
CODES = "batch_size*num_codebooks decoder_sequence_length"
musicgen = compose(
    seq2seq,
    reads(
        vocab_size="text_encoder.vocab_size",
        hidden_size="text_encoder.d_model",
        codebook_size="decoder.vocab_size",
        num_codebooks="decoder.num_codebooks",
        codebooks_heard=quotient("decoder.num_codebooks", "decoder.audio_channels"),
        decoder_num_layers="decoder.num_hidden_layers",
        decoder_num_attention_heads="decoder.num_attention_heads",
        decoder_head_dim=quotient("decoder.hidden_size", "decoder_num_attention_heads"),
    ),
    generates("codes", "integers", high=from_config("codebook_size")),
    generates("padding_code", "constant", value=from_config("codebook_size")),
    generates("most", "constant", value=40),
    case("one", generates("most", "constant", value=9)),
    case("right-padded", generates("most", "constant", value=5)),
    case("left-padded", generates("most", "constant", value=27)),
    sized(chunk_length=16),
    case("one", sized(chunk_length=7)),
    case("right-padded", sized(chunk_length=11)),
    case("left-padded", sized(chunk_length=30)),
    behaves(
        "encoder",
        encoder_inputs,
        runs("musicgen.text_encoder"),
        gives("last_hidden_state", f"{SOURCE} _"),
    ),
    behaves(
        "decoder",
        takes("input_ids", CODES, "codes", path=("decoder_input_ids",)),
        encoder_states,
        encoder_mask,
        encoder_decoder_cache("encoder_attention_mask"),
    ),
    model_part(
        "encodec_decode",
        takes("audio_codes", "1 batch_size codebooks_heard= chunk_length", "codes"),
        runs("musicgen.encodec_decode"),
        gives("audio_values", "batch_size _ audio_length"),
    ),
    model_part(
        "build_delay_pattern_mask",
        takes("input_ids", CODES, "codes"),
        takes("pad_token_id", "1", "padding_code"),
        takes("max_length", "1", "most"),
        runs("musicgen.build_delay_pattern_mask"),
        gives("input_ids_edited", CODES),
        gives("delay_pattern_mask", "batch_size*num_codebooks max_length"),
    ),
    *(
        tasked(
            task,
            spec=compose(
                loads("AutoModelForTextToWaveform"),
                gives("logits", f"{CODES} _"),
                extra_file("text_encoder", "encoder"),
                extra_file("encodec_decode", "encodec_decode"),
                files,
                extra_file("build_delay_pattern_mask", "build_delay_pattern_mask"),
            ),
        )
        for task, files in (
            ("text-to-audio", extra_file("decoder_model", "decoder")),
            ("text-to-audio-with-past", decoder_with_past()),
        )
    ),
    patched(
        "transformers.models.musicgen.modeling_musicgen:MusicgenForCausalLM.build_delay_pattern_mask",
        by="musicgen.delay_pattern_mask",
        why="writes into slices and looks for the first code to write",
    ),
    encodec_layers,
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "bart": compose(marian, layered(BART), classifier(BART), answers),
        "bigbird_pegasus": compose(marian, classifier(BIGBIRD), answers),
        "blenderbot": marian,
        "blenderbot-small": compose(marian, layered(BLENDERBOT_SMALL)),
        "canary": parakeet_seq2seq("decoder_config."),
        "cohere_asr": parakeet_seq2seq(""),
        "encoder-decoder": encoder_decoder,
        "led": led,
        "longt5": longt5,
        "m2m_100": m2m_100,
        "marian": compose(marian, layered(MARIAN)),
        "mbart": mbart,
        "moonshine": moonshine,
        "moonshine_streaming": moonshine_streaming,
        "mt5": t5,
        "musicgen": musicgen,
        "mvp": marian,
        "pegasus": marian,
        "pegasus_x": pegasus_x,
        "pix2struct": pix2struct,
        "plbart": plbart,
        "pop2piano": pop2piano,
        "prophetnet": prophetnet,
        "seamless_m4t": seamless("transformers.models.seamless_m4t.modeling_seamless_m4t:SeamlessM4T"),
        "seamless_m4t_v2": seamless("transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2:SeamlessM4Tv2"),
        "speech-encoder-decoder": speech_encoder_decoder,
        "speech_to_text": speech_to_text,
        "speecht5": speecht5,
        "switch_transformers": switch_transformers,
        "t5": t5,
        "t5gemma": t5gemma,
        "trocr": trocr,
        "umt5": t5,
        "vision-encoder-decoder": vision_encoder_decoder,
        "whisper": whisper,
    }
)
