"""What processors give to towers: images of one size, images of any size, patches in one row, tiles, sounds.

A form is a spec of the inputs, with the names that processors and clients use, and of their dummies. The arguments of
`get_image_features` and `get_audio_features` tell which forms a model may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.facts import case, takes
from onnxfn.specs.getters import constant, from_config, product
from onnxfn.specs.records import NestedDummy
from onnxfn.specs.spec import ExportSpec

Forms = tuple[ExportSpec, ...]

PIXELS = compose(
    takes("pixel_values", "num_images num_channels= image_height= image_width=", "pixels", kind="float"),
    generates("pixels", "normal"),
    sized(num_images=2),
    case("one", sized(num_images=1)),
    case("several", sized(num_images=3)),
)
"""Images of the size that the configuration has."""


def _sides(rows: int, columns: int) -> ExportSpec:
    """A spec of the height and the width of images, in merged patches."""
    return sized(height=product("merged_size", constant(rows)), width=product("merged_size", constant(columns)))


SIZED_PIXELS = compose(
    PIXELS,
    takes("pixel_values", "num_images num_channels= height width", "pixels", kind="float"),
    _sides(4, 4),
    case("one", _sides(6, 4)),
    case("several", _sides(4, 8)),
)
"""Images of any size, all of one size in a call."""

GRIDS = compose(
    takes("image_grid_thw", "num_images 3", "packed_grids"),
    generates("patches", "normal"),
    generates(
        "packed_grids", "packed_grids", patches=NestedDummy("patches", "num_patches"), merge=from_config("merged_side")
    ),
    sized(num_images=2, num_patches=96),
    case("one", sized(num_images=1, num_patches=64)),
    case("several", sized(num_images=3, num_patches=144)),
)
"""Where each image has its patches: its frames, its height and its width in patches."""

PACKED_PATCHES: Forms = (
    compose(takes("pixel_values", "num_patches patch_values=", "patches", kind="float"), GRIDS),
    compose(takes("pixel_values", "num_patches num_channels= patch_size= patch_size=", "patches", kind="float"), GRIDS),
)
"""The patches of all images in one row, each as a vector or as a small image."""

IMAGE_FORMS: Mapping[str, Forms] = MappingProxyType(
    {
        "pixel_values image_grid_thw": PACKED_PATCHES,
        "pixel_values": (SIZED_PIXELS, PIXELS),
    }
)
"""The arguments of `get_image_features` -> the forms in the order in which to try them; the first row that fits."""
