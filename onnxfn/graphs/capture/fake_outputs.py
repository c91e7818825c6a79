"""Shapes of the outputs of some operators at dynamic sizes, without the formulas that torch would run for them.

torch finds the shape of an output by running the formula of the operator on tensors without values. Where sizes are
dynamic, each step of a formula compares symbolic sizes, which takes most of the time of a trace. The outputs of these
operators have the shape of the input, or one that the arguments tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from onnxfn.graphs.capture.equal_calls import FakeOutputs, with_equal_calls


@contextmanager
def fast_fake_outputs() -> Iterator[None]:
    """Adds onnxfn's functions to torch's own table of such functions, and removes them again."""
    from torch._subclasses.fake_impls import get_fast_op_impls

    table = get_fast_op_impls()
    before = dict(table)
    table.update(with_equal_calls({**_functions(), **before}))
    try:
        yield
    finally:
        table.clear()
        table.update(before)


def _functions() -> Mapping[Any, FakeOutputs]:
    import torch

    aten = torch.ops.aten
    return {
        aten.clamp.default: _clamped,
        aten.hardtanh.default: _clamped,
        aten._native_batch_norm_legit_no_training.default: _normed,
        aten.grid_sampler_2d.default: _sampled,
    }


def _clamped(mode: Any, tensor: Any, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002 - torch's names
    """A tensor like the input, unless integers are clamped by floats."""
    import torch

    with mode:
        if tensor.is_floating_point():
            return torch.empty_like(tensor)
        return torch._refs.clamp(tensor, low if min is None else min, high if max is None else max)


def _normed(mode: Any, tensor: Any, *_: Any, **__: Any) -> tuple[Any, Any, Any]:
    """A tensor like the input, and the statistics that a norm in evaluation mode does not compute."""
    import torch

    with mode:
        return torch.empty_like(tensor), tensor.new_empty((0,)), tensor.new_empty((0,))


def _sampled(mode: Any, image: Any, grid: Any, *_: Any, **__: Any) -> Any:
    """`[batch, channels, height, width]`, with the height and the width of the grid."""
    import torch

    with mode:
        torch._check(image.shape[0] == grid.shape[0])
        return image.new_empty((image.shape[0], image.shape[1], grid.shape[1], grid.shape[2]))
