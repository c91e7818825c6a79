"""The inputs of vision towers that take the patches of images of any size, and where each image has its patches."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.sizes import sized_in
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.records import NestedDummy

Forms = tuple[ExportSpec, ...]

IMAGES = compose(
    generates("merge_sizes", "integers", low=1, high=from_config("merged_side + 1")),
    generates("patches", "normal"),
    sized_in("one several", num_images=(2, 1, 3), num_patches=(96, 60, 132)),
)
"""One to three images, with 60 to 132 patches together."""

PATCHES = NestedDummy("patches", "num_patches")


def _grid(frames: int, merge: object) -> ExportSpec:
    """A spec of the dummies of grids: the first image has as many frames as `frames`, and `merge` divides the sides."""
    return generates("packed_grids", "packed_grids", patches=PATCHES, merge=merge, frames=frames)


def _grid_forms(*axes: str) -> Forms:
    """Images and videos, then images alone: some models take each frame of a video as an image.

    All patches are in one row. `grid_thw` has the frames, the height and the width of each image in patches. A model
    that merges the patches of each image in its own way takes how many per side.
    """
    words, names = " ".join(("num_patches", *axes)), ("hidden_states", "pixel_values")
    inputs = compose(
        *(takes(name, words, "patches", kind="float") for name in names),
        takes("grid_thw", "num_images 3", "packed_grids"),
        takes("merge_sizes", "num_images", "merge_sizes"),
        IMAGES,
    )
    return tuple(compose(inputs, _grid(frames, from_config("merged_side"))) for frames in (2, 1))


MERGED_PATCHES = compose(
    takes("pixel_values", "num_patches merged_size= merged_size= num_channels=", "patches", kind="float"),
    takes("image_grid_thw", "num_images 3", "packed_grids"),
    IMAGES,
    _grid(1, 1),
)
"""Patches that are merged before the model takes them, and the grids of the merged patches."""

PATCH_STRIPS = compose(
    takes("pixel_values", "1 num_channels= patch_size= patch_size*num_patches", "patches", kind="float"),
    takes("target_sizes", "num_images 2", "packed_grids"),
    IMAGES,
    _grid(1, from_config("strip_side")),
)
"""The patches of all images side by side, as one image of the height of a patch; each grid without frames."""

POOLED_PATCHES = compose(
    takes("pixel_values", "batch_size num_tokens*pooled_patches patch_values=", "patches", kind="float"),
    takes("pixel_position_ids", "batch_size num_tokens*pooled_patches 2", "patch_places"),
    reads(pooled_side="pooling_kernel_size", pooled_patches="pooling_kernel_size ** 2"),
    generates("patches", "uniform", low=0.0),
    generates("patch_places", "grid_positions", merge=from_config("pooled_side")),
    sized_in("one several", batch_size=(2, 1, 3), num_tokens=(8, 6, 15)),
)
"""The patches of an image per row, and the column and the row of each in the image; -1 for padding."""

PACKED_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "grid_thw": (*_grid_forms("patch_values="), *_grid_forms("num_channels=", "patch_size=", "patch_size=")),
    }
)
"""Name of the input that holds the grids -> its forms, with the patches."""
