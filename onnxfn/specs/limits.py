"""The sizes of dynamic axes for which a graph is valid, as a record and as the metadata of an ONNX file state them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnxfn.specs.record import record

SMALLEST_DYNAMIC_SIZE = 2
"""The smallest size that torch.export reports for a dynamic axis: it handles 0 and 1 as special cases."""

_LIMIT = re.compile(r"(.+?)(?: is (\d+))?(?: from (\d+))?(?: up to (\d+))?")


@record
class Limit:
    """The sizes for which a graph is valid along one axis, where the model allows no others.

    Attributes:
        name: The symbol of the axis.
        low: The smallest size.
        high: The largest size; None when there is no upper limit.

    >>> print(Limit("sequence_length", 4, 512))
    sequence_length from 4 up to 512
    >>> print(Limit("height", 256, 256))
    height is 256
    """

    name: str
    low: int
    high: int | None = None

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.name} is {self.low}"
        ends = (
            f"from {self.low}" if self.low > SMALLEST_DYNAMIC_SIZE else "",
            "" if self.high is None else f"up to {self.high}",
        )
        return " ".join(word for word in (self.name, *ends) if word)


def stated_limits(metadata: Mapping[str, str]) -> tuple[Limit, ...]:
    """The limits that the metadata of an ONNX file state; a smallest size that they leave out is 0.

    >>> stated_limits({"onnxfn.limits": "width from 7, height is 256"})
    (Limit(name='width', low=7), Limit(name='height', low=256, high=256))
    """
    texts = filter(None, metadata.get("onnxfn.limits", "").split(", "))
    parsed = (match.groups() for match in map(_LIMIT.fullmatch, texts) if match is not None)
    sizes = ((name, only or low or 0, only or high) for name, only, low, high in parsed)
    return tuple(Limit(name, int(low), None if high is None else int(high)) for name, low, high in sizes)
