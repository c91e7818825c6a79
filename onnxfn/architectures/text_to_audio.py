"""Encoder-decoders that read a text and generate audio."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.seq2seq import (
    STATES,
    encoder_decoder_cache,
    encoder_inputs,
    encoder_mask,
    encoder_states,
    generation_tasks,
    seq2seq,
)
from onnxfn.architectures.families.sizes import sized_in
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import case, gives, loads, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import behaves, decoder_with_past, extra_file, model_part
from onnxfn.specs.edits.caches import cross_cache
from onnxfn.specs.tasks.tasks import tasked

# SpeechT5 has batch size 1, as in Optimum. The decoder takes all frames so far, and its cache grows by all of them.
TEXT = "1 encoder_sequence_length"
SPECTROGRAM = "1 decoder_sequence_length"
speecht5: ExportSpec = compose(
    seq2seq,
    reads(hidden_size="hidden_size"),
    generates("frames", "normal"),
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
        takes("output_sequence", f"{SPECTROGRAM} num_mel_bins=", "frames", kind="float"),
        takes("speaker_embeddings", "1 speaker_embedding_dim=", "frames", kind="float"),
        takes("encoder_hidden_states", f"{TEXT} hidden_size=", "hidden_states", kind="float"),
        takes("encoder_attention_mask", TEXT, "padding_mask"),
        runs("speecht5.decoder"),
        gives("output_sequence_out", "1 decoder_sequence_length+1 _", kind="float"),
        gives("spectrum", "reduction_factor= num_mel_bins=", kind="float"),
        gives("prob", "reduction_factor=", kind="float"),
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
        decoder_num_layers="decoder.num_hidden_layers",
        decoder_num_attention_heads="decoder.num_attention_heads",
        decoder_head_dim="decoder.hidden_size // decoder_num_attention_heads",
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
    *(
        tasked(
            task,
            gives("logits", f"{CODES} _"),
            extra_file("text_encoder", "encoder"),
            extra_file("encodec_decode", "encodec_decode"),
            files,
            extra_file("build_delay_pattern_mask", "build_delay_pattern_mask"),
        )
        for task, files in (
            ("text-to-audio", extra_file("decoder_model", "decoder")),
            ("text-to-audio-with-past", decoder_with_past()),
        )
    ),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType({"musicgen": musicgen, "speecht5": speecht5})
