"""Common inputs of models of transformers: the forms of each, and of groups like images in a text, in order."""

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families import feature_inputs
from onnxfn.architectures.families.multimodal import text_batch_cases, text_batch_inputs
from onnxfn.architectures.families.rows import sized_in
from onnxfn.architectures.families.text import bert_inputs, choice_sizes, text_cases, text_inputs
from onnxfn.architectures.families.vision import pixel_inputs
from onnxfn.specs.algebra.compose import compose, either, from_config, reads
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import TOKENS, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.axes import with_axis
from onnxfn.specs.records import Getter, NestedDummy, Source

Forms = tuple[ExportSpec, ...]

VISION_CONFIGS = (
    *("vision_config", "backbone_config", "image_config", "encoder", "encoder_config"),
    *("vision_config.backbone_config", "encoder.vision_config"),
)
TEXT_CONFIGS = (
    *("text_config", "text_encoder", "decoder", "decoder_config", "language_config"),
    "thinker_config.text_config",
)
AUDIO_CONFIGS = ("audio_config", "encoder_config", "audio_encoder", "encoder", "asr_config", "audio_config.asr_config")


def _keys(names: str, configs: tuple[str, ...]) -> tuple[str, ...]:
    """Each key of a configuration, followed by the same key of nested configurations."""
    return tuple(key for name in names.split() for key in (name, *(f"{config}.{name}" for config in configs)))


IMAGE_SIZES = _keys("image_size img_size model_args.img_size", VISION_CONFIGS)  # the last of a model of timm
NUM_MEL_BINS: Source = either(
    *_keys("num_mel_bins feature_projection_input_dim input_feat_per_channel input_feat_size", AUDIO_CONFIGS),
    *_keys("n_mels input_dim feature_size", AUDIO_CONFIGS),
    "80",
)

CONFIG_KEYS = reads(
    vocab_size=either(*_keys("vocab_size", TEXT_CONFIGS), "n_words", "32"),
    type_vocab_size=either(*_keys("type_vocab_size", TEXT_CONFIGS), "2"),
    segments=either(*_keys("type_vocab_size", TEXT_CONFIGS)),
    box_range="max_2d_position_embeddings or 1000",
    num_channels=either(*_keys("num_channels in_channels in_chans", VISION_CONFIGS), "3"),
    image_height=either(*(f"{key}[0] or {key}" for key in IMAGE_SIZES)),
    image_width=either(*(f"{key}[1] or {key}" for key in IMAGE_SIZES)),
    video_frames=either(*_keys("num_frames frames_per_clip", VISION_CONFIGS), "2"),
    num_mel_bins=NUM_MEL_BINS,
    stacked_mels=either(*(f"num_mel_bins * {key}" for key in _keys("num_stacked_frames", AUDIO_CONFIGS))),
    max_length=either("max_length", *_keys("max_source_positions", AUDIO_CONFIGS)),
    positions=either(*_keys("max_source_positions max_position_embeddings", AUDIO_CONFIGS)),
    num_frames="positions * 2",
    audio_channels="audio_channels or channels or 1",
    num_codebooks="num_codebooks or decoder.num_codebooks",
    codes_per_step="num_codebooks + 1",
    codebook_size="codebook_vocab_size or vocab_size or decoder.vocab_size",
    latent_size="latent_dim or hidden_size",
    context_length="context_length or prediction_length",
    patch_values="num_channels * patch_frames * patch_size ** 2",
    frame_values="num_channels * patch_size ** 2",
    patch_size=either(*_keys("patch_size", VISION_CONFIGS)),
    patch_frames=either(*_keys("temporal_patch_size patch_temporal", VISION_CONFIGS), "1"),
    merged_side=either(*_keys("spatial_merge_size merge_size merge_kernel_size[0]", VISION_CONFIGS), "2"),
    merged_size="merged_side * patch_size",
    strip_side=either(*_keys("window_kernel_size[0]", VISION_CONFIGS), "1"),
    num_input_channels="num_input_channels or input_size or 1",
)
"""The keys of configurations for the values that these inputs need, under all known names."""

TEXT_INPUTS = compose(
    text_cases,
    bert_inputs,
    takes("token_type_ids", TOKENS, "segment_ids", when="segments"),
    takes("bbox", f"{TOKENS} 4", "boxes"),
    generates("boxes", "boxes", high=from_config("box_range")),
)
"""Token ids with masks, and the positions of the tokens on a page (`bbox`)."""

CHOICES = compose(with_axis(TEXT_INPUTS, "num_choices", at=1, starting=TOKENS), choice_sizes)
"""The same for several texts to choose from."""

CODES: Forms = tuple(
    compose(
        text_cases,
        takes("input_ids", axes, "codes"),
        takes("attention_mask", TOKENS, "padding_mask"),
        generates("codes", "integers", high=from_config("codebook_size")),
    )
    for axes in ("batch_size*num_codebooks sequence_length", f"{TOKENS} codes_per_step=")
)
"""The codes of a sound, one per codebook: in a row each, or with a token of text at each step."""

