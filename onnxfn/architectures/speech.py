"""Encoder-decoders that read audio and generate a text or notes, and those that read a text and generate audio."""

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.audio import FRAMES, parakeet_frames
from onnxfn.architectures.families.rows import sized_in
from onnxfn.architectures.families.seq2seq import (
    STATES,
    audio_decoder,
    audio_encoder,
    audio_mask,
    decoder_reads,
    encoder_and_monolith,
    encoder_decoder_cache,
    encoder_inputs,
    encoder_mask,
    encoder_states,
    encodes,
    generation_tasks,
    input_lengths,
    mask_lengths,
    mel_inputs,
    next_ids,
    seq2seq,
    source_states,
    speech_seq2seq,
    t5_reads,
    waveform_inputs,
)
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import SOURCE, case, gives, loads, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import behaves, extra_file, model_part
from onnxfn.specs.tasks.tasks import tasked

# The encoder has the positions of a spectrogram of 30 seconds (modeling_whisper.WhisperEncoder.forward).
whisper_inputs: ExportSpec = takes("input_features", "batch_size num_mel_bins= num_frames=", "normal", kind="float")

# The model accepts whole frames of a few milliseconds only; its processor pads the last one. Each of two convolutions
# halves their number. The mask is required: without it the model ignores the windows of the encoder's attention.
framed_waveform_inputs: ExportSpec = compose(
    takes("input_values", "batch_size frame_length*num_frames", "normal", kind="float"),
    takes("attention_mask", "batch_size frame_length*num_frames", "padding_mask"),
    sized_in("one right-padded left-padded", num_frames=(50, 29, 44, 83)),
)


def parakeet_seq2seq(decoder: str) -> ExportSpec:
    """A spec of Parakeet's encoder with a decoder, whose section of the configuration has this prefix."""
    return compose(
        speech_seq2seq,
        parakeet_frames("encoder_sequence_length"),
        reads(num_features="encoder_config.num_mel_bins", hidden_size="encoder_config.hidden_size"),
        decoder_reads(f"{decoder}num_hidden_layers", f"{decoder}num_key_value_heads", f"{decoder}head_dim"),
        audio_encoder(compose(mel_inputs, input_lengths(64, single=37, right_padded=51, left_padded=90)), FRAMES),
        audio_decoder("parakeet_encoder_output", 120, 53, 70, 150, 60, 140),
    )


NUM_ADAPTERS = "num_adapter_layers if add_adapter else 0"
seamless_inputs: ExportSpec = compose(mel_inputs, input_lengths(101, single=59, right_padded=77, left_padded=126))

# An encoder for speech, an encoder for text, and one decoder. The task chooses the encoder.
speech_tasks: ExportSpec = compose(
    encoder_and_monolith(seamless_inputs, FRAMES),
    behaves("decoder", encoder_states, audio_mask, next_ids, mask_lengths(120, 53, 70, 150, 60, 140)),
)
text_tasks: ExportSpec = compose(
    encoder_and_monolith(encoder_inputs), behaves("decoder", encoder_states, encoder_mask, next_ids)
)
seamless: ExportSpec = compose(
    seq2seq,
    reads(
        hidden_size="hidden_size",
        num_features="feature_projection_input_dim",
        adapter_kernel="adaptor_kernel_size - 2 * (adaptor_stride // 2)",
        frames=f"convolved(encoder_sequence_length, repeated(adapter_kernel, {NUM_ADAPTERS}), "
        f"repeated(adaptor_stride, {NUM_ADAPTERS}))",
    ),
    generation_tasks("automatic-speech-recognition", speech_tasks),
    generation_tasks("text2text-generation", text_tasks),
)

