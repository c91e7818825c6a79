"""The inputs of towers as processors give them, named as by `get_image_features` or `get_audio_features`."""

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.rows import sized_in
from onnxfn.architectures.families.vision import image_inputs
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import always, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.converters import Path
from onnxfn.specs.records import Getter, Kind, NestedDummy

Forms = tuple[ExportSpec, ...]

PIXELS = compose(image_inputs("num_images"), sized_in("one several", num_images=(2, 1, 3)))
"""Images of the size that the configuration has."""


def _pixels(axes: str) -> ExportSpec:
    """A spec of images with these axes."""
    return takes("pixel_values", axes, "normal", kind="float")


def _side(patches: int) -> Getter:
    """A side of images with this number of merged patches, or of 16 pixels."""
    return from_config(f"merged_size * {patches} or {16 * patches}")


SIZED_PIXELS = compose(
    PIXELS,
    _pixels("num_images num_channels= height width"),
    sized_in("one several", height=(_side(4), _side(6), _side(4)), width=(_side(4), _side(4), _side(8))),
)
"""Images of any size, all of one size in a call."""

STAGED_PIXELS = compose(SIZED_PIXELS, sized_in("one several", height=(64, 96, 64), width=(64, 64, 128)))
"""Images of any size, for a tower whose stages have patches of several sizes."""

ONE_SIZED_IMAGE = compose(SIZED_PIXELS, _pixels("1 num_channels= height width"), runs("features.whole_image_features"))
"""One unpadded image of any size: `image_sizes` is the size of the tensor."""

WHOLE_AND_TILES = compose(
    takes("pixel_values", "num_images num_tiles num_channels= image_height= image_width=", "normal", kind="float"),
    takes("image_sizes", "num_images 2", "image_sizes"),
    generates("image_sizes", "integers", low=from_config("image_height // 4"), high=from_config("image_height * 2")),
    sized_in("one several", num_images=(2, 1, 3), num_tiles=(5, 6, 7)),
)
"""A small whole of each image and its tiles, and the size of each image, by which its padding is known.

An image of at most twice the height and the width of a tile has at most four tiles.
"""

FINE_PIXELS = compose(
    PIXELS,
    takes("high_res_pixel_values", "num_images num_channels= fine_height= fine_width=", "normal", kind="float"),
    reads(fine_height="high_res_vision_config.image_size", fine_width="high_res_vision_config.image_size"),
)
"""Images of two sizes, a coarse and a fine one."""

TILES = compose(
    takes("pixel_values", "batch_size num_tiles num_channels= image_height= image_width=", "normal", kind="float"),
    padded("right"),
    generates("corners", "rectangles", side=from_config("patch_size")),
    sized_in("one several", batch_size=(2, 1, 3), num_tiles=(3, 2, 4)),
)
"""The tiles of the images of each text."""

MASKED_TILES: Forms = tuple(
    compose(TILES, takes("pixel_attention_mask", f"batch_size num_tiles{axes}", mask, kind="bool"))
    for axes, mask in ((" image_height= image_width=", "corners"), ("", "padding_mask"))
)
"""Tiles with a mask of their pixels, or a mask of the tiles."""


def _packed_grids(merge: Getter | int) -> ExportSpec:
    """A spec of the grids of images whose sides are multiples of this number of patches."""
    return generates("packed_grids", "packed_grids", patches=NestedDummy("normal", "num_patches"), merge=merge)


GRID_DUMMIES = compose(
    _packed_grids(from_config("merged_side")), sized_in("one several", num_images=(2, 1, 3), num_patches=(96, 64, 144))
)
"""The patches of one to three images in one row."""

GRIDS = compose(GRID_DUMMIES, takes("image_grid_thw", "num_images 3", "packed_grids"))
"""The grid of patches of each image: frames, height and width in patches."""

PACKED_PATCHES: Forms = tuple(
    compose(takes("pixel_values", f"num_patches {values}", "normal", kind="float"), GRIDS)
    for values in ("patch_values=", "num_channels= patch_size= patch_size=", "frame_values=")
)
"""The patches of all images in one row, each as a vector or as a small image."""

