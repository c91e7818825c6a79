"""Models for audio. Rows that Optimum also has take its inputs and tasks (tests/contract)."""

from collections.abc import Mapping

from onnxfn.architectures.families.audio import (
    FRAMES,
    audio,
    audio_features,
    audio_frames,
    audio_tasks,
    audio_transcription,
    audio_with_speaker_tasks,
    fixed_mel_inputs,
    mel_inputs,
    parakeet_frames,
    subsampled_frames,
    wav2vec2_frames,
    waveforms,
)
from onnxfn.architectures.families.rows import rows, sized_in
from onnxfn.architectures.families.text import text_inputs
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import SOURCE, TOKENS, always, case, gives, links, loads, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import STEMS, behaves, encoder_and_decoder
from onnxfn.specs.edits.tensors import without
from onnxfn.specs.tasks.tasks import tasked

wav2vec2: ExportSpec = compose(audio_with_speaker_tasks, wav2vec2_frames(""))


def transducer(*encoder_specs: ExportSpec, loader: str = "AutoModelForRNNT") -> ExportSpec:
    """A spec of an encoder of mel spectrograms and a decoder with a recurrent state (an LSTM): Parakeet, Nemotron."""
    state = "num_decoder_layers= batch_size decoder_hidden_size="
    return compose(
        generates("token_ids", "integers", high=from_config("vocab_size")),
        behaves(
            "encoder",
            mel_inputs,
            *encoder_specs,
            runs("transducers.encoder"),
            gives("pooler_output", FRAMES),
            gives("encoder_attention_mask", "batch_size frames", kind="int"),
        ),
        behaves(
            "decoder",
            takes("input_ids", "batch_size 1", "token_ids"),
            takes("encoder_hidden_states", f"{SOURCE} decoder_hidden_size=", "uniform", kind="float"),
            takes("past_hidden_state", state, "uniform", kind="float"),
            takes("past_cell_state", state, "uniform", kind="float"),
            sized_in("one several", batch_size=(2, 1, 3), encoder_sequence_length=(6, 1, 11)),
            runs("transducers.decoder"),
            links("encoder_hidden_states", part=STEMS["encoder"], output="pooler_output"),
            gives("logits", f"{SOURCE} _"),
            gives("present_hidden_state", state),
            gives("present_cell_state", state),
        ),
        tasked("automatic-speech-recognition", loads(loader), encoder_and_decoder()),
    )


# The convolutions of Nemotron's encoder pad `kernel - 1` on the left and `stride - 1` on the right. The graph takes the
# whole audio at once, not in chunks. Its lookahead is the default of the configuration.
nemotron_frames: ExportSpec = subsampled_frames("2 - mel_stride", "mel_halvings")

# LASR's encoder has two convolutions.
lasr_frames: ExportSpec = subsampled_frames("mel_kernel", "2")

# Some layers of Granite's encoder halve the number of frames. One step of `input_features` holds two steps of a mel
# spectrogram, each with its deltas.
granite_frames: ExportSpec = compose(
    subsampled_frames("2", "mel_halvings"),
    reads(
        num_mel_bins="(encoder_config.num_mel_bins or num_mel_bins) * 4",
        mel_stride="2",
        mel_halvings="len(encoder_config.subsample_layers if encoder_config else subsample_layers)",
    ),
    # The trace has several blocks, also in the last layers, and no whole number of them.
    sized(sequence_length=1010),
)

# The number of frames is the length over `factor`, rounded up.
diarization_frames: ExportSpec = reads(
    num_mel_bins="audio_config.num_mel_bins or num_mel_bins",
    factor="audio_config.subsampling_factor or subsampling_factor",
)

# DAC's convolutions have a kernel of twice their stride, and pad half the stride, rounded up, on both sides. There is
# no mask: its length would have to be a multiple of a frame.
dac_frames: ExportSpec = reads(
    ratios="dac_config.downsampling_ratios or downsampling_ratios",
    frames="convolved(sequence_length, rounded_to_even(ratios), ratios)",
)

# Codecs: the encoder converts audio to codes, the decoder codes to audio.
code_dummies: ExportSpec = compose(
    generates("codes", "integers", high=from_config("codebook_size")),
    sized_in("one several longer", chunk_length=(16, 7, 11, 30)),
)


