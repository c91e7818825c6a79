"""Models that see."""

from __future__ import annotations

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.edits.tensors import without
from onnxfn.specs.facts import always, case, gives, loads, takes
from onnxfn.specs.getters import at_least, constant, count, either, from_config, item, reads
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

pixel_inputs = compose(
    takes("pixel_values", "batch_size num_channels= image_height= image_width=", "pixels", kind="float"),
    generates("pixels", "normal"),
    sized(batch_size=2),
)
"""Images of the one size that a model has places for, with as many channels as it has weights for."""

# A configuration lists a height and a width, or says one number for both.
_image_config = compose(
    reads(
        num_channels=either("num_channels", "in_chans", constant(3)),
        image_height=either(item("image_size", 0), "image_size", "crop_size"),
        image_width=either(item("image_size", 1), "image_size", "crop_size"),
    ),
    always(return_dict=True),
)
"""Where the configuration of a model that sees keeps the size of an image."""

fixed_images = compose(_image_config, pixel_inputs)
"""Images of one size, which the configuration tells."""

# Neither size that is checked is a multiple of a stride, nor are a height and a width alike.
dynamic_images = compose(
    fixed_images,
    reads(
        image_height=either(item("image_size", 0), "image_size", constant(64)),
        image_width=either(item("image_size", 1), "image_size", constant(64)),
    ),
    takes("pixel_values", "batch_size num_channels= height width", "pixels", kind="float"),
    sized(height=from_config("image_height"), width=from_config("image_width")),
    case("one", sized(batch_size=1, height=97, width=150)),
    case("several", sized(batch_size=3, height=75, width=66)),
)
"""Images of any size, traced at the one that the configuration tells, or at 64 by 64."""


text_line_images = compose(
    dynamic_images,
    takes("pixel_values", "batch_size num_channels= 48 width", "pixels", kind="float"),
    sized(width=160),
    case("one", sized(width=97)),
    case("several", sized(width=75)),
)
"""Lines of text, 48 pixels high and of any width."""


def video_inputs(name: str = "pixel_values") -> ExportSpec:
    """Videos of the one length and size that a model has places for, under this name."""
    return compose(
        _image_config,
        reads(num_frames=either("num_frames", "frames_per_clip")),
        generates("pixels", "normal"),
        sized(batch_size=2),
        takes(name, "batch_size num_frames= num_channels= image_height= image_width=", "pixels", kind="float"),
    )


def image_features(axes: str) -> ExportSpec:
    """A spec that knows one task, to give the states of an image, with these axes."""
    return tasked("feature-extraction", spec=gives("last_hidden_state", axes))


vision = compose(fixed_images, image_features("batch_size _ _"), tasked("image-classification"))
"""Models with a place for each patch of images of one size: ViT and those like it."""

vision_of_any_size = compose(
    dynamic_images, image_features("batch_size _ feature_height feature_width"), tasked("image-classification")
)
"""Convolutions all the way, so images of any size: ResNet and those like it."""


# How many maps a backbone gives, its configuration says; each is smaller than the one before.
def backbone(image: ExportSpec, axes: str) -> ExportSpec:
    """A spec of what gives maps of an image; `{place}` in their axes stands for the number of the map."""
    several = (
        gives(
            f"feature_maps.{place}",
            axes.replace("{place}", str(place)),
            path=("feature_maps", place),
            when=at_least(count("out_features"), place + 1),
        )
        for place in range(8)
    )
    given = tasked("feature-extraction", spec=compose(loads("AutoBackbone"), *several))
    return without(compose(image, given), "last_hidden_state")
