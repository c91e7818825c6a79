"""Families of models for images and videos."""

from __future__ import annotations

from onnxfn.architectures.families.rows import sized_in
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import always, gives, loads, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.tensors import without
from onnxfn.specs.tasks.tasks import tasked


def image_inputs(batch: str = "batch_size") -> ExportSpec:
    """A spec of the input `pixel_values`: a batch of images of one size."""
    return takes("pixel_values", f"{batch} num_channels= image_height= image_width=", "normal", kind="float")


pixel_inputs: ExportSpec = compose(image_inputs(), sized(batch_size=2))
"""The input of models for images of one size, which the configuration has: a row says where, with `reads`."""


def image_reads(at: str = "vision_config.") -> ExportSpec:
    """A spec of where a configuration, or its section with this prefix, has the channels and the size of images."""
    return reads(
        num_channels=f"{at}num_channels or 3",
        image_height=f"{at}image_size[0] or {at}image_size",
        image_width=f"{at}image_size[1] or {at}image_size",
    )


_image_config = compose(
    reads(
        num_channels="num_channels or in_chans or 3",
        image_height="image_size[0] or image_size or crop_size",
        image_width="image_size[1] or image_size or crop_size",
    ),
    always(return_dict=True),
)
"""The keys of the number of channels and the image size in the configuration of a model for images."""

fixed_images: ExportSpec = compose(_image_config, pixel_inputs, sized_in("one several", batch_size=(2, 1, 2)))
"""`pixel_inputs` of a model whose configuration has `num_channels` and `image_size` at its top level."""

# All sides of the cases are prime numbers, so none is a multiple of a stride, and no image is square.
dynamic_images: ExportSpec = compose(
    fixed_images,
    reads(image_height="image_size[0] or image_size or 64", image_width="image_size[1] or image_size or 64"),
    takes("pixel_values", "batch_size num_channels= height width", "normal", kind="float"),
    sized_in("one several", batch_size=(2, 1, 3)),
    sized_in("one several", height=(from_config("image_height"), 97, 73), width=(from_config("image_width"), 151, 67)),
)
"""The input of models for images of any size. The trace has the image size of the configuration, or 64 by 64."""


def video_inputs(name: str = "pixel_values", frames: str = "num_frames=") -> ExportSpec:
    """A spec of an input of videos of one size, and of one length unless the axis `frames` is dynamic."""
    return compose(
        _image_config,
        reads(num_frames="num_frames or frames_per_clip"),
        sized(batch_size=2),
        takes(name, f"batch_size {frames} num_channels= image_height= image_width=", "normal", kind="float"),
    )


def image_features(axes: str) -> ExportSpec:
    """A spec of the task feature-extraction, whose output `last_hidden_state` has these axes."""
    return tasked("feature-extraction", gives("last_hidden_state", axes))


vision: ExportSpec = compose(fixed_images, image_features("batch_size _ _"), tasked("image-classification"))
"""Models for images of one size, because they have a position for each patch: ViT, BEiT, DINOv2 with registers.

Inputs: `pixel_values`, `[batch_size, num_channels=, image_height=, image_width=]`.
Tasks: feature-extraction, image-classification.
"""

vision_of_any_size: ExportSpec = compose(
    dynamic_images, image_features("batch_size _ feature_height feature_width"), tasked("image-classification")
)
"""Models for images of any size: those of convolutions (ResNet, ConvNeXT), or that interpolate their positions.

Inputs: `pixel_values`, `[batch_size, num_channels=, height, width]`.
Tasks: feature-extraction, image-classification.
"""


def feature_maps(task: str, axes: str) -> ExportSpec:
    """A spec of a task of a backbone: one output per entry of `out_features`, 8 at most; `{index}` is its number."""
    maps = (
        gives(
            f"feature_maps.{index}",
            axes.replace("{index}", str(index)),
            path=("feature_maps", index),
            when=f"len(out_features) >= {index + 1}",
        )
        for index in range(8)
    )
    return tasked(task, loads("AutoBackbone"), *maps)


def backbone(image: ExportSpec, axes: str) -> ExportSpec:
    """A spec of a backbone, with one feature map per stage: MaskFormer's Swin, RT-DETR's ResNet, ViTPose's."""
    return without(compose(image, feature_maps("feature-extraction", axes)), "last_hidden_state")


DYNAMIC_MAP = "batch_size _ feature_height feature_width"
FIXED_MAP = "batch_size _ _ _"
DYNAMIC_MAPS = "batch_size _ feature_height_{index} feature_width_{index}"
"""The axes of a feature map: of images of any size, of images of one size, of each stage."""
