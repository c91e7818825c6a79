"""Specs of modules that give `{"y": vectors}` for vectors `x`."""

from onnxfn import compose, generates, gives, sized, takes


def vector_spec(width, result=None):
    """The spec of a module on a batch of vectors of normal numbers; `result` has the axes after the batch."""
    return compose(
        takes("x", f"batch_size {width}", "normal", kind="float"),
        generates("normal", "normal"),
        gives("y", f"batch_size {result or width}"),
        sized(batch_size=2),
    )
