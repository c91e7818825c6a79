"""What models of transformers call the tensors that they take: the forms of each, in the order to be tried."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families import bert_inputs, pixels
from onnxfn.architectures.families.text import text_cases
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.facts import TOKENS, case, takes
from onnxfn.specs.getters import constant, either, entry, from_config, product, reads
from onnxfn.specs.records import ExportSpec, Source

Forms = tuple[ExportSpec, ...]


def _nested(name: str, *configurations: str) -> tuple[str, ...]:
    """A name as it stands in a configuration, or in one of those inside it."""
    return (name, *(f"{inside}.{name}" for inside in configurations))


SEEING = ("vision_config", "backbone_config", "image_config", "encoder", "encoder_config")
READING = ("text_config", "text_encoder", "decoder", "decoder_config", "language_config", "thinker_config.text_config")
HEARING = ("audio_config", "encoder_config", "audio_encoder", "encoder")

IMAGE_SIZE: Source = either(*_nested("image_size", *SEEING), *_nested("img_size", *SEEING))
CHANNELS: Source = either(
    *_nested("num_channels", *SEEING), *_nested("in_channels", *SEEING), *_nested("in_chans", *SEEING), constant(3)
)
MELS: Source = either(
    *_nested("num_mel_bins", *HEARING),
    *_nested("feature_projection_input_dim", *HEARING),
    *_nested("input_feat_per_channel", *HEARING),
    *_nested("n_mels", *HEARING),
    *_nested("input_dim", *HEARING),
    *_nested("feature_size", *HEARING),
    constant(80),
)

SPOKEN = reads(
    vocab_size=either(*_nested("vocab_size", *READING), "n_words", constant(32)),
    type_vocab_size=either(*_nested("type_vocab_size", *READING), constant(2)),
    segments=either(*_nested("type_vocab_size", *READING)),
    box_range=either("max_2d_position_embeddings", constant(1000)),
    num_channels=CHANNELS,
    image_height=either(entry(IMAGE_SIZE, 0), IMAGE_SIZE),
    image_width=either(entry(IMAGE_SIZE, 1), IMAGE_SIZE),
    video_frames=either(*_nested("num_frames", *SEEING), *_nested("frames_per_clip", *SEEING), constant(2)),
    num_mel_bins=MELS,
    max_length=either("max_length", *_nested("max_source_positions", *HEARING)),
    num_frames=product(
        either(*_nested("max_source_positions", *HEARING), *_nested("max_position_embeddings", *HEARING)), constant(2)
    ),
    audio_channels=either("audio_channels", constant(1)),
    context_length=either("context_length", "prediction_length"),
    num_input_channels=either("num_input_channels", "input_size", constant(1)),
)
"""Where configurations keep what these inputs need, by every name known for it."""

IMAGE = "batch_size num_channels= height width"
images = compose(
    takes("pixel_values", IMAGE, "pixels", kind="float"),
    generates("pixels", "normal"),
    sized(batch_size=2, height=64, width=64),
    case("one", sized(batch_size=1, height=96, width=64)),
    case("several", sized(batch_size=3, height=64, width=128)),
)
"""Images of any size."""

texts = compose(
    text_cases,
    bert_inputs,
    takes("token_type_ids", TOKENS, "segment_ids", when="segments"),
    takes("bbox", f"{TOKENS} 4", "boxes"),
    generates("boxes", "boxes", high=from_config("box_range")),
)
"""Texts, where their tokens stand on a page among them."""

FRAMES = "batch_size sequence_length"
HEARD = compose(
    generates("sound", "normal"),
    sized(batch_size=2, sequence_length=160),
    case("one", sized(batch_size=1, sequence_length=96)),
    case("several", sized(batch_size=3, sequence_length=224)),
)
WAVES = compose(
    generates("sound", "normal"),
    sized(batch_size=2, sequence_length=16000),
    case("one", sized(batch_size=1, sequence_length=9600)),
    case("several", sized(batch_size=3, sequence_length=12000)),
)


HEARD_MASK = takes("input_features_mask", FRAMES, "padding_mask")


def _sound(name: str, axes: str, lengths: ExportSpec) -> ExportSpec:
    return compose(lengths, takes(name, axes, "sound", kind="float"), HEARD_MASK)


KINDS: Mapping[str, Forms] = MappingProxyType(
    {
        "input_ids": (texts,),
        "pixel_values": (
            pixels,
            images,
            compose(
                takes(
                    "pixel_values",
                    "batch_size video_frames= num_channels= image_height= image_width=",
                    "pixels",
                    kind="float",
                ),
                generates("pixels", "normal"),
                sized(batch_size=2),
            ),
        ),
        "pixel_values_videos": (
            compose(
                takes(
                    "pixel_values_videos",
                    "batch_size video_frames= num_channels= image_height= image_width=",
                    "pixels",
                    kind="float",
                ),
                generates("pixels", "normal"),
                sized(batch_size=2),
            ),
        ),
        "input_values": (
            _sound("input_values", "batch_size sequence_length", WAVES),
            _sound("input_values", "batch_size audio_channels= sequence_length", WAVES),
            _sound("input_values", "batch_size max_length= num_mel_bins=", HEARD),
        ),
        "input_features": (
            _sound("input_features", "batch_size sequence_length num_mel_bins=", HEARD),
            _sound("input_features", "batch_size num_mel_bins= sequence_length", HEARD),
            _sound("input_features", "batch_size num_mel_bins= num_frames=", HEARD),
        ),
        "past_values": (
            compose(
                takes("past_values", "batch_size context_length= num_input_channels=", "series", kind="float"),
                generates("series", "normal"),
                sized(batch_size=2),
            ),
        ),
    }
)
"""The name of a tensor that says something, and the forms in which it is taken, with what is said about it."""