MERGED_PATCHES = compose(
    takes("pixel_values", "num_patches merged_size= merged_size= num_channels=", "normal", kind="float"),
    GRIDS,
    _packed_grids(1),
)
"""Patches that are merged before the model takes them, and the grids of the merged patches."""

FLAT_GRIDS = compose(
    takes("pixel_values", "num_patches frame_values=", "normal", kind="float"),
    takes("image_grid_hw", "num_images 2", "packed_grids"),
    GRID_DUMMIES,
)
"""Patches in one row, and the height and the width of each image."""

MERGE_SIZES = compose(
    PACKED_PATCHES[0],
    takes("image_merge_sizes", "num_images", "merge_sizes"),
    generates("merge_sizes", "constant", value=from_config("merged_side")),
)
"""Patches in one row, and how many per side each image merges."""

PATCH_STRIPS = compose(
    takes("pixel_values", "1 num_channels= patch_size= patch_size*num_patches", "normal", kind="float"),
    takes("target_sizes", "num_images 2", "packed_grids"),
    GRID_DUMMIES,
    _packed_grids(from_config("strip_side * 2")),
)
"""The patches of all images side by side, as one image of the height of a patch."""


def placed_patches(images: str, side: str, path: Path = ()) -> ExportSpec:
    """A spec of the patches of each image, and their columns and rows; `side`: the key of a pooled square's side."""
    return compose(
        takes("pixel_values", f"{images} num_tokens*pooled_patches patch_values=", "patches", kind="float"),
        takes("pixel_position_ids", f"{images} num_tokens*pooled_patches 2", "patch_places", path=path),
        reads(pooled_side=side, pooled_patches="pooled_side ** 2"),
        generates("patches", "uniform", low=0.0),
        generates("patch_places", "grid_positions", merge=from_config("pooled_side")),
        sized_in("one several", **{images: (2, 1, 3)}, num_tokens=(8, 6, 15)),
    )


PLACED_PATCHES = placed_patches("num_images", "vision_config.pooling_kernel_size or 1", ("image_position_ids",))

PLACED_MERGED_PATCHES = compose(
    PLACED_PATCHES,
    takes("pixel_values", "num_images num_tokens*pooled_patches merged_values=", "patches", kind="float"),
    reads(merged_values="3 * (vision_config.patch_size * vision_config.pooling_kernel_size) ** 2", pooled_side="1"),
)
"""The same for patches that are merged before the model takes them: each is a token."""

PADDED_PATCHES = compose(
    takes("pixel_values", "num_images num_patches patch_values=", "normal", kind="float"),
    takes("pixel_attention_mask", "num_images num_patches", "padding_mask"),
    takes("spatial_shapes", "num_images 2", "grid_shapes"),
    generates("padding_mask", "grid_mask", merge=from_config("merged_side")),
    generates(
        "grid_shapes",
        "grids",
        mask=NestedDummy("padding_mask", "num_images num_patches"),
        merge=from_config("merged_side"),
    ),
    sized_in("one several", num_images=(2, 1, 3), num_patches=(96, 64, 144)),
)
"""The patches of each image, padded, with the height and the width of each."""

IMAGE_PATCHES = compose(
    PIXELS, _pixels("num_images num_patches patch_values="), sized_in("one several", num_patches=(12, 7, 15))
)
"""The patches of each image, without places."""

FRAMED_PATCHES = compose(IMAGE_PATCHES, _pixels("num_patches patch_frames= patch_size= patch_size= num_channels="))
"""The patches of all images in one row, each as a few small frames: every patch becomes a token."""

PLACED_PATCH = compose(
    reads(placed_values="(vision_config.patch_embed_hidden_size or frame_values) + 2"),
    generates("placed_patches", "integers", high=4),
)
"""The values of a patch: the first two are its row and its column."""

PLACED_VALUES = compose(
    PLACED_PATCH,
    takes("flattened_patches", "num_images num_patches placed_values=", "placed_patches", kind="float"),
    sized_in("one several", num_images=(2, 1, 3), num_patches=(16, 9, 21)),
)
"""The patches of each image, with their places."""


