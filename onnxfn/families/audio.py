"""Models that hear: waveforms go in, and frames of them come out, fewer than there were samples."""

from __future__ import annotations

from onnxfn.algebra import compose
from onnxfn.edits import TOKENS, always, case, gives, takes
from onnxfn.generators import generates, sized
from onnxfn.normalizers import constant, convolved, reads, repeated, whether
from onnxfn.tasks import loaded, tasked

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

# Each convolution takes no padding; those of the adapter are of three, padded by one at each end, so they count as one.
_adapters = whether("add_adapter", "num_adapter_layers", constant(0))
convolved_frames = reads(
    frames=convolved(
        convolved("sequence_length", "conv_kernel", "conv_stride"),
        repeated(constant(1), _adapters),
        repeated("adapter_stride", _adapters),
    )
)
"""The frames that the convolutions of wav2vec2 and those like it make of a waveform."""

audio_features = tasked("feature-extraction", spec=gives("last_hidden_state", FRAMES))
audio_transcription = tasked(
    "automatic-speech-recognition", spec=compose(loaded("AutoModelForCTC"), gives("logits", FRAMES))
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

audio_of_voices = compose(audio, audio_frames, tasked("audio-xvector"))
"""Those that also tell voices apart."""
