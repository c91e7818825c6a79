"""Records of axes: their names in ONNX, and the sizes that they may have."""

from __future__ import annotations

from onnxfn.specs.record import record


@record
class AxisName:
    """The name of an axis in ONNX, where it is not the symbol of the spec.

    Attributes:
        name: The axis symbol in the patterns of the spec.
        new: Its name in ONNX and in the plan.
    """

    name: str
    new: str


@record
class AxisRange:
    """The sizes that a dynamic axis may have.

    Attributes:
        name: The axis symbol.
        low: The smallest size.
        high: The largest size.
    """

    name: str
    low: int
    high: int
