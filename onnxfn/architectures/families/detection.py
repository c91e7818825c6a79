"""Families of models for dense outputs of images: boxes, masks, depths, keypoints."""

from onnxfn.architectures.families.rows import sized_in
from onnxfn.architectures.families.vision import pixel_inputs
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import always, gives, loads, runs, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.converters import Path
from onnxfn.specs.edits.behaviors import extra_file, model_part
from onnxfn.specs.records import Getter
from onnxfn.specs.tasks.tasks import tasked

IMAGE_AXES = "batch_size num_channels= height width"
"""The axes of a batch of images of any size."""

POINT_AXES = "batch_size point_batch_size nb_points_per_image"
"""The axes of the prompts of SAM: points of each object in each image."""


def image_cases(
    single: tuple[int | Getter, ...],
    several: tuple[int | Getter, ...],
    traced: tuple[int | Getter | None, ...] = (None,) * 2,
) -> ExportSpec:
    """A spec of the height and the width of images in the cases one and several of the check, and in the trace."""
    heights, widths = zip(traced, single, several, strict=True)
    return sized_in("one several", batch_size=(None, 1, 3), height=heights, width=widths)


images_without_cases: ExportSpec = compose(
    takes("pixel_values", IMAGE_AXES, "normal", kind="float"),
    reads(num_channels="num_channels or backbone_config.num_channels or 3"),
    sized(batch_size=2, height=64, width=64),
    always(return_dict=True),
)
"""`images_of_any_size` without cases of the check, for models that take only some sizes: a row adds `image_cases`."""

images_of_any_size: ExportSpec = compose(images_without_cases, image_cases((96, 64), (61, 83)))
"""Models for images whose sides are multiples of nothing: DETR, SegFormer, MaskFormer. A row adds their tasks."""

# The sides of the cases are not multiples of a cell of 8 pixels. The model ignores the remaining pixels.
grayscale_images: ExportSpec = compose(
    takes("pixel_values", "batch_size num_channels height width", "normal", kind="float"),
    sized(batch_size=2, height=64, width=64),
    image_cases((96, 67), (70, 120)),
    sized_in("one several", num_channels=(3, 1, 4)),
    always(return_dict=True),
)
"""Images of any size and any number of channels: SuperPoint, which uses the first channel only."""

grayscale_pairs: ExportSpec = compose(
    grayscale_images, takes("pixel_values", "batch_size 2 num_channels height width", "normal", kind="float")
)
"""Pairs of images, for models that match keypoints: SuperGlue, LightGlue, EfficientLoFTR."""


def segmentation_tasks(logits: str) -> ExportSpec:
    """A spec of a task for which Optimum has two names, with these axes of `logits`: a class for each position."""
    task = compose(loads("AutoModelForSemanticSegmentation"), gives("logits", logits))
    return compose(tasked("image-segmentation", task), tasked("semantic-segmentation", task))


IMAGE_ENCODER, MASK_DECODER = "vision_encoder", "prompt_encoder_mask_decoder"
"""The parts of SAM, and their files."""


def promptable_segmentation(
    *inputs: ExportSpec, encoder: str = "self.get_image_embeddings", decoder: str = "self.forward"
) -> ExportSpec:
    """A spec of SAM, SAM-HQ, SAM 2: an encoder of images, and a decoder of points with several masks per object."""
    # Without a name of what it runs it would have the inputs and outputs of the task too.
    return compose(
        generates("points", "uniform", low=0.0, high=from_config("image_size")),
        generates("point_labels", "integers", low=0, high=2),
        sized_in("one several", batch_size=(2, 1, 2), point_batch_size=(3, 1, 8), nb_points_per_image=(2, 1, 7)),
        model_part(IMAGE_ENCODER, pixel_inputs, runs(encoder)),
        model_part(
            MASK_DECODER,
            *inputs,
            takes("input_points", f"{POINT_AXES} 2", "points", kind="float"),
            takes("input_labels", POINT_AXES, "point_labels"),
            runs(decoder),
            gives("iou_scores", "batch_size point_batch_size _"),
            gives("pred_masks", "batch_size point_batch_size _ _ _"),
        ),
        tasked(
            "feature-extraction",
            loads("AutoModelForMaskGeneration"),
            *(extra_file(part, part) for part in (IMAGE_ENCODER, MASK_DECODER)),
        ),
    )


def image_embedding(name: str, axes: str, *, path: Path) -> ExportSpec:
    """A spec of an embedding at a path in the encoder's result, which the decoder takes: `image_embeddings.0`."""
    argument, _, index = name.partition(".")
    taken = (argument, int(index)) if index else ()
    return compose(
        model_part(IMAGE_ENCODER, gives(name, "batch_size _ _ _", path=path, kind="float")),
        model_part(MASK_DECODER, takes(name, axes, "normal", kind="float", path=taken)),
    )
