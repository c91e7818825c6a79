"""Records of axes: their names in ONNX, and the sizes that they may have."""

from __future__ import annotations

from attrs import frozen

from onnxfn.specs.field_types import typed_fields
from onnxfn.specs.short_repr import short_repr


@frozen(field_transformer=typed_fields)
class AxisName:
    """The name of an axis in ONNX, where it is not the symbol of the spec.

    Attributes:
        name: The axis symbol in the patterns of the spec.
        new: Its name in ONNX and in the plan.
    """

    name: str
    new: str

    __repr__ = short_repr


@frozen(field_transformer=typed_fields)
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

    __repr__ = short_repr
