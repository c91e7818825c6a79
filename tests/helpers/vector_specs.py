"""Specs of modules that give `{"y": vectors}` for vectors `x`, and of modules for images of two sizes."""

from onnxfn import compose, generates, gives, sized, takes
from onnxfn.architectures.families.detection import image_cases, images_without_cases


def image_spec(*more, traced=(64, 96)):
    """The spec of a module for images that has these outputs."""
    return compose(images_without_cases, image_cases(traced, (61, 83)), *more)


def vector_spec(width, result=None):
    """The spec of a module on a batch of vectors of normal numbers; `result` has the axes after the batch."""
    return compose(
        takes("x", f"batch_size {width}", "normal", kind="float"),
        generates("normal", "normal"),
        gives("y", f"batch_size {result or width}"),
        sized(batch_size=2),
    )