# T5 whose encoder reads mel spectrograms with `hidden_size` features per frame. `generate` of transformers first adds
# the composer to them: this step is a file of its own, `mel_conditioner`.
pop2piano_inputs: ExportSpec = compose(
    takes("input_features", f"{SOURCE} hidden_size=", "normal", kind="float"),
    takes("attention_mask", SOURCE, "padding_mask"),
)
pop2piano: ExportSpec = compose(
    seq2seq,
    t5_reads,
    generates("composers", "integers", high=from_config("composer_vocab_size")),
    encodes(
        compose(
            pop2piano_inputs,
            takes("input_features", f"{SOURCE} hidden_size=", "normal", kind="float", path=("inputs_embeds",)),
        )
    ),
    behaves("decoder", encoder_states, encoder_mask, next_ids),
    model_part(
        "mel_conditioner",
        pop2piano_inputs,
        takes("composer", "batch_size", "composers"),
        runs("music.mel_conditioner"),
        gives("conditioned_features", "batch_size encoder_sequence_length+1 _"),
        gives("conditioned_attention_mask", "batch_size encoder_sequence_length+1", kind="int"),
    ),
    generation_tasks("automatic-speech-recognition", extra_files=extra_file("mel_conditioner", "mel_conditioner")),
)

# SpeechT5 has batch size 1, as in Optimum. The decoder takes all frames so far, and its cache grows by all of them.
TEXT = "1 encoder_sequence_length"
speecht5: ExportSpec = compose(
    seq2seq,
    reads(hidden_size="hidden_size"),
    sized(past_decoder_sequence_length=12, n_spectrums_x_reduction_factor=20),
    case("one", sized(past_decoder_sequence_length=2, n_spectrums_x_reduction_factor=2)),
    case("right-padded", sized(past_decoder_sequence_length=8, decoder_sequence_length=9)),
    case("right-padded", sized(n_spectrums_x_reduction_factor=34)),
    case("left-padded", sized(past_decoder_sequence_length=1, n_spectrums_x_reduction_factor=11)),
    behaves(
        "encoder",
        takes("input_ids", TEXT, "token_ids"),
        runs("speecht5.encoder"),
        gives("encoder_outputs", f"{TEXT} _", kind="float"),
        gives("encoder_attention_mask", TEXT, kind="int"),
    ),
    behaves(
        "decoder",
        takes("output_sequence", "1 decoder_sequence_length num_mel_bins=", "normal", kind="float"),
        takes("speaker_embeddings", "1 speaker_embedding_dim=", "normal", kind="float"),
        source_states(TEXT),
        takes("encoder_attention_mask", TEXT, "padding_mask"),
        runs("speecht5.decoder"),
        gives("output_sequence_out", "1 decoder_sequence_length+1 _", kind="float"),
        gives("spectrum", "reduction_factor= num_mel_bins=", kind="float"),
        gives("prob", "reduction_factor=", kind="float"),
        encoder_decoder_cache("encoder_attention_mask", batch="1", output_length="decoder_sequence_length"),
    ),
    behaves(
        "monolith",
        takes("spectrogram", "n_spectrums_x_reduction_factor num_mel_bins=", "normal", kind="float"),
        runs("speecht5.postnet_and_vocoder"),
        gives("waveform", "n_samples"),
    ),
    generation_tasks(
        "text-to-audio",
        loads("AutoModelForTextToSpectrogram"),
        extra_files=extra_file("decoder_postnet_and_vocoder", "monolith"),
    ),
)

