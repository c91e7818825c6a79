"""Shapes of the outputs of some operators at dynamic sizes, without the formulas that torch would run for them.

torch finds the shape of an output by running the formula of the operator on tensors without values. Where sizes are
dynamic, each step of a formula compares symbolic sizes, which takes most of the time of a trace. The outputs of these
operators have the shape of the input, or one that the arguments tell.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.sizes.dense_outputs import composite, composite_rules, with_rules
from onnxfn.graphs.sizes.equal_calls import FakeOutputs, with_equal_calls


@contextmanager
def fast_fake_outputs() -> Iterator[None]:
    """Adds onnxfn's functions to torch's own table of such functions, and removes them again.

    Composite operators are not in that table: torch runs their formulas before it asks the table.
    """
    table = torch_name("fast_functions")()
    before = dict(table)
    table.update(with_rules(with_equal_calls({**_functions(), **before})))
    formulas = {**_interpolations(), **_composites()}
    originals = {each: dict(each.py_kernels) for each in formulas}
    for composite_operator, kernels in formulas.items():
        _replace_formulas(composite_operator, {**originals[composite_operator], **kernels})
    try:
        yield
    finally:
        for composite_operator, kernels in originals.items():
            _replace_formulas(composite_operator, kernels)
        table.clear()
        table.update(before)


def _replace_formulas(function: Any, kernels: Mapping[Any, Any]) -> None:
    """Replaces the Python functions that torch calls for an operator, by dispatch key."""
    function.py_kernels.clear()
    function.py_kernels.update(kernels)
    function._dispatch_cache.clear()


def _interpolations() -> dict[Any, Mapping[Any, Any]]:
    """From each interpolation to its functions, by dispatch key."""
    import torch

    aten = torch.ops.aten
    interpolations = (aten.upsample_bilinear2d.vec, aten.upsample_bicubic2d.vec, aten.upsample_nearest2d.vec)
    return {each: {key: _interpolated(kernel) for key, kernel in each.py_kernels.items()} for each in interpolations}


def _composites() -> dict[Any, Mapping[Any, Any]]:
    """From each composite operator that has a rule to its function, by dispatch key."""
    key = torch_name("DispatchKey").CompositeImplicitAutograd
    rules = composite_rules().items()
    return {each: {key: composite(rule, each.py_kernels.get(key) or partial(each._op_dk, key))} for each, rule in rules}


def _functions() -> Mapping[Any, FakeOutputs]:
    import torch

    aten = torch.ops.aten
    return {
        aten.clamp.default: _clamped,
        aten.hardtanh.default: _clamped,
        aten._native_batch_norm_legit_no_training.default: _normed,
        aten.grid_sampler_2d.default: _sampled,
        aten.view.default: _viewed,
        aten._unsafe_view.default: _viewed,
    }


def _clamped(mode: Any, tensor: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002 - torch's names
    """A tensor like the input, unless integers are clamped by floats."""
    import torch

    with mode:
        if tensor.is_floating_point():
            return torch.empty_like(tensor)
        return torch_name("clamp")(tensor, low if min is None else min, high if max is None else max)


def _normed(mode: Any, tensor: Any, *_: Any, **__: Any) -> tuple[Any, Any, Any]:
    """A tensor like the input, and the statistics that a norm in evaluation mode does not compute."""
    import torch

    with mode:
        return torch.empty_like(tensor), tensor.new_empty((0,)), tensor.new_empty((0,))


def _sampled(mode: Any, image: Any, grid: Any, *_: Any, **__: Any) -> Any:
    """`[batch, channels, height, width]`, with the height and the width of the grid."""
    with mode:
        torch_name("check")(image.shape[0] == grid.shape[0])
        return image.new_empty((image.shape[0], image.shape[1], grid.shape[1], grid.shape[2]))


def _viewed(mode: Any, tensor: Any, shape: Any) -> Any:
    """The elements of a tensor in another shape; torch's formula splits and merges the axes one by one.

    A view of a contiguous tensor is contiguous, so its strides are products of its sizes. Other tensors, and sizes
    that depend on values, are left to torch's formula.
    """
    import torch

    with mode:
        if not shape or torch_name("has_unbacked_input")(tensor, shape) or not torch_name("is_contiguous")(tensor):
            return torch_name("view")(mode, torch.ops.aten.view.default, tensor, shape)
        sizes = torch_name("broadcast_size")(shape, tensor.numel())
        strides = [*accumulate(reversed(sizes[1:]), operator.mul, initial=1)]
        return torch.as_strided(tensor, sizes, strides[::-1])


def _interpolated(formula: Any) -> Any:
    """A function for interpolations: an empty image of the new size for a fake image, else what `formula` returns."""
    fake_tensor = torch_name("FakeTensor")

    def outputs(image: Any, output_size: Any, *options: Any) -> Any:
        if not isinstance(image, fake_tensor):
            return formula(image, output_size, *options)
        sizes = torch_name("interpolated_size")(image.shape, output_size, options[-1])
        with image.fake_mode:
            memory_format = torch_name("memory_format")(image)
            empty = image.new_empty((*image.shape[:2], *sizes))
            return empty.contiguous(memory_format=memory_format)

    return outputs
