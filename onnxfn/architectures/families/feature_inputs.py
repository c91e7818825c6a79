"""The inputs of vision towers from processors: images of one size or of any size, patches in one row, tiles.

A form is a spec of the inputs and of their dummies. Its inputs have the names of the arguments of `get_image_features`.
The arguments of a model show which forms it may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.sizes import sized_in
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import case, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.records import Getter, NestedDummy

Forms = tuple[ExportSpec, ...]

PIXELS = compose(
    takes("pixel_values", "num_images num_channels= image_height= image_width=", "pixels", kind="float"),
    generates("pixels", "normal"),
    sized_in("one several", num_images=(2, 1, 3)),
)
"""Images of the size that the configuration has."""

STAGED_PIXELS = compose(
    PIXELS,
    takes("pixel_values", "num_images num_channels= height width", "pixels", kind="float"),
    sized_in("one several", height=(64, 96, 64), width=(64, 64, 128)),
)
"""Images of any size, for a tower whose stages have patches of several sizes."""


def _sides(rows: int, columns: int) -> ExportSpec:
    """A spec of the height and the width of images, in merged patches, or in 16 pixels."""
    height, width = (from_config(f"merged_size * {side} or {16 * side}") for side in (rows, columns))
    return sized(height=height, width=width)


SIZED_PIXELS = compose(
    PIXELS,
    takes("pixel_values", "num_images num_channels= height width", "pixels", kind="float"),
    _sides(4, 4),
    case("one", _sides(6, 4)),
    case("several", _sides(4, 8)),
)
"""Images of any size, all of one size in a call."""

ONE_SIZED_IMAGE = compose(
    SIZED_PIXELS,
    takes("pixel_values", "1 num_channels= height width", "pixels", kind="float"),
    runs("features.image_features_of_whole_images"),
)
"""One unpadded image of any size: `image_sizes` is the size of the tensor."""

WHOLE_AND_TILES = compose(
    takes("pixel_values", "num_images num_tiles num_channels= image_height= image_width=", "pixels", kind="float"),
    takes("image_sizes", "num_images 2", "image_sizes"),
    generates("pixels", "normal"),
    generates(
        "image_sizes",
        "integers",
        low=from_config("image_height // 4"),
        high=from_config("image_height * 2"),
    ),
    sized_in("one several", num_images=(2, 1, 3), num_tiles=(5, 6, 7)),
)
"""A small whole of each image and its tiles, and the size of each image, by which its padding is known.