# Vocoders: from a mel spectrogram to a waveform.
def vocoder(loader: str) -> ExportSpec:
    """A spec of a vocoder, which converts a `spectrogram` to a waveform: HiFi-GAN. Task: text-to-audio."""
    return compose(
        takes("spectrogram", f"{TOKENS} model_in_dim=", "normal", kind="float"),
        sized(batch_size=2, sequence_length=16),
        tasked("text-to-audio", loads(loader), gives("waveform", "batch_size n_samples")),
    )


# The noise is a constant: see wrappers/vits.py.
TEXT_AXES = "text_batch_size sequence_length"

# The model predicts the duration of each token, without random sampling.
fastspeech2_conformer: ExportSpec = compose(
    text_inputs,
    generates("token_ids", "integers", high=from_config("vocab_size")),
    padded("right"),
    reads(vocab_size="vocab_size or model_config.vocab_size"),
    sized_in("one right-padded longer", batch_size=(2, 1, 3, 2), sequence_length=(16, 7, 11, 24)),
    case("one", padded("none")),
    always(return_dict=True),
    tasked("text-to-audio", loads("AutoModelForTextToSpectrogram"), gives("spectrogram", "batch_size n_frames _")),
)

ROWS: Mapping[str, ExportSpec] = rows(
    {
        "wav2vec2 data2vec-audio unispeech-sat wav2vec2-conformer wavlm": wav2vec2,
        # Spectrograms of one size, because the model has a position for each patch.
        "audio-spectrogram-transformer": compose(
            without(fixed_mel_inputs, "input_features"),
            takes("input_values", "batch_size max_length= num_mel_bins=", "normal", kind="float"),
            tasked("audio-classification"),
        ),
        "dac": compose(
            without(waveforms, "input_values"),
            dac_frames,
            code_dummies,
            behaves(
                "encoder",
                takes("input_values", "batch_size 1 sequence_length", "normal", kind="float"),
                runs("self.encode"),
                always(return_dict=True),
                gives("audio_codes", "batch_size _ frames", kind="int64"),
            ),
            behaves(
                "decoder",
                takes("audio_codes", "batch_size n_codebooks= chunk_length", "codes"),
                runs("self.decode"),
                always(return_dict=True),
                gives("audio_values", "batch_size audio_length"),
            ),
            tasked("feature-extraction", encoder_and_decoder()),
        ),
        # Each convolution pads to whole frames. The number of codebooks depends on the bandwidth: the encoder uses the
        # lowest, the decoder takes any.
        "encodec": compose(
            without(waveforms, "input_values"),
            code_dummies,
            reads(frames="convolved(sequence_length, repeated(1, len(upsampling_ratios)), upsampling_ratios)"),
            sized_in("one several", num_codebooks=(2, 3, 1)),
            behaves(
                "encoder",
                takes("input_values", "batch_size audio_channels= sequence_length", "normal", kind="float"),
                runs("music.single_chunk_encoder"),
                gives("audio_codes", "1 batch_size _ frames", kind="int64"),
            ),
            behaves(
                "decoder",
                takes("audio_codes", "1 batch_size num_codebooks chunk_length", "codes"),
                runs("music.single_chunk_decoder"),
                gives("audio_values", "batch_size _ audio_length"),
            ),
            tasked("feature-extraction", encoder_and_decoder()),
        ),
        "fastspeech2_conformer": fastspeech2_conformer,
        # Each step has several stacked frames of a mel spectrogram. The encoder keeps the number of steps.
        "fun_asr_nano_encoder": compose(
            without(mel_inputs, "attention_mask"),
            takes("input_features_mask", TOKENS, "padding_mask"),
            reads(num_mel_bins="num_mel_bins * num_stacked_frames"),
            tasked("feature-extraction"),
        ),
        "glmasr_encoder": compose(
            takes("input_features", "batch_size num_mel_bins= sequence_length", "normal", kind="float"),
            without(mel_inputs, "attention_mask", "input_features"),
            tasked("feature-extraction", gives("last_hidden_state", "batch_size (sequence_length-1)//2+1 _")),
        ),
        "granite_speech5_ctc": compose(mel_inputs, granite_frames, audio_transcription),
        "granite_speech5_encoder": compose(mel_inputs, granite_frames, audio_features),
        "hubert sew sew-d unispeech": compose(audio, wav2vec2_frames("")),
        "lasr_ctc": compose(mel_inputs, lasr_frames, audio_transcription),
        "lasr_encoder": compose(mel_inputs, lasr_frames, audio_features),
        # transformers 5 no longer has this model. Each convolution pads half its kernel, so the formula takes it as
        # kernel 1.
        "mctct": compose(
            without(mel_inputs, "attention_mask"),
            sized(sequence_length=16000),
            reads(num_mel_bins="input_feat_per_channel", frames="convolved(sequence_length, (1,), conv_stride)"),
            audio_features,
            audio_transcription,
        ),
        "moss_transcribe_diarize_audio qwen2_audio_encoder voxtral_encoder": fixed_mel_inputs,
        "nemotron_asr_streaming_encoder": compose(mel_inputs, nemotron_frames, audio_features),
        "parakeet_ctc": compose(mel_inputs, parakeet_frames(), audio_transcription),
        "parakeet_encoder": compose(mel_inputs, parakeet_frames(), audio_features),
        "pe_audio_encoder": compose(
            waveforms,
            takes("input_values", "batch_size 1 sequence_length", "normal", kind="float"),
            always(return_dict=True),
            dac_frames,
            tasked("feature-extraction", gives("last_hidden_state", FRAMES), gives("pooler_output", "batch_size _")),
        ),
        "univnet": compose(
            takes("input_features", f"{TOKENS} num_mel_bins=", "normal", kind="float"),
            takes("noise_sequence", f"{TOKENS} model_in_channels=", "normal", kind="float"),
            sized(batch_size=2, sequence_length=16),
            always(return_dict=True),
            tasked("text-to-audio", loads("AutoModel"), gives("waveforms", "batch_size n_samples")),
        ),
        "vits": compose(
            takes("input_ids", TEXT_AXES, "token_ids"),
            takes("attention_mask", TEXT_AXES, "padding_mask"),
            generates("token_ids", "integers", high=from_config("vocab_size")),
            padded("right"),
            sized_in("one right-padded short", text_batch_size=(2, 1, 3, 3), sequence_length=(16, 7, 11, 3)),
            case("one", padded("none")),
            runs("vits.speech"),
            tasked(
                "text-to-audio",
                gives("waveform", "text_batch_size n_samples"),
                gives("spectrogram", "text_batch_size _ num_bins"),
            ),
        ),
        # Only the adapter has convolutions. Each pads half a kernel on both sides.
        "wav2vec2-bert": compose(
            mel_inputs,
            reads(
                num_mel_bins="feature_projection_input_dim",
                adapters="num_adapter_layers if add_adapter else 0",
                adapter_kernel="adapter_kernel_size - 2 * (adapter_kernel_size // 2)",
                frames="convolved(sequence_length, repeated(adapter_kernel, adapters), "
                "repeated(adapter_stride, adapters))",
            ),
            audio_tasks,
            audio_frames,
        ),
        # First in the table: CI tests each of its tasks, and one task of each other row.
        "audioflamingo3_encoder": compose(
            fixed_mel_inputs, takes("input_features_mask", "batch_size num_frames=", "padding_mask"), padded("right")
        ),
        "fastspeech2_conformer_hifigan": vocoder("FastSpeech2ConformerHifiGan"),
        "fastspeech2_conformer_with_hifigan": compose(
            fastspeech2_conformer, tasked("text-to-audio", gives("waveform", "batch_size n_samples"))
        ),
        "nemotron3_5_asr": transducer(
            nemotron_frames,
            # the index of the language of each row
            takes("prompt_ids", "batch_size", "prompts"),
            generates("prompts", "integers", high=from_config("num_prompts")),
        ),
        "nemotron3_diarization": compose(
            mel_inputs,
            diarization_frames,
            tasked(
                "feature-extraction",
                gives("last_hidden_state", "batch_size (sequence_length+factor-1)//factor*factor _"),
            ),
        ),
        "nemotron3_diarization_audio": compose(
            mel_inputs,
            diarization_frames,
            tasked("feature-extraction", gives("last_hidden_state", "batch_size (sequence_length+factor-1)//factor _")),
        ),
        "nemotron_asr_streaming": transducer(nemotron_frames),
        "parakeet_rnnt": transducer(parakeet_frames()),
        "parakeet_tdt": transducer(parakeet_frames(), loader="AutoModelForTDT"),
        "speecht5_hifigan": vocoder("SpeechT5HifiGan"),
    }
)
