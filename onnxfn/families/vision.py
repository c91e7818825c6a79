"""Models that see."""

from __future__ import annotations

from onnxfn.algebra import compose
from onnxfn.edits import takes
from onnxfn.generators import generates, sized

pixels = compose(
    takes("pixel_values", "batch_size num_channels= image_height= image_width=", "pixels", kind="float"),
    generates("pixels", "normal"),
    sized(batch_size=2),
)
"""Images of the one size that a model has places for, with as many channels as it has weights for."""
