"""Shapes of operators on dense tensors, and of views, from sizes and strides alone; None where torch computes them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import torch

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.sizes.size_factors import ONE, factors, product, stride_factors

Sizes = Sequence[Any]
"""Numbers, or formulas of dynamic sizes."""


def memory_order(tensor: Any) -> tuple[int, ...] | None:
    """The axes of a dense tensor from the largest stride on, as `(0, 2, 3, 1)` for channels last; None if not dense."""
    strides = dict(enumerate(map(stride_factors, tensor.stride())))
    step, inner = ONE, []
    for _ in range(tensor.dim()):
        fits = [axis for axis in strides if strides[axis] == step or is_one(tensor.shape[axis])]
        if not fits:
            return None
        inner.append(max(fits))
        step = step * factors(tensor.shape[inner[-1]])
        del strides[inner[-1]]
    return tuple(reversed(inner))


def strides_in_order(sizes: Sizes, order: Sequence[int]) -> tuple[Any, ...]:
    """The strides of a dense tensor whose axes lie in this order in memory."""
    strides: dict[int, Any] = {}
    step: Any = 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * sizes[axis]
    return tuple(strides[axis] for axis in range(len(sizes)))


def view_layout(tensor: Any, shape: Sizes) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """The sizes and strides of a view of a tensor; None if the factors do not show that there is one."""
    sizes = _without_minus_one(tensor.shape, shape)
    # The axes of both shapes are taken in groups of equal products. The axes of a group must lie next to each other.
    groups = None if sizes is None else _groups(tensor.shape, sizes)
    if sizes is None or groups is None:
        return None
    strides: list[Any] = []
    for old, new in groups:
        stride = _merged_stride(tensor, old)
        if stride is None:
            return None
        strides += [each * stride for each in strides_in_order([sizes[axis] for axis in new], range(len(new)))]
    return sizes, tuple(strides)


def is_one(size: Any) -> bool:
    """Whether a size is the number 1."""
    return type(size) is int and size == 1


def _without_minus_one(sizes: Sizes, shape: Sizes) -> tuple[Any, ...] | None:
    """A shape with the computed size for -1; None if the factors do not show this size."""
    unknown = next((axis for axis, size in enumerate(shape) if type(size) is int and size == -1), None)
    if unknown is None:
        return tuple(shape) if product(sizes) == product(shape) else None
    left = _left(sizes, (*shape[:unknown], *shape[unknown + 1 :]))
    return None if left is None else (*shape[:unknown], left, *shape[unknown + 1 :])


def _left(sizes: Sizes, known: Sizes) -> Any:
    """The product of `sizes` divided by that of the known ones; None if the factors do not show it."""
    left = product(sizes).without(product(known))
    if left is None or not left.powers:
        return None if left is None else left.number
    return prod(sizes) // prod(known)  # by factors, see `size_factors.py`


def _groups(old: Sizes, new: Sizes) -> list[tuple[range, range]] | None:
    """The axes of two shapes in groups of equal products, the smallest there are; None if the factors show none."""
    groups: list[tuple[range, range]] = []
    first, second = 0, 0
    while first < len(old) or second < len(new):
        ends = _group_ends(old, new, first, second)
        if ends is None:
            return None
        groups.append((range(first, ends[0]), range(second, ends[1])))
        first, second = ends
    return groups


def _group_ends(old: Sizes, new: Sizes, first: int, second: int) -> tuple[int, int] | None:
    """The ends of the groups that begin with these axes."""
    ends = min(first + 1, len(old)), min(second + 1, len(new))
    while (products := (product(old[first : ends[0]]), product(new[second : ends[1]])))[0] != products[1]:
        if ends[1] < len(new) and products[0].without(products[1]) is not None:
            ends = ends[0], ends[1] + 1
        elif ends[0] < len(old) and products[1].without(products[0]) is not None:
            ends = ends[0] + 1, ends[1]
        else:
            return None
    return ends


def _merged_stride(tensor: Any, axes: Sequence[int]) -> Any:
    """The stride of axes that lie next to each other as one axis; None if they do not."""
    pairs = [(tensor.shape[axis], tensor.stride(axis)) for axis in axes if not is_one(tensor.shape[axis])]
    for (_, outer), (size, inner) in pairwise(pairs):
        if stride_factors(outer) != stride_factors(inner) * factors(size):
            return None
    return pairs[-1][1] if pairs else 1


Rule = Callable[..., Any]
"""From the arguments of an operator to its output, a fake tensor; None if the rule does not apply."""

ELEMENTWISE = """
    abs ceil cos elu erf exp expm1 floor gelu hardsigmoid hardswish hardtanh leaky_relu log mish neg reciprocal relu
    round rsqrt sigmoid silu sin softplus sqrt tanh
