"""Models that hear: waveforms go in, and frames of them come out, fewer than there were samples."""

from __future__ import annotations

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, padded, sized
from onnxfn.specs.facts import TOKENS, always, case, gives, loads, patched, takes
from onnxfn.specs.getters import constant, convolved, difference, if_else, log2, product, quotient, reads, repeated
from onnxfn.specs.records import Source
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

FRAMES = "batch_size frames _"
"""What is given of a batch of sounds, frame by frame; how many frames a length makes is the row's to say."""

# Traced at a second of 16 kHz; what is tried is of no whole number of frames.
waveforms = compose(
    takes("input_values", TOKENS, "waveform", kind="float"),
    generates("waveform", "normal"),
    sized(batch_size=2, sequence_length=16000),
    case("one", sized(batch_size=1, sequence_length=9001)),
    case("several", sized(batch_size=3, sequence_length=7499)),
    case("longer", sized(batch_size=2, sequence_length=20017)),
)
"""Waveforms, all of one length."""


def wav2vec2_frames(config: str, length: str = "sequence_length") -> ExportSpec:
    """The frames that the convolutions of wav2vec2 and those like it make of a waveform; where its fields are.

    Each takes no padding; those of the adapter are of three, padded by one at each end, so they count as one.
    """
    adapters = if_else(f"{config}add_adapter", f"{config}num_adapter_layers", constant(0))
    heard = convolved(length, f"{config}conv_kernel", f"{config}conv_stride")
    strides = repeated(f"{config}adapter_stride", adapters)
    return reads(frames=convolved(heard, repeated(constant(1), adapters), strides))


convolved_frames = wav2vec2_frames("")
"""The frames that wav2vec2 and those like it make of a waveform."""

audio_features = tasked("feature-extraction", spec=gives("last_hidden_state", FRAMES))
audio_transcription = tasked(
    "automatic-speech-recognition", spec=compose(loads("AutoModelForCTC"), gives("logits", FRAMES))
)
audio_frames = tasked("audio-frame-classification", spec=gives("logits", FRAMES))

audio = compose(
    waveforms,
    always(return_dict=True),
    audio_features,
    audio_transcription,
    tasked("audio-classification"),
)
"""Models that hear a waveform and say of each frame what was heard: wav2vec2 and those like it."""

audio_with_speaker_tasks = compose(audio, audio_frames, tasked("audio-xvector"))
"""Those that also tell voices apart."""

# Traced at 64 steps; what is tried is of no whole number of frames.
mel_inputs = compose(
    takes("input_features", f"{TOKENS} num_mel_bins=", "mel", kind="float"),
    takes("attention_mask", TOKENS, "padding_mask"),
    generates("mel", "normal"),
    padded("right"),
    reads(num_mel_bins="num_mel_bins"),
    sized(batch_size=2, sequence_length=64),
    case("one", sized(batch_size=1, sequence_length=37), padded("none")),
    case("right-padded", sized(batch_size=3, sequence_length=51), padded("right")),
    case("longer", sized(batch_size=2, sequence_length=90), padded("right")),
    always(return_dict=True),
)
"""Filter banks of sounds, and which of their steps are padding."""


def subsampled_frames(
    config: str, kernel: Source, stride: Source, times: Source, length: str = "sequence_length"
) -> ExportSpec:
    """A spec of how many frames convolutions of a kernel and a stride make, so and so many; where its fields are."""
    return reads(
        num_mel_bins=f"{config}num_mel_bins",
        frames=convolved(length, repeated(kernel, times), repeated(stride, times)),
    )


def parakeet_frames(config: str, length: str = "sequence_length") -> ExportSpec:
    """How Parakeet's encoder shortens what it hears, padding by half a kernel at both ends; where its fields are."""
    kernel = f"{config}subsampling_conv_kernel_size"
    inside = difference(kernel, product(constant(2), quotient(difference(kernel, constant(1)), constant(2))))
    return subsampled_frames(
        config, inside, f"{config}subsampling_conv_stride", log2(f"{config}subsampling_factor"), length
    )


fixed_mel_inputs = compose(
    takes("input_features", "batch_size num_mel_bins= num_frames=", "mel", kind="float"),
    generates("mel", "normal"),
    reads(num_mel_bins="num_mel_bins", num_frames=product("max_source_positions", constant(2))),
    sized(batch_size=2),
    always(return_dict=True),
    tasked("feature-extraction", spec=gives("last_hidden_state", "batch_size _ _")),
)
"""Encoders of filter banks that are all of the one length that there are places for: Whisper's and those like it."""

encodec_patches = compose(
    patched(
        "transformers.models.encodec.modeling_encodec:EncodecConv1d.forward",
        by="musicgen.conv1d_output",
        why="computes how much to pad in tensors",
    ),
    patched(
        "transformers.models.encodec.modeling_encodec:EncodecLSTM.forward",
        by="musicgen.lstm_output",
        why="is traced as one step for each place that was traced",
    ),
)
"""The layers of Encodec, alone and in Musicgen."""
