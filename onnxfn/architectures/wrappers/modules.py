"""The `torch.nn.Module` that a part runs: from a function, or from a path in the model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from operator import attrgetter
from typing import Any

from onnxfn.specs.errors import InvalidSpec


def module(forward: Callable[..., Any]) -> Any:
    """A module without parameters whose `forward` is this function."""
    import torch

    instance = torch.nn.Module()
    instance.forward = forward
    return instance


def module_at(model: Any, path: str) -> Any:
    """The submodule at a path; a method as a module that looks it up in each call. InvalidSpec if there is none."""
    import torch

    try:
        part = attrgetter(path)(model)
    except AttributeError as error:
        raise InvalidSpec(f"{type(model).__name__} does not have the part that this spec runs: {error}") from None
    if isinstance(part, torch.nn.Module):
        return part

    @wraps(part)
    def forward(*arguments: Any, **named: Any) -> Any:
        return attrgetter(path)(model)(*arguments, **named)

    return module(forward)


@contextmanager
def changed_inputs(part: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[None]:
    """Within it, an inner module of a model gets its named arguments after `change`."""
    hook = part.register_forward_pre_hook(lambda _, arguments, named: (arguments, change(named)), with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