def question(batch: str) -> ExportSpec:
    """A spec of the text of a Q-Former for each image, or for each text: it selects the features to read."""
    return compose(
        takes("qformer_input_ids", f"{batch} qformer_length", "question_ids"),
        takes("qformer_attention_mask", f"{batch} qformer_length", "padding_mask"),
        reads(qformer_vocab_size="qformer_config.vocab_size"),
        generates("question_ids", "integers", high=from_config("qformer_vocab_size")),
    )


QUESTION = compose(question("num_images"), padded("right"), sized_in("one several", qformer_length=(10, 6, 13)))

ASKED: Forms = (
    compose(PIXELS, QUESTION),
    compose(PIXELS, _pixels("num_images video_frames= num_channels= image_height= image_width="), QUESTION),
)
"""Images, or the frames of videos, with a text for each."""

IMAGE_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "pixel_values image_grid_thw image_merge_sizes": (MERGE_SIZES,),
        "pixel_values image_grid_thw": (*PACKED_PATCHES, MERGED_PATCHES),
        "pixel_values image_grid_hw": (FLAT_GRIDS,),
        "pixel_values target_sizes": (PATCH_STRIPS,),
        "pixel_values image_position_ids": (PLACED_PATCHES, PLACED_MERGED_PATCHES),
        "pixel_values spatial_shapes pixel_attention_mask": (PADDED_PATCHES,),
        "pixel_values pixel_attention_mask": MASKED_TILES,
        "pixel_values high_res_pixel_values": (FINE_PIXELS,),
        "pixel_values qformer_input_ids qformer_attention_mask": ASKED,
        "flattened_patches": (PLACED_VALUES,),
        "pixel_values": (SIZED_PIXELS, PIXELS, IMAGE_PATCHES, STAGED_PIXELS, TILES, FRAMED_PATCHES),
        "pixel_values image_sizes": (ONE_SIZED_IMAGE, WHOLE_AND_TILES),
    }
)
"""The arguments of `get_image_features` -> the forms, in the order in which to try them."""

# Sounds

FRAMES, WINDOW = "sound_length", "num_frames="
"""The axis of the frames of a spectrogram: of any number, or of the number that the configuration has."""

SOUNDS = compose(padded("right"), sized_in("one several", num_sounds=(2, 1, 3), sound_length=(200, 100, 300)))
"""Two sounds of 200 frames, and other numbers of both."""


def _spectrogram(axes: str) -> ExportSpec:
    return compose(SOUNDS, takes("input_features", f"num_sounds {axes}", "normal", kind="float"))


def _masked(axes: str, mask: str, frames: str, kind: Kind = "int") -> ExportSpec:
    """A spec of a spectrogram and of the mask of its frames; bool, if a model also chooses features by it."""
    return compose(_spectrogram(axes), takes(mask, f"num_sounds {frames}", "padding_mask", kind=kind))


CHUNKED = "chunk_frames*num_chunks"
"""The axis of the frames of a spectrogram of whole chunks, in which a tower convolves it."""

CHUNKS = compose(reads(chunk_frames="audio_config.n_window * 2"), sized_in("one several", num_chunks=(3, 1, 2)))
"""Three chunks in each sound, and other numbers of chunks."""

CONVOLVED = compose(
    _masked(f"{FRAMES} convolved_mels=", "input_features_mask", FRAMES, kind="bool"),
    reads(convolved_mels="audio_config.subsampling_conv_channels[0]"),
)
"""Spectrograms with one value per frame for each channel of the first convolution, and a mask of their frames."""

WAVE_FRAMES = compose(
    _masked(f"{FRAMES} audio_embed_dim=", "input_features_mask", FRAMES, kind="bool"),
    reads(audio_embed_dim="audio_config.audio_embed_dim"),
    sized_in("one several", sound_length=(20, 11, 31)),
)
"""Frames of samples, each of which becomes a token, and a mask of them."""

GROUPS = "group_frames*num_groups"
"""The axis of the frames of a spectrogram of whole groups, each of which becomes a token."""

GROUPED = compose(
    _masked(f"{GROUPS} num_mel_bins=", "input_features_mask", GROUPS),
    reads(group_frames="audio_config.asr_config.subsampling_factor"),
    sized_in("one several", num_groups=(20, 11, 31)),
)
"""Spectrograms of whole groups of frames, and masks of their frames."""


