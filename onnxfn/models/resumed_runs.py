"""Runs of a model that begin at the layer where an earlier run on the same inputs ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

Returned = dict[str, Any]
"""From the name of a layer that has run to what it returned; a layer whose result the next one took has that one's."""


@contextmanager
def resumed(model: Any, known: Returned) -> Iterator[None]:
    """Layers return what is known of them and do not run; `known` gets what the others return, of each stack the last.

    That is what a whole run computes where each layer of a stack reads the one before it, and nothing else does.
    """
    import torch

    def returned(name: str, _: Any, arguments: Any, named: Any, result: Any) -> None:
        stack, taken = name.rpartition(".")[0], {id(each) for each in (*arguments, *named.values())}
        for other in [each for each in known if each.startswith(f"{name}.")]:
            del known[other]
        read = [each for each, of in known.items() if each.rpartition(".")[0] == stack and id(_states(of)) in taken]
        known.update(dict.fromkeys((*read, name), result))

    lists = {name: each for name, each in model.named_modules() if isinstance(each, torch.nn.ModuleList)}
    layers = {f"{name}.{index}": layer for name, each in lists.items() for index, layer in enumerate(each)}
    with ExitStack() as changes:
        for name, layer in layers.items():
            if name in known:
                changes.enter_context(patch.object(layer, "forward", lambda *_, of=known[name], **__: of))
            else:
                hook = layer.register_forward_hook(partial(returned, name), with_kwargs=True)
                changes.callback(hook.remove)
        yield


def _states(result: Any) -> Any:
    """The hidden states among what a layer returns."""
    return result[0] if isinstance(result, tuple) else result