QUERIES = compose(
    takes("query_embeds", "batch_size num_queries hidden_size=", "normal", kind="float"),
    takes("encoder_hidden_states", "batch_size encoder_length encoder_hidden_size=", "normal", kind="float"),
    takes("encoder_attention_mask", "batch_size encoder_length", "padding_mask"),
    reads(encoder_hidden_size="encoder_hidden_size"),
    sized_in("one several", batch_size=(2, 1, 3), num_queries=(6, 4, 9), encoder_length=(10, 17, 13)),
)
"""The queries of a Q-Former, and the states of the encoder that they read."""

IMAGES_OF_ANY_SIZE = compose(
    takes("pixel_values", "batch_size num_channels= height width", "normal", kind="float"),
    sized_in("one several", batch_size=(2, 1, 3), height=(64, 96, 64), width=(64, 64, 128)),
)

SPECTROGRAMS, WAVEFORMS, LATENTS = (160, 96, 224), (16000, 9600, 12000), (16, 11, 21)
"""Lengths of sounds: the frames of spectrograms, samples, and the frames that a codec decodes to a sound."""


def _sounds(name: str, lengths: tuple[int, ...], *patterns: str) -> Forms:
    """The forms of sounds of these lengths, with the mask of their frames. The first axis of each is the batch."""
    mask = takes("input_features_mask", "batch_size sequence_length", "padding_mask")
    sizes = sized_in("one several", batch_size=(2, 1, 3), sequence_length=lengths)
    return tuple(compose(takes(name, f"batch_size {axes}", "normal", kind="float"), mask, sizes) for axes in patterns)


CHUNKED_SPECTROGRAMS = compose(
    takes("input_features", "batch_size num_mel_bins= chunk_frames*num_chunks", "normal", kind="float"),
    takes("input_features_mask", "batch_size chunk_frames*num_chunks", "padding_mask"),
    reads(chunk_frames="n_window * 2"),
    padded("right"),
    sized_in("one several", batch_size=(2, 1, 3), num_chunks=(3, 1, 2)),
)
"""Spectrograms of whole chunks, in which an encoder convolves them, and the masks of their frames."""


def _video_form(name: str) -> ExportSpec:
    axes = "batch_size video_frames= num_channels= image_height= image_width="
    return compose(takes(name, axes, "normal", kind="float"), sized(batch_size=2))


VIDEO = _video_form("pixel_values")

SERIES = compose(
    takes("past_values", "batch_size context_length= num_input_channels=", "normal", kind="float"), sized(batch_size=2)
)

# Towers with the patches of images of any size, and the place of each image's patches, as inputs


def _grid_forms(*axes: str) -> Forms:
    """Images and videos, then images alone: all patches in one row, `grid_thw` has frames, height and width."""
    words, names = " ".join(("num_patches", *axes)), ("hidden_states", "pixel_values")
    inputs = compose(
        *(takes(name, words, "normal", kind="float") for name in names),
        takes("grid_thw", "num_images 3", "packed_grids"),
        takes("merge_sizes", "num_images", "merge_sizes"),
        generates("merge_sizes", "integers", low=1, high=from_config("merged_side + 1")),
        sized_in("one several", num_images=(2, 1, 3), num_patches=(96, 60, 132)),
    )
    grids = {"patches": NestedDummy("normal", "num_patches"), "merge": from_config("merged_side")}
    return tuple(compose(inputs, generates("packed_grids", "packed_grids", **grids, frames=each)) for each in (2, 1))


INPUT_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "input_ids": (TEXT_INPUTS, CHOICES, *CODES),
        "query_embeds": (QUERIES,),
        "pixel_values": (pixel_inputs, IMAGES_OF_ANY_SIZE, VIDEO),
        "pixel_values_videos": (_video_form("pixel_values_videos"),),
        "input_values": (
            *_sounds("input_values", WAVEFORMS, "sequence_length", "audio_channels= sequence_length"),
            *_sounds("input_values", SPECTROGRAMS, "max_length= num_mel_bins="),
        ),
        "input_features": (
            *_sounds("input_features", SPECTROGRAMS, "sequence_length num_mel_bins=", "num_mel_bins= sequence_length"),
            *_sounds("input_features", SPECTROGRAMS, "num_mel_bins= num_frames=", "sequence_length 128"),
            CHUNKED_SPECTROGRAMS,
        ),
        "latents": _sounds("latents", LATENTS, "latent_size= sequence_length", "sequence_length latent_size="),
        "hidden_states": (
            *_sounds("hidden_states", WAVEFORMS, "audio_channels= sequence_length"),
            *_sounds("hidden_states", LATENTS, "latent_size= sequence_length"),
        ),
        "past_values": (SERIES,),
        "grid_thw": (*_grid_forms("patch_values="), *_grid_forms("num_channels=", "patch_size=", "patch_size=")),
    }
)
"""Name of an input -> its forms: specs of the input, of its masks and of their dummies."""