An image of at most twice the height and the width of a tile has at most four tiles.
"""

FINE_PIXELS = compose(
    PIXELS,
    takes("high_res_pixel_values", "num_images num_channels= fine_height= fine_width=", "pixels", kind="float"),
    reads(
        fine_height="high_res_vision_config.image_size",
        fine_width="high_res_vision_config.image_size",
    ),
)
"""Images of two sizes, a coarse and a fine one."""

TILES = compose(
    takes("pixel_values", "batch_size num_tiles num_channels= image_height= image_width=", "pixels", kind="float"),
    generates("pixels", "normal"),
    padded("right"),
    generates("corners", "rectangles", side=from_config("patch_size")),
    sized_in("one several", batch_size=(2, 1, 3), num_tiles=(3, 2, 4)),
)
"""The tiles of the images of each text."""

MASKED_TILES: Forms = (
    compose(
        TILES,
        takes("pixel_attention_mask", "batch_size num_tiles image_height= image_width=", "corners", kind="bool"),
    ),
    compose(TILES, takes("pixel_attention_mask", "batch_size num_tiles", "padding_mask", kind="bool")),
)
"""Tiles with a mask of their pixels, or a mask of the tiles."""


def _packed_grids(merge: Getter | int) -> ExportSpec:
    """A spec of the grids of images whose sides are multiples of this number of patches."""
    return generates("packed_grids", "packed_grids", patches=NestedDummy("patches", "num_patches"), merge=merge)


GRID_DUMMIES = compose(
    generates("patches", "normal"),
    _packed_grids(from_config("merged_side")),
    sized_in("one several", num_images=(2, 1, 3), num_patches=(96, 64, 144)),
)
"""The patches of one to three images in one row."""

GRIDS = compose(GRID_DUMMIES, takes("image_grid_thw", "num_images 3", "packed_grids"))
"""The grid of patches of each image: frames, height and width in patches."""

PACKED_PATCHES: Forms = tuple(
    compose(takes("pixel_values", f"num_patches {values}", "patches", kind="float"), GRIDS)
    for values in ("patch_values=", "num_channels= patch_size= patch_size=", "frame_values=")
)
"""The patches of all images in one row, each as a vector or as a small image."""

MERGED_PATCHES = compose(
    takes("pixel_values", "num_patches merged_size= merged_size= num_channels=", "patches", kind="float"),
    GRIDS,
    _packed_grids(1),
)
"""Patches that are merged before the model takes them, and the grids of the merged patches."""

FLAT_GRIDS = compose(
    takes("pixel_values", "num_patches frame_values=", "patches", kind="float"),
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
    takes("pixel_values", "1 num_channels= patch_size= patch_size*num_patches", "patches", kind="float"),
    takes("target_sizes", "num_images 2", "packed_grids"),
    GRID_DUMMIES,
    _packed_grids(from_config("strip_side * 2")),
)
"""The patches of all images side by side, as one image of the height of a patch."""

PLACED_PATCHES = compose(
    takes("pixel_values", "num_images num_tokens*pooled_patches patch_values=", "patches", kind="float"),
    takes("pixel_position_ids", "num_images num_tokens*pooled_patches 2", "patch_places", path=("image_position_ids",)),
    reads(pooled_side="vision_config.pooling_kernel_size or 1", pooled_patches="pooled_side ** 2"),
    generates("patches", "uniform", low=0.0),
    generates("patch_places", "grid_positions", merge=from_config("pooled_side")),
    sized_in("one several", num_images=(2, 1, 3), num_tokens=(8, 6, 15)),
)
"""The patches of each image, and the column and the row of each; -1 for padding."""

PADDED_PATCHES = compose(
    takes("pixel_values", "num_images num_patches patch_values=", "patches", kind="float"),
    takes("pixel_attention_mask", "num_images num_patches", "padding_mask"),
    takes("spatial_shapes", "num_images 2", "grid_shapes"),
    generates("patches", "normal"),
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
    PIXELS,
    takes("pixel_values", "num_images num_patches patch_values=", "pixels", kind="float"),
    sized_in("one several", num_patches=(12, 7, 15)),
)
"""The patches of each image, without places."""

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

QUESTION = compose(
    takes("qformer_input_ids", "num_images qformer_length", "question_ids"),
    takes("qformer_attention_mask", "num_images qformer_length", "padding_mask"),
    reads(qformer_vocab_size="qformer_config.vocab_size"),
    generates("question_ids", "integers", high=from_config("qformer_vocab_size")),
    padded("right"),
    sized_in("one several", qformer_length=(10, 6, 13)),
)
"""The text of a Q-Former for each image: it selects the features to read."""

ASKED: Forms = (
    compose(PIXELS, QUESTION),
    compose(
        PIXELS,
        takes(
            "pixel_values", "num_images video_frames= num_channels= image_height= image_width=", "pixels", kind="float"
        ),
        QUESTION,
    ),
)
"""Images, or the frames of videos, with a text for each."""

IMAGE_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "pixel_values image_grid_thw image_merge_sizes": (MERGE_SIZES,),
        "pixel_values image_grid_thw": (*PACKED_PATCHES, MERGED_PATCHES),
        "pixel_values image_grid_hw": (FLAT_GRIDS,),
        "pixel_values target_sizes": (PATCH_STRIPS,),
        "pixel_values image_position_ids": (PLACED_PATCHES,),
        "pixel_values spatial_shapes pixel_attention_mask": (PADDED_PATCHES,),
        "pixel_values pixel_attention_mask": MASKED_TILES,
        "pixel_values high_res_pixel_values": (FINE_PIXELS,),
        "pixel_values qformer_input_ids qformer_attention_mask": ASKED,
        "flattened_patches": (PLACED_VALUES,),
        "pixel_values": (SIZED_PIXELS, PIXELS, IMAGE_PATCHES, STAGED_PIXELS, TILES),
        "pixel_values image_sizes": (ONE_SIZED_IMAGE, WHOLE_AND_TILES),
    }
)
"""The arguments of `get_image_features` -> the forms, in the order in which to try them."""
