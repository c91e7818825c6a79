"""Rounding that one run of PyTorch does not show: other roundings of its products, and the long sums of ONNX Runtime.

PyTorch's own error is one sample of its rounding. It may be small by luck, in the similarity of an image and a text or
where a layer amplifies the rounding of one number. So each product and its operands are rounded at random, and the
largest of several errors counts (Monte Carlo arithmetic: Parker, 1997).

ONNX Runtime adds the elements of a mean one after the other, PyTorch by halves. The error of a sum of n numbers that
are added one after the other grows as the root of n (Higham, Accuracy and Stability of Numerical Algorithms, section
4.6, for random signs); by halves, as that of the logarithm. A mean may be of millions: in group norms of large images.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.check.verdict.verdict import NO_ERROR, PEAK, Norms, no_reference, precision_of
from onnxfn.models.dtypes import torch_dtype
from onnxfn.models.forward import flat_forward, tensors_for, torch_outputs
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.torch_modes import shapes_alone, torch_operators
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.errors import raise_no_memory

ROUNDINGS = 8
"""The largest number of runs that round otherwise."""


def rounded_otherwise(
    model: Any, part: Part, inputs: Mapping[str, Array], dtype: str | None, seed: int
) -> tuple[str, tuple[Array, ...]]:
    """What was done, and PyTorch's outputs where each element of a product or its operands may move by a rounding."""
    import torch
    from torch.utils.flop_counter import flop_registry

    random, tree_map = torch.Generator().manual_seed(seed), torch_name("pytree").tree_map

    def moved(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            step = torch.finfo(value.dtype).eps / 2
            return value + value * torch.empty_like(value).uniform_(-step, step, generator=random)
        return value

    def run(operator: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if getattr(operator, "overloadpacket", operator) not in flop_registry:
            return operator(*arguments, **named)
        arguments, named = tree_map(moved, (arguments, named))
        return tree_map(moved, operator(*arguments, **named))

    with no_reference("another rounding"), torch_operators(run):
        return "another rounding", torch_outputs(model, part, inputs, torch_dtype(dtype))


LONG = 1 << 16
"""The numbers of a long sum. The rounding of a shorter one is no larger than what a check allows anyway."""

SUMS = ("native_group_norm", "native_layer_norm", "native_batch_norm", "mean", "sum", "var", "var_mean")
"""The operators of torch that add up elements of their first argument; the last result has one number for each sum."""


def error_of_sums(model: Any, part: Part, inputs: Mapping[str, Array]) -> Norms:
    """The norms of the rounding of the longest sum that a model, run without values, computes for these inputs."""
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
        with torch.no_grad(), unchanged_eval(model), shapes_alone() as mode, torch_operators(run):
            flat_forward(model, part.spec)([mode.from_tensor(each) for each in tensors_for(model, part.spec, inputs)])
    except Exception as error:  # noqa: BLE001 - a size may depend on values
        raise_no_memory(error)
        return NO_ERROR
    roundoff = min(precision_of(dtype).unit_roundoff for dtype in ("float32", part.spec.target.float_dtype))
    rms = sqrt(longest) * roundoff if longest >= LONG else 0.0
    return Norms(rms, PEAK * rms)
