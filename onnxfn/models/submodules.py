"""The module of a function or of a wrapped model, and the submodule of a part."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from onnxfn.architectures.functions import function_named, is_short
from onnxfn.architectures.wrappers.modules import module, module_at
from onnxfn.specs.errors import InvalidSpec

SCRIPTED = "module or function that torch.jit.script or torch.jit.trace was called with"
"""The object to pass in place of TorchScript."""


def as_module(model: Any) -> Any:
    """The module of a wrapper, program, function or method; else itself. InvalidSpec for TorchScript or a class."""
    import torch

    if inspect.isclass(model):
        raise InvalidSpec(f"the model is the class {model.__name__}; pass an instance: {model.__name__}(...)")
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise InvalidSpec(f"the model is TorchScript, which torch.export cannot trace; pass the {SCRIPTED}")
    if isinstance(model, torch.export.ExportedProgram):
        return model.module()
    if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        return as_module(model.module)
    if method_name(model):
        return as_module(model.__self__)
    if isinstance(model, torch.nn.Module):
        compiled = getattr(model, "_orig_mod", None)
        return model if compiled is None else as_module(compiled)
    is_function = inspect.isroutine(model) or isinstance(model, partial)
    return _module_of(getattr(model, "_torchdynamo_orig_callable", model)) if is_function else model


def method_name(model: Any) -> str | None:
    """The name of a method of a module, as `submodule_of` takes it: `self.decode`; None for anything else."""
    import torch

    is_method = inspect.ismethod(model) and isinstance(model.__self__, torch.nn.Module)
    return f"self.{model.__name__}" if is_method else None


def _module_of(function: Callable[..., Any]) -> Any:
    """A module without weights whose `forward` is a function. Many of torch's have no signature, and take no names."""

    def forward(*inputs: Any) -> Any:
        return function(*inputs)

    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return module(forward)
    return module(function)


SUBMODULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "encoder": lambda model: model.get_encoder(),
        "token_embeddings": lambda model, input_ids: {"inputs_embeds": model.get_input_embeddings()(input_ids)},
    }
)
"""Name -> wrapper. Other names are those of wrappers in architectures/wrappers."""


def submodule_of(model: Any, name: str | None) -> Any:
    """The callable that `name` stands for: the model if it is None, a wrapper, or what a wrapper of a model returns."""
    if name is None:
        return model
    if name.startswith("self."):
        return module_at(model, name.removeprefix("self."))
    wrapper = SUBMODULES.get(name) or function_named(name, "wrappers", kind="submodule", known=tuple(SUBMODULES))
    takes_inputs = is_short(name) and len(inspect.signature(wrapper).parameters) > 1
    return module(partial(wrapper, model)) if takes_inputs else wrapper(model)
