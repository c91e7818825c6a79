"""Convolutions that also do what the batch norms right after them do, as kernels of integers need it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from onnxfn.models.model_state import model_copy
from onnxfn.specs.algebra.dummies import Array

Run = Callable[[Any], Sequence[Array]]
"""From a model to its outputs for some inputs."""


def with_folded_norms(model: Any, runs: Sequence[Run]) -> Any:
    """A copy of a model without the norms that read what a convolution returns; itself if that returns other values."""
    import torch
    from torch.nn.utils.fusion import fuse_conv_bn_weights

    has_norms = any("BatchNorm" in type(each).__name__ for each in model.modules())
    folded = model_copy(model) if has_norms else model
    pairs = set() if folded is model else {pair for run in runs for pair in _pairs(folded, run)}
    own = dict(folded.named_modules())
    for name, norm_name in pairs:
        convolution, norm = own[name], own[norm_name]
        statistics = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
        fused = fuse_conv_bn_weights(convolution.weight.detach(), convolution.bias, *statistics)
        convolution.weight, convolution.bias = (torch.nn.Parameter(each.detach()) for each in fused)
        folded.set_submodule(norm_name, torch.nn.Identity())
    outputs = [pair for run in runs if pairs for pair in zip(run(model), run(folded), strict=True)]
    # A share of the largest element: later layers amplify rounding.
    is_same = all(np.abs(new - old).max() <= 1e-3 * np.abs(old).max() for old, new in outputs if old.size)
    return folded if is_same else model


def _pairs(model: Any, run: Run) -> Iterator[tuple[str, str]]:
    """The names of each convolution and of the batch norm that reads what it returns, where each is called once."""
    from torch import nn

    convolutions, norms = dict[str, list[Any]](), dict[str, list[Any]]()

    def note(values: list[Any], _: Any, arguments: Any, output: Any = None) -> None:
        values.append(arguments[0] if output is None else output)

    with ExitStack() as hooks:
        for name, module in model.named_modules():  # a class that is derived from one of these may do more
            if type(module) in (nn.Conv1d, nn.Conv2d, nn.Conv3d):
                hooks.callback(module.register_forward_hook(partial(note, convolutions.setdefault(name, []))).remove)
            if type(module) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d) and module.running_mean is not None:
                hooks.callback(module.register_forward_pre_hook(partial(note, norms.setdefault(name, []))).remove)
        run(model)
    for norm, read in norms.items():
        for name, values in convolutions.items():
            if len(read) == len(values) == 1 and values[0] is read[0]:
                yield name, norm
