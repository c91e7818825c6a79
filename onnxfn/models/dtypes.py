"""The float dtypes of a model, and copies of a model in another float dtype."""

import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, cast

from toolz import reduceby, unique

from onnxfn.models.model_state import copied, tensors_of
from onnxfn.models.read_weights import read, reads_weights, rows_of
from onnxfn.models.torch_modes import traces_awaited
from onnxfn.specs.algebra.spec import ExportSpec, FloatDtype
from onnxfn.specs.edits.tensors import FLOAT_DTYPES, with_dtypes
from onnxfn.specs.errors import InvalidSpec, listed


def torch_dtype(name: str | None) -> Any:
    """The dtype of torch with this name; None for None."""
    import torch

    return name and getattr(torch, name)


def in_dtype(model: Any, dtype: str | None) -> Any:
    """The model with its float weights in a dtype, except those of `dtypes_in`: itself, or a copy that shares none."""
    if dtype is None or (has_dtype(model, dtype) and not reads_weights(model)):
        return model
    return _copied_in(model, dtype, _converted)


def in_dtype_if_small(model: Any, dtype: str | None, most: int = 1 << 28) -> Any:
    """A copy of a model in a dtype if it has at most `most` bytes; else the model: `cast_on_use` casts its weights."""
    if dtype is None:
        return model
    size = sum(tensor.numel() for tensor in float_tensors(model)) * torch_dtype(dtype).itemsize
    return in_dtype(model, dtype) if size <= most else model


def without_values(model: Any, dtype: str | None) -> Any:
    """A copy of a model to trace, in a dtype, whose parameters take no memory; the model itself if it has the dtype."""
    import torch

    def without(tensor: Any, dtype: Any) -> Any:
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        return _like(tensor, torch.empty_like(tensor, dtype=dtype)) if is_parameter else _converted(tensor, dtype)

    return model if dtype is None or has_dtype(model, dtype) else _copied_in(model, dtype, without)


def _copied_in(model: Any, dtype: str, convert: Callable[[Any, Any], Any]) -> Any:
    """A copy of a model, each of whose float tensors is the result of a function of it and its new torch dtype."""
    dtypes = dtypes_in(model, torch_dtype(dtype))
    with traces_awaited():
        return copied(model, lambda tensor: convert(tensor, dtypes[id(tensor)]) if id(tensor) in dtypes else tensor)


def dtypes_in(model: Any, dtype: Any) -> dict[int, Any]:
    """From the identity of each float tensor of a model to its torch dtype in the model in another; routers stay."""
    import torch

    wide: set[int] = set()
    if _is_half(dtype):
        own = float_dtype(model)
        parameters = model.parameters() if _is_half(own) else ()
        wide = {id(parameter) for parameter in parameters if parameter.dtype == torch.float32}
        for module in model.modules() if own != dtype else ():
            if hasattr(module, "_get_dtype_plan"):
                # transformers has them in float32 in a model of any dtype
                names = "|".join(name.replace("*", ".*") for name in (*module._get_dtype_plan(dtype), "inv_freq"))
                tensors = (*module.named_parameters(), *module.named_buffers())
                wide |= {id(tensor) for name, tensor in tensors if re.search(names, name)}
    return {id(tensor): torch.float32 if id(tensor) in wide else dtype for tensor in float_tensors(model)}


def has_dtype(model: Any, dtype: str) -> bool:
    """Whether the float parameters of a model have a dtype. In a model of 16 bits some may be float32."""
    own, dtypes = float_dtype(model), float_dtypes(model)
    return dtypes <= {dtype} or (own == torch_dtype(dtype) and _is_half(own) and dtypes <= {dtype, "float32"})


def float_dtype(model: Any) -> Any:
    """The torch dtype of most elements of the floating-point parameters of a model; float32 if there are none."""
    import torch

    floats = (parameter for parameter in model.parameters() if parameter.is_floating_point())
    elements = reduceby(attrgetter("dtype"), lambda total, parameter: total + parameter.numel(), floats, 0)
    return max(elements, key=elements.__getitem__, default=torch.float32)


def _is_half(dtype: Any) -> bool:
    return bool(dtype.itemsize == 2)  # noqa: PLR2004 - bytes


def float_dtypes(model: Any) -> set[str]:
    """The names of the dtypes of a model's floating-point parameters."""
    floats = (parameter for parameter in model.parameters() if parameter.is_floating_point())
    return {str(parameter.dtype).removeprefix("torch.") for parameter in floats}


def with_model_dtype(spec: ExportSpec, model: Any) -> ExportSpec:
    """The spec for the float dtype of most weights, if it has none. InvalidSpec if these have several of 16 bits."""
    every = float_dtypes(model)
    dtypes = every - {"float64", *(["float32"] if _is_half(float_dtype(model)) else [])} or every
    if spec.target.float_dtype is not None or not dtypes <= {*FLOAT_DTYPES} or dtypes <= {"float32"}:
        return spec
    if len(dtypes) > 1:
        raise InvalidSpec(
            f"the parameters of {type(model).__name__} have the dtypes {listed(sorted(dtypes))}; "
            'choose that of the graph: with_dtypes(spec, float="float32")'
        )
    return with_dtypes(spec, float=cast("FloatDtype", dtypes.pop()))


def float_tensors(model: Any) -> Iterator[Any]:
    """The floating-point parameters and buffers of a model, each once."""
    return (tensor for tensor in unique(tensors_of(model), key=id) if tensor.is_floating_point())


def _converted(tensor: Any, dtype: Any) -> Any:
    """A copy of a tensor in a dtype; of a parameter, a parameter."""
    return _like(tensor, read(tensor, dtype) if rows_of(tensor) else tensor.detach().to(dtype, copy=True))


def _like(tensor: Any, values: Any) -> Any:
    """These values as a tensor; in place of a parameter, as one that requires a gradient if that does."""
    import torch

    is_parameter, values = isinstance(tensor, torch.nn.Parameter), values.detach()
    return torch.nn.Parameter(values, requires_grad=tensor.requires_grad) if is_parameter else values
