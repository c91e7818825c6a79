"""Families of models for audio: waveforms and mel spectrograms."""

from __future__ import annotations

from onnxfn.architectures.families.rows import sized_in
from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.dummies import padded
from onnxfn.specs.algebra.facts import TOKENS, always, case, gives, loads, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.tasks.tasks import tasked

FRAMES = "batch_size frames _"
"""The axes of an output with one vector per frame. A row computes `frames` from the length of the input."""

# The trace has 1 second at 16 kHz. The lengths of the cases are not multiples of a frame.
waveforms: ExportSpec = compose(
    takes("input_values", TOKENS, "normal", kind="float"),
    sized_in("one several longer", batch_size=(2, 1, 3, 2), sequence_length=(16000, 9001, 7499, 20017)),
)
"""The input of models for waveforms: `input_values`, `[batch_size, sequence_length]`, without a mask."""


def wav2vec2_frames(config: str, length: str = "sequence_length") -> ExportSpec:
    """A spec of the number of frames of wav2vec2's encoder; `config` is the prefix of the configuration's keys."""
    # The convolutions have no padding. Those of the adapter have kernel 3 and padding 1 on both sides: as kernel 1.
    adapters = f"{config}num_adapter_layers if {config}add_adapter else 0"
    encoder_frames = f"convolved({length}, {config}conv_kernel, {config}conv_stride)"
    strides = f"repeated({config}adapter_stride, {adapters})"
    return reads(frames=f"convolved({encoder_frames}, repeated(1, {adapters}), {strides})")


audio_features: ExportSpec = tasked("feature-extraction", gives("last_hidden_state", FRAMES))
audio_transcription: ExportSpec = tasked(
    "automatic-speech-recognition", loads("AutoModelForCTC"), gives("logits", FRAMES)
)
audio_frames: ExportSpec = tasked("audio-frame-classification", gives("logits", FRAMES))
"""The tasks whose outputs have one vector per frame: features, CTC logits, and the classes of frames."""

audio_tasks: ExportSpec = compose(audio_features, audio_transcription, tasked("audio-classification"))

audio: ExportSpec = compose(waveforms, always(return_dict=True), audio_tasks)
"""Models for waveforms that are trained with CTC: HuBERT, SEW, UniSpeech.

Inputs: `input_values`, `[batch_size, sequence_length]`. A row computes the number of frames.
Tasks: feature-extraction, automatic-speech-recognition, audio-classification.
"""

audio_with_speaker_tasks: ExportSpec = compose(audio, audio_frames, tasked("audio-xvector"))
"""`audio` with the classes of frames and with speaker embeddings: wav2vec2, WavLM, data2vec-audio."""

# The trace has 64 steps. The lengths of the cases are not multiples of a frame.
mel_inputs: ExportSpec = compose(
    takes("input_features", f"{TOKENS} num_mel_bins=", "normal", kind="float"),
    takes("attention_mask", TOKENS, "padding_mask"),
    padded("right"),
    sized_in("one right-padded longer", batch_size=(2, 1, 3, 2), sequence_length=(64, 37, 51, 90)),
    case("one", padded("none")),
    always(return_dict=True),
)
"""Models for mel spectrograms of any length: Parakeet, Wav2Vec2-BERT, LASR. A row adds their tasks."""


def subsampled_frames(kernel: str, times: str, length: str = "sequence_length") -> ExportSpec:
    """A spec of the frames after `times` convolutions that shorten a mel spectrogram; `kernel` is less its padding."""
    return reads(
        num_mel_bins="encoder_config.num_mel_bins or num_mel_bins",
        mel_kernel="encoder_config.subsampling_conv_kernel_size or subsampling_conv_kernel_size",
        mel_stride="encoder_config.subsampling_conv_stride or subsampling_conv_stride",
        mel_halvings="log2(encoder_config.subsampling_factor or subsampling_factor)",
        frames=f"convolved({length}, repeated({kernel}, {times}), repeated(mel_stride, {times}))",
    )


def parakeet_frames(length: str = "sequence_length") -> ExportSpec:
    """A spec of the number of frames of Parakeet's encoder, whose convolutions pad half a kernel on both sides."""
    return subsampled_frames("mel_kernel - 2 * ((mel_kernel - 1) // 2)", "mel_halvings", length)


fixed_mel_inputs: ExportSpec = compose(
    takes("input_features", "batch_size num_mel_bins= num_frames=", "normal", kind="float"),
    reads(num_frames="max_source_positions * 2"),
    sized_in("one several", batch_size=(2, 1, 2)),
    always(return_dict=True),
    tasked("feature-extraction", gives("last_hidden_state", "batch_size _ _")),
)
"""Encoders of mel spectrograms of one length: Qwen2-Audio, Voxtral. Whisper's encoder has a position for two frames."""