"""
"""Operators of `aten` with the overload `default`, whose outputs have the layout of a tensor of floats."""

CHANNELS_LAST = (0, 2, 3, 1)
"""The order of the axes of an image whose channels lie next to each other. A convolution keeps it."""


def elementwise_rules() -> Mapping[Any, Rule]:
    """The rules of operators that torch does not decompose."""
    aten = torch.ops.aten
    rules = {getattr(aten, name).default: _like_floats for name in ELEMENTWISE.split()}
    rules.update(dict.fromkeys((pair.Tensor for pair in (aten.add, aten.sub, aten.mul, aten.div)), _like_both))
    return {**rules, aten._scaled_dot_product_flash_attention_for_cpu.default: _attended}


def composite_rules() -> Mapping[Any, Rule]:
    """The rules of operators that torch decomposes before it asks for a fake output."""
    aten = torch.ops.aten
    return {
        aten.linear.default: _linear,
        aten.layer_norm.default: _layer_normed,
        aten.batch_norm.default: _batch_normed,
        aten.dropout.default: lambda tensor, _, trains: None if trains else tensor,
        **dict.fromkeys((aten.conv1d.default, aten.conv2d.default), _convolved),
        **{getattr(aten, f"upsample_{kind}2d").vec: _interpolated for kind in ("bilinear", "bicubic", "nearest")},
        aten.reshape.default: viewed,
    }


def _new(like: Any, sizes: Sequence[Any], strides: Sequence[Any]) -> Any:
    """A fake tensor of the dtype and device of another."""
    with torch_name("without_dispatch")():
        tensor = torch.empty_strided(tuple(sizes), tuple(strides), dtype=like.dtype, device="meta")
    return torch_name("FakeTensor")(like.fake_mode, tensor, like.fake_device)


def _equal(first: Sizes, second: Sizes) -> bool:
    """Whether sizes are equal by their factors."""
    return [*map(factors, first)] == [*map(factors, second)]


def _contiguous(like: Any, sizes: Sequence[Any]) -> Any:
    return _new(like, sizes, strides_in_order(sizes, range(len(sizes))))


def _is_contiguous(tensor: Any) -> bool:
    return memory_order(tensor) == _in_order(tensor)


def _in_order(tensor: Any) -> tuple[int, ...]:
    return tuple(range(tensor.dim()))


def _like_floats(tensor: Any, *_: Any, **__: Any) -> Any:
    """The layout of a dense tensor of floats."""
    if not tensor.is_floating_point() or memory_order(tensor) is None:
        return None
    return _new(tensor, tensor.shape, tensor.stride())


def _like_both(first: Any, second: Any, **_: Any) -> Any:
    """The layout of a dense float tensor combined with a number, or with a tensor that broadcasts to it."""
    fake_tensor = torch_name("FakeTensor")

    if not isinstance(first, fake_tensor) or type(second) in (int, float):
        return _like_floats(first) if isinstance(first, fake_tensor) else None
    if not isinstance(second, fake_tensor) or _kind(first) != _kind(second):
        return None
    # The output has the memory layout of the first tensor, if that is not broadcast.
    if _broadcasts(second, first):
        return _like_floats(first)
    contiguous = _broadcasts(first, second) and _is_contiguous(first) and _is_contiguous(second)
    return _like_floats(second) if contiguous else None


def _kind(tensor: Any) -> tuple[Any, Any]:
    return tensor.dtype, tensor.device


def _broadcasts(smaller: Any, larger: Any) -> bool:
    """Whether a tensor is repeated along some axes to the shape of another."""
    missing = larger.dim() - smaller.dim()
    pairs = zip(smaller.shape, larger.shape[max(missing, 0) :], strict=False)
    return missing >= 0 and all(is_one(size) or _equal([size], [other]) for size, other in pairs)


def _linear(tensor: Any, weight: Any, *_: Any, **__: Any) -> Any:
    """A contiguous tensor; its number of features is the number of rows of the weight."""
    matrices = tensor.dim() >= 2 and weight.dim() == 2 and _kind(tensor) == _kind(weight)  # noqa: PLR2004
    if not matrices or not _equal(tensor.shape[-1:], weight.shape[1:]):
        return None
    return _contiguous(tensor, (*tensor.shape[:-1], weight.shape[0]))


def _layer_normed(tensor: Any, shape: Sequence[int], *_: Any, **__: Any) -> Any:
    """A contiguous tensor of floats."""
    fits = tensor.is_floating_point() and _equal(tensor.shape[tensor.dim() - len(shape) :], shape)
    return _contiguous(tensor, tensor.shape) if fits else None


def _batch_normed(tensor: Any, *options: Any) -> Any:
    """The layout of the input, where the statistics are known."""
    _, _, mean, variance, trains, *_ = options
    return None if trains or mean is None or variance is None else _like_floats(tensor)


def _convolved(
    tensor: Any, weight: Any, _: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Sizes by torch's function, which also notes how large an image must be; the order of the axes is kept."""
    order = memory_order(tensor)
    alike = tensor.dim() == weight.dim() and _kind(tensor) == _kind(weight) and _is_contiguous(weight)
    if not alike or order not in (_in_order(tensor), CHANNELS_LAST):
        return None
    sizes = torch_name("convolved_size")(tensor, weight, stride, padding, dilation, False, groups, None)
    return _new(tensor, sizes, strides_in_order(sizes, order))


def _attended(query: Any, *_: Any, **__: Any) -> Any:
    """The layout of dense queries, and a number for each query in each head, heads last in memory."""
    attended = _like_floats(query) if query.element_size() >= 4 else None  # noqa: PLR2004 - the numbers are float32 at least
    sizes = query.shape[:3]
    return None if attended is None else (attended, _new(query, sizes, strides_in_order(sizes, (0, 2, 1))))


def _interpolated(image: Any, output_size: Sequence[Any] | None, *options: Any) -> Any:
    """An image of the new size, in the memory order that torch chooses."""
    order = CHANNELS_LAST if torch_name("memory_format")(image) is torch.channels_last else _in_order(image)
    sizes = (*image.shape[:2], *torch_name("interpolated_size")(image.shape, output_size, options[-1]))
    return _new(image, sizes, strides_in_order(sizes, order))


def viewed(tensor: Any, shape: Sequence[Any]) -> Any:
    """The elements of a tensor in another shape, in the same memory; None if factors do not show the view."""
    layout = view_layout(tensor, shape)
    return None if layout is None else tensor.as_strided(*layout)