def _masked_forms(mask: str) -> Forms:
    return (
        compose(_masked(f"num_mel_bins= {CHUNKED}", mask, CHUNKED), CHUNKS),
        _masked(f"num_mel_bins= {FRAMES}", mask, FRAMES),
        _masked(f"{FRAMES} num_mel_bins=", mask, FRAMES),
        _masked(f"num_mel_bins= {WINDOW}", mask, WINDOW),
        _masked(f"{FRAMES} stacked_mels=", mask, FRAMES),
    )


PLAIN: Forms = tuple(
    # in a trace of one block of attention, the number of blocks would be 1
    compose(_spectrogram(axes), sized(sound_length=from_config("encoder_config.context_size * 2 or 200")))
    for axes in (f"num_mel_bins= {FRAMES}", f"{FRAMES} num_mel_bins=", f"num_mel_bins= {WINDOW}")
)
"""Spectrograms without a mask."""

WAVE_DUMMIES = compose(padded("right"), sized_in("one several", num_sounds=(2, 1, 3), num_samples=(16000, 9600, 12000)))
"""Two sounds of 16,000 samples, and other numbers of both."""

WAVES: Forms = tuple(
    compose(
        WAVE_DUMMIES,
        takes("input_values", f"num_sounds {axes}", "normal", kind="float"),
        takes("padding_mask", "num_sounds num_samples", "padding_mask", kind="bool"),
    )
    for axes in ("num_samples", "1 num_samples")
)
"""Waveforms and their masks."""

ONE_WAVE = compose(
    WAVE_DUMMIES, takes("input_values", "1 num_samples", "normal", kind="float"), runs("features.whole_sound_features")
)
"""One waveform without padding."""

FRAMES_OF_SAMPLES = compose(
    WAVE_DUMMIES,
    takes("input_values", "num_sounds step_samples*num_steps", "normal", kind="float"),
    takes("input_values_mask", "num_sounds step_samples*num_steps", "padding_mask"),
    reads(step_samples=" * ".join(f"audio_config.patch_sizes[{layer}]" for layer in range(4))),
    sized_in("one several", num_steps=(8, 5, 6)),
)
"""Waveforms of whole steps, each of which becomes a token, and their masks."""

CODES = compose(
    SOUNDS,
    takes("audio_input_ids", f"num_sounds {FRAMES} num_codebooks=", "codes"),
    takes("audio_input_ids_mask", f"num_sounds {FRAMES}", "padding_mask"),
    generates("codes", "integers", high=from_config("audio_config.codebook_size")),
    reads(num_codebooks="audio_config.num_codebooks"),
    sized_in("one several", sound_length=(20, 11, 31)),
)
"""The values of a spectrogram as whole numbers, and the mask of its frames."""

COUNTED = compose(
    _spectrogram(f"num_mel_bins= {FRAMES}"),
    takes("chunk_sample_lengths", "num_sounds", "sample_counts"),
    generates("sample_counts", "integers", low=8000, high=16000),
)
"""Spectrograms, and the number of samples of each sound."""

SOUND_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "input_features input_features_mask padding_mask": tuple(
            compose(form, always(padding_mask=None)) for form in _masked_forms("input_features_mask")
        ),
        "input_features input_features_mask": (
            WAVE_FRAMES,
            CONVOLVED,
            GROUPED,
            *_masked_forms("input_features_mask"),
            _masked(f"{FRAMES} num_mel_bins=", "input_features_mask", FRAMES, kind="bool"),
        ),
        "input_features feature_attention_mask": _masked_forms("feature_attention_mask"),
        "input_features chunk_sample_lengths": (COUNTED,),
        "input_features": PLAIN,
        # the same features for the same sound
        "input_values padding_mask sample": tuple(compose(form, always(sample=False)) for form in WAVES),
        "input_values padding_mask": (*WAVES, ONE_WAVE),
        "input_values input_values_mask": (FRAMES_OF_SAMPLES,),
        "audio_input_ids audio_input_ids_mask": (CODES,),
    }
)
"""The arguments of `get_audio_features` -> the forms, in the order in which to try them."""
