"""The inputs that a model takes only together: images in a text, sounds with a text, the questions of a prompt.

A group is recognized by one argument of `forward`, or by several.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.feature_inputs import PLACED_PATCH
from onnxfn.architectures.families.multimodal import text_batch_cases, text_batch_inputs
from onnxfn.architectures.families.sizes import sized_in
from onnxfn.architectures.families.text import text_cases, text_inputs
from onnxfn.architectures.families.vision import pixel_inputs
from onnxfn.export.derive.known_inputs import MERGED_PATCHES, PATCH_STRIPS, POOLED_PATCHES, VIDEO, Forms
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import TOKENS, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.records import Getter

CASES = "one right-padded left-padded"
"""The cases of `text_cases`."""


def _texts_after(placeholders: str) -> ExportSpec:
    """A spec of texts that begin with tokens in place of an image, `placeholders` in number: 7 to 24 follow them."""
    lengths = [from_config(f"{placeholders} + {tokens}") for tokens in (16, 7, 11, 24)]
    return compose(text_cases, sized_in(CASES, sequence_length=lengths))


IMAGES_OF_A_TEXT = compose(
    text_inputs,
    pixel_inputs,
    takes("pixel_values", "batch_size num_images num_channels= image_height= image_width=", "pixels", kind="float"),
    takes("image_attention_mask", f"{TOKENS} num_images", "seen_images"),
    generates("seen_images", "integers", high=2),
    text_cases,
    sized_in(CASES, num_images=(2, 1, 3, 4)),
)
"""Several images for each text, and which of them each token sees."""

MARKED_PLACES = compose(
    takes("image_embeds_position_mask", TOKENS, "image_places"),
    generates("image_places", "mixed_mask", sides="first", shortest=from_config("num_placeholders")),
    reads(num_placeholders="latent_query_num"),
    _texts_after("num_placeholders"),
)
"""A mask of the tokens of the image in each text."""

PLACED_IMAGE = compose(text_inputs, pixel_inputs, MARKED_PLACES)
"""An image for each text, and a mask of its tokens in the text."""

PLACED_PATCHES = compose(
    text_inputs,
    PLACED_PATCH,
    takes("flattened_patches", "batch_size num_patches placed_values=", "placed_patches", kind="float"),
    MARKED_PLACES,
    sized_in(CASES, num_patches=(16, 9, 21, 12)),
)
"""The patches of an image for each text, and a mask of its tokens in the text."""


def _ids_with_image(token: str, count: int | Getter) -> ExportSpec:
    """A spec of token ids that begin with so many placeholders of an image; `token` is the key of their id."""
    ids, high, image = "ids_with_image", from_config("vocab_size"), from_config("placeholder")
    return compose(reads(placeholder=token), generates("token_ids", ids, high=high, image=image, count=count))


def _instructed_image(token: str, frames: ExportSpec, *factors: str) -> ExportSpec:
    """A spec of an image or a video for each text, and of the same text in the tokens of a Q-Former.

    The input `pixel_values` is that of `frames`; the product of `factors` is the number of placeholders.
    """
    return compose(
        text_inputs,
        frames,
        reads(num_placeholders=" * ".join(factors), num_query_tokens="num_query_tokens"),
        _ids_with_image(token, from_config("num_placeholders")),
        _texts_after("num_placeholders"),
        takes("qformer_input_ids", "batch_size qformer_length", "question_ids"),
        takes("qformer_attention_mask", "batch_size qformer_length", "padding_mask"),
        reads(qformer_vocab_size="qformer_config.vocab_size"),
        generates("question_ids", "integers", high=from_config("qformer_vocab_size")),
        sized_in(CASES, qformer_length=(10, 6, 13, 8)),
    )


SPOKEN_TEXT = compose(
    text_inputs,
    takes("input_features", "batch_size num_mel_bins= sequence_length*frames_each", "spectrogram", kind="float"),
    generates("spectrogram", "normal"),
    reads(frames_each="audio_length_per_tok"),
    text_cases,
)
"""A text produced in step with audio: `audio_length_per_tok` audio frames per token."""

QUESTIONS = compose(
    takes("input_ids", "1 sequence_length", "token_ids"),
    takes("marks", "1 num_questions", "marks"),
    takes("num_options", "1 num_questions", "options"),
    takes("question_type_ids", "1 num_questions", "question_types"),
    generates("marks", "integers", low=1, high=7),
    generates("options", "integers", low=1, high=5),
    generates("question_types", "integers", high=3),
    sized_in("one several many", sequence_length=(None, 7, 11, 24), num_questions=(2, 1, 3, 5)),
)
"""A prompt with questions: after which token each is answered, the number of its options, and its type."""

WHOLE_TOKENS = compose(
    takes("input_values", "batch_size num_tokens*samples_per_token", "sound", kind="float"),
    generates("sound", "normal"),
    reads(samples_per_token=" * ".join(f"patch_sizes[{stage}]" for stage in range(4))),
    sized_in("one several", batch_size=(2, 1, 3), num_tokens=(6, 3, 5)),
)
"""A sound of a whole number of tokens."""

SOUNDS_AND_TEXTS = compose(
    text_batch_inputs,
    text_batch_cases,
    takes("input_values", "batch_size 1 num_samples", "sound", kind="float"),
    generates("sound", "normal"),
    sized_in(CASES, num_samples=(4000, 3001, 5003, 4700)),
)
"""Sounds and texts that are compared."""

PATCHES_IN_TEXTS = compose(
    text_inputs,
    takes("pixel_values", "num_patches patch_width=", "patches", kind="float"),
    _ids_with_image("image_token_id", 8),
    reads(patch_width="3 * patch_size ** 2"),
    generates("patches", "normal"),
    text_cases,
    sized_in(CASES, num_patches=(16, 8, 24, 16), sequence_length=(24, 9, 17, 31)),
)
"""Texts that begin with placeholder tokens, and a flat patch of an image for each of these."""

JOINED_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "image_attention_mask": (IMAGES_OF_A_TEXT,),
        "image_embeds_position_mask": (PLACED_IMAGE, PLACED_PATCHES),
        "qformer_input_ids": (
            _instructed_image("image_token_index", pixel_inputs, "num_query_tokens"),
            _instructed_image("video_token_index", VIDEO, "num_query_tokens", "video_frames"),
        ),
        "num_delay_tokens": (SPOKEN_TEXT,),
        "marks": (QUESTIONS,),
        "padding_cache input_values": (WHOLE_TOKENS,),
        "return_loss input_ids input_values": (SOUNDS_AND_TEXTS,),
        "pixel_position_ids": (POOLED_PATCHES,),
        "image_grid_thw": (MERGED_PATCHES,),
        "target_sizes": (PATCH_STRIPS,),
        "input_ids pixel_values": (PATCHES_IN_TEXTS,),
    }
)
"""Names of arguments of `forward` -> the forms of the inputs that a model with these arguments takes together."""