# A text encoder, a decoder of codes and Encodec. The decoder has one row per codebook of a text. The graph of the delay
# pattern gives the codes that the decoder must generate.
CODES = "batch_size*num_codebooks decoder_sequence_length"
musicgen: ExportSpec = compose(
    seq2seq,
    reads(
        vocab_size="text_encoder.vocab_size",
        hidden_size="text_encoder.d_model",
        codebook_size="decoder.vocab_size",
        num_codebooks="decoder.num_codebooks",
        codebooks_per_channel="decoder.num_codebooks // decoder.audio_channels",
    ),
    decoder_reads(
        "decoder.num_hidden_layers", "decoder.num_attention_heads", "decoder.hidden_size // decoder_num_attention_heads"
    ),
    generates("codes", "integers", high=from_config("codebook_size")),
    generates("padding_code", "constant", value=from_config("codebook_size")),
    generates("max_length", "constant", value=40),
    case("one", generates("max_length", "constant", value=9)),
    case("right-padded", generates("max_length", "constant", value=5)),
    case("left-padded", generates("max_length", "constant", value=27)),
    sized_in("one right-padded left-padded", chunk_length=(16, 7, 11, 30)),
    behaves("encoder", encoder_inputs, runs("self.text_encoder"), gives("last_hidden_state", STATES)),
    behaves(
        "decoder",
        takes("input_ids", CODES, "codes", path=("decoder_input_ids",)),
        encoder_states,
        encoder_mask,
        encoder_decoder_cache("encoder_attention_mask"),
    ),
    model_part(
        "encodec_decode",
        takes("audio_codes", "1 batch_size codebooks_per_channel= chunk_length", "codes"),
        runs("music.single_chunk_decoder"),
        gives("audio_values", "batch_size _ audio_length"),
    ),
    model_part(
        "build_delay_pattern_mask",
        takes("input_ids", CODES, "codes"),
        takes("pad_token_id", "1", "padding_code"),
        takes("max_length", "1", "max_length"),
        runs("music.build_delay_pattern_mask"),
        gives("input_ids_edited", CODES, kind="int"),
        gives("delay_pattern_mask", "batch_size*num_codebooks max_length", kind="int"),
    ),
    generation_tasks(
        "text-to-audio",
        gives("logits", f"{CODES} _"),
        encoder=compose(extra_file("text_encoder", "encoder"), extra_file("encodec_decode", "encodec_decode")),
        extra_files=extra_file("build_delay_pattern_mask", "build_delay_pattern_mask"),
    ),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "canary": parakeet_seq2seq("decoder_config."),
        "cohere_asr": parakeet_seq2seq(""),
        "moonshine": compose(
            speech_seq2seq,
            decoder_reads(
                "decoder_num_hidden_layers", "decoder_num_key_value_heads", "hidden_size // decoder_num_attention_heads"
            ),
            reads(hidden_size="hidden_size"),
            audio_encoder(waveform_inputs, "batch_size (((encoder_sequence_length-127)//64+1-7)//3+1-3)//2+1 _"),
            audio_decoder("moonshine_encoder_output", 16000, 3000, 4400, 9300, 3700, 8300),
        ),
        # The decoder adds positions to the encoder's states in place, so the model in one file does not return them.
        "moonshine_streaming": compose(
            speech_seq2seq,
            reads(
                frame_length="(encoder_config.sample_rate * encoder_config.frame_ms + 500) // 1000",
                hidden_size="encoder_config.hidden_size",
                decoder_num_layers="num_hidden_layers",
                decoder_num_attention_heads="num_key_value_heads or num_attention_heads",
                decoder_head_dim="head_dim or hidden_size // num_attention_heads",
            ),
            encoder_and_monolith(framed_waveform_inputs, "batch_size (num_frames+3)//4 _"),
            audio_decoder("moonshine_streaming_encoder_output", 4200, 1700, 2300, 6100, 1900, 5000),
        ),
        "musicgen": musicgen,
        "pop2piano": pop2piano,
        "seamless_m4t": seamless,
        "seamless_m4t_v2": seamless,
        # Each convolution halves the number of frames (modeling_speech_to_text.Conv1dSubsampler).
        "speech_to_text": compose(
            speech_seq2seq,
            reads(num_features="input_feat_per_channel * input_channels", shortening="2 ** num_conv_layers"),
            audio_encoder(mel_inputs, "batch_size (encoder_sequence_length+shortening-1)//shortening _"),
            behaves("decoder", encoder_states, audio_mask, next_ids, mask_lengths(64, 28, 41, 95, 34, 82)),
        ),
        "speecht5": speecht5,
        "whisper": compose(
            speech_seq2seq,
            reads(num_frames="max_source_positions * 2"),
            audio_encoder(whisper_inputs, "batch_size _ _"),
            behaves("decoder", encoder_states, next_ids),
            tasked("audio-classification", whisper_inputs),
        ),
    }
)
