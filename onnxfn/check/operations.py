"""How many operations the matrices of a model need in a run of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from onnxfn.check.sections.hidden_states import first_real_tensor


@contextmanager
def counted_operations(model: Any) -> Iterator[Callable[[], int]]:
    """A context in which linear layers and convolutions are counted; a function returns their operations so far.

    A weight of n elements needs 2 * n operations for each position that it is multiplied with. What a model computes
    without such a module is not counted, such as the products of an attention.

    >>> import torch
    >>> layer = torch.nn.Linear(4, 8)
    >>> with counted_operations(layer) as operations:
    ...     _ = layer(torch.ones(3, 5, 4))
    >>> operations() == 2 * (4 * 8) * (3 * 5)
    True
    """
    import torch

    nn = torch.nn
    of_outputs = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    of_inputs = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    counts: list[int] = []

    def add(reads: bool, module: Any, arguments: Any, named: Any, result: Any) -> None:  # noqa: FBT001 - torch calls it
        tensor = first_real_tensor((arguments, named) if reads else result)  # a router returns several
        positions = 0 if tensor is None else tensor.numel() // module.weight.shape[0]
        counts.append(2 * module.weight.numel() * positions)

    with ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, (*of_outputs, *of_inputs)):
                hook = partial(add, isinstance(module, of_inputs))
                hooks.callback(module.register_forward_hook(hook, with_kwargs=True).remove)
        yield lambda: sum(counts)
