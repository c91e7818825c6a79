"""The rounding of long sums: ONNX Runtime adds the elements of a mean one after the other, PyTorch by halves.

The error of a sum of n numbers that are added one after the other grows as the root of n (Higham, Accuracy and
Stability of Numerical Algorithms, section 4.6, for random signs); by halves, as that of the logarithm. The means of a
group norm are over millions of elements in a decoder of pictures. PyTorch's own error does not show that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from onnxfn.check.verdict.verdict import NO_ERROR, PEAK, Norms, precision_of
from onnxfn.models.forward import flat_forward, tensors_for
from onnxfn.models.torch_modes import shapes_alone, torch_operators
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import raise_no_memory

LONG = 1 << 16
"""The numbers of a long sum. The rounding of a shorter one is no larger than what a check allows anyway."""

SUMS = ("native_group_norm", "native_layer_norm", "native_batch_norm", "mean", "sum", "var", "var_mean")
"""The operators of torch that add up elements of their first argument; the last result has one number for each sum."""


def error_of_sums(model: Any, part: Part, inputs: Mapping[str, Array]) -> Norms:
    """The norms of the rounding of the longest sum that a model computes for these inputs, if that is long.

    The model runs without values. ONNX Runtime adds numbers of fewer bits than float32 in float32.
    """
    import torch

    longest = 0

    def run(operator: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        nonlocal longest
        result = operator(*arguments, **named)
        if getattr(operator, "overloadpacket", operator).__name__ in SUMS:
            sums = result[-1] if isinstance(result, tuple) else result
            longest = max(longest, arguments[0].numel() // max(1, sums.numel()))
        return result

    try:
        with torch.no_grad(), shapes_alone() as mode, torch_operators(run):
            tensors = tensors_for(model, part.spec, inputs)
            flat_forward(model, part.spec)([mode.from_tensor(each) for each in tensors])
    except Exception as error:  # noqa: BLE001 - a size may depend on values
        raise_no_memory(error)
        return NO_ERROR
    roundoff = min(precision_of(dtype).unit_roundoff for dtype in ("float32", part.spec.target.float_dtype))
    rms = sqrt(longest) * roundoff if longest >= LONG else 0.0
    return Norms(rms, PEAK * rms)