# Inputs that most models take in place of their own, as `inputs_embeds` for `input_ids`

STATES = compose(
    takes("inputs_embeds", f"{TOKENS} states_size=", "normal", kind="float"),
    sized_in("one several", batch_size=(2, 1, 3), sequence_length=(16, 11, 21)),
    takes("attention_mask", TOKENS, "padding_mask"),
    reads(states_size="hidden_size or text_config.hidden_size"),
)
"""The states of another model, with their mask."""

MEL_FRAMES = compose(
    takes("audio_mel", f"{TOKENS} mel_bins=", "normal", kind="float"),
    sized_in("one several", batch_size=(2, 1, 3), sequence_length=(64, 48, 96)),
    takes("audio_mel_mask", TOKENS, "left_out", kind="bool"),
    generates("left_out", "integers", high=2),
    reads(mel_bins=either("input_feat_size", NUM_MEL_BINS)),
)
"""Spectrograms with a mask that is true for ignored frames."""

REQUIRED_FORMS: Mapping[str, Forms] = MappingProxyType({"inputs_embeds": (STATES,), "audio_mel": (MEL_FRAMES,)})
"""Name of an input -> its forms, tried where `forward` requires the input."""

CASES = "one right-padded left-padded"
"""The cases of `text_cases`."""

TEXTS_AFTER_IMAGES = compose(
    text_cases,
    sized_in(CASES, sequence_length=[from_config(f"num_placeholders + {tokens}") for tokens in (16, 7, 11, 24)]),
)
"""Texts that begin with `num_placeholders` tokens in place of an image; 7 to 24 follow them."""

IMAGES_OF_A_TEXT = compose(
    text_inputs,
    pixel_inputs,
    takes("pixel_values", "batch_size num_images num_channels= image_height= image_width=", "normal", kind="float"),
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
    TEXTS_AFTER_IMAGES,
)
"""A mask of the tokens of the image in each text."""

PLACED_PATCHES = compose(
    text_inputs,
    feature_inputs.PLACED_PATCH,
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
    """An image or a video, like `frames`, for each text, and the text for a Q-Former; `factors` of placeholders."""
    return compose(
        text_inputs,
        frames,
        reads(num_placeholders=" * ".join(factors), num_query_tokens="num_query_tokens"),
        _ids_with_image(token, from_config("num_placeholders")),
        TEXTS_AFTER_IMAGES,
        feature_inputs.question("batch_size"),
        sized_in(CASES, qformer_length=(10, 6, 13, 8)),
    )


SPOKEN_TEXT = compose(
    text_inputs,
    takes("input_features", "batch_size num_mel_bins= sequence_length*frames_each", "normal", kind="float"),
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
    takes("input_values", "batch_size num_tokens*samples_per_token", "normal", kind="float"),
    reads(samples_per_token=" * ".join(f"patch_sizes[{stage}]" for stage in range(4))),
    sized_in("one several", batch_size=(2, 1, 3), num_tokens=(6, 3, 5)),
)
"""A sound of a whole number of tokens."""

SOUNDS_AND_TEXTS = compose(
    text_batch_inputs,
    text_batch_cases,
    takes("input_values", "batch_size 1 num_samples", "normal", kind="float"),
    sized_in(CASES, num_samples=(4000, 3001, 5003, 4700)),
)
"""Sounds and texts that are compared."""

PATCHES_IN_TEXTS = compose(
    text_inputs,
    _ids_with_image("image_token_id", 8),
    takes("pixel_values", "num_patches patch_width=", "normal", kind="float"),
    reads(patch_width="3 * patch_size ** 2"),
    text_cases,
    sized_in(CASES, num_patches=(16, 8, 24, 48), sequence_length=(24, 9, 17, 31)),
)
"""Texts that begin with placeholder tokens, and a flat patch of an image for each of these."""

JOINED_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "image_attention_mask": (IMAGES_OF_A_TEXT,),
        "image_embeds_position_mask": (compose(text_inputs, pixel_inputs, MARKED_PLACES), PLACED_PATCHES),
        "qformer_input_ids": (
            _instructed_image("image_token_index", pixel_inputs, "num_query_tokens"),
            _instructed_image("video_token_index", VIDEO, "num_query_tokens", "video_frames"),
        ),
        "num_delay_tokens": (SPOKEN_TEXT,),
        "marks": (QUESTIONS,),
        "padding_cache input_values": (WHOLE_TOKENS,),
        "return_loss input_ids input_values": (SOUNDS_AND_TEXTS,),
        "pixel_position_ids": (feature_inputs.placed_patches("batch_size", "pooling_kernel_size"),),
        "image_grid_thw": (feature_inputs.MERGED_PATCHES,),
        "target_sizes": (feature_inputs.PATCH_STRIPS,),
        "input_ids pixel_values": (PATCHES_IN_TEXTS,),
    }
)
"""Names of arguments of `forward` -> the forms of the inputs that a model with these arguments takes together."""
