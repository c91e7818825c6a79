"""Models that find things in images: boxes, masks, depths, points."""

from __future__ import annotations

from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates, sized
from onnxfn.specs.edits.behaviors import extra_file
from onnxfn.specs.facts import always, case, gives, loads, takes
from onnxfn.specs.getters import constant, either, from_config, reads
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

IMAGE_AXES = "batch_size num_channels= height width"
"""The axes of a batch of images of any size."""

CASE_NAMES = ("one", "several")

POINT_AXES = "batch_size point_batch_size nb_points_per_image"
"""The axes of several points of each of several things in each of several images."""


def image_cases(*sizes: tuple[int, int]) -> ExportSpec:
    """A spec that checks images of these heights and widths: the first alone, of each other three at once."""
    return compose(
        *(
            case(place, sized(batch_size=3 if index else 1, height=height, width=width))
            for index, (place, (height, width)) in enumerate(zip(CASE_NAMES, sizes, strict=True))
        )
    )


images_without_cases = compose(
    takes("pixel_values", IMAGE_AXES, "pixels", kind="float"),
    generates("pixels", "normal"),
    reads(num_channels=either("num_channels", "backbone_config.num_channels", constant(3))),
    sized(batch_size=2, height=64, width=64),
    always(return_dict=True),
)
"""Images of a size that moves, with as many channels as the model has weights for."""

images_of_any_size = compose(images_without_cases, image_cases((96, 64), (61, 83)))
"""Images whose sides need not be multiples of anything."""

# Sides that the cells of eight pixels do not divide: what is left over is not looked at.
grayscale_images = compose(
    takes("pixel_values", "batch_size num_channels height width", "pixels", kind="float"),
    generates("pixels", "normal"),
    sized(batch_size=2, num_channels=3, height=64, width=64),
    image_cases((96, 67), (70, 120)),
    case("one", sized(num_channels=1)),
    case("several", sized(num_channels=4)),
    always(return_dict=True),
)
"""Images of any size and any number of channels, of which the first alone is seen."""

grayscale_pairs = compose(
    grayscale_images, takes("pixel_values", "batch_size 2 num_channels height width", "pixels", kind="float")
)
"""Pairs of such images."""

query_states = gives("last_hidden_state", "batch_size _ _")
"""A vector a query."""


def segmentation_tasks(logits: str) -> ExportSpec:
    """A spec of the two tasks that Optimum has for a class a place of an image, whose logits have these axes."""
    given = compose(loads("AutoModelForSemanticSegmentation"), gives("logits", logits))
    return compose(tasked("image-segmentation", spec=given), tasked("semantic-segmentation", spec=given))


point_inputs = compose(
    takes("input_points", f"{POINT_AXES} 2", "points", kind="float"), takes("input_labels", POINT_AXES, "point_labels")
)
"""Points of things, and whether each is on the thing or beside it."""

mask_outputs = compose(
    gives("iou_scores", "batch_size point_batch_size _"), gives("pred_masks", "batch_size point_batch_size _ _ _")
)
"""Several masks of each thing, and how good each is."""

promptable_segmentation = compose(
    generates("points", "uniform", low=0.0, high=from_config("image_size")),
    generates("point_labels", "integers", low=0, high=2),
    generates("embeddings", "normal"),
    sized(batch_size=2, point_batch_size=3, nb_points_per_image=2),
    tasked(
        "feature-extraction",
        spec=compose(
            loads("AutoModelForMaskGeneration"),
            extra_file("vision_encoder", "vision_encoder"),
            extra_file("prompt_encoder_mask_decoder", "prompt_encoder_mask_decoder"),
        ),
    ),
)
"""Masks of the things that points are of, in two files: what is seen of an image, and what is at its points."""
