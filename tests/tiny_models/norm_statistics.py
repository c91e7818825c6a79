from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

LEAST = 0.1
"""The smallest variance of a channel, divided by the mean of all channels.

A channel that is nearly constant on the measured inputs would amplify other inputs, and rounding with them.
"""


def batch_norms(model: Any) -> list[Any]:
    return [module for module in model.modules() if "running_mean" in dict(module.named_buffers(recurse=False))]


@contextmanager
def measured_statistics(model: Any) -> Iterator[None]:
    """A context in which each norm over batches takes the mean and the variance of the channels that it reads."""
    with ExitStack() as hooks:
        for norm in batch_norms(model):
            hook = norm.register_forward_pre_hook(_measure)
            hooks.callback(hook.remove)
        yield


def _measure(norm: Any, arguments: tuple[Any, ...]) -> None:
    values = arguments[0]
    others = [axis for axis in range(values.dim()) if axis != 1]
    variances = values.var(others)
    norm.running_mean.copy_(values.mean(others))
    norm.running_var.copy_(variances.clamp(min=LEAST * variances.mean()))
