"""Fake outputs of operators that ran before on tensors of the same sizes.

Models call an operator many times on tensors of the same sizes: in each layer, in each head. At dynamic sizes torch
finds the shape of the output anew each time, from comparisons of symbolic sizes. Here a call whose arguments equal
those of an earlier one gets an output of the same sizes, strides and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.architectures.private.torch_names import torch_name

OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "default": """
            _native_batch_norm_legit_no_training _scaled_dot_product_flash_attention_for_cpu _softmax
            _to_copy _unsafe_view abs addmm arange avg_pool2d baddbmm bitwise_not bmm cat clamp clamp_max
            clamp_min clone constant_pad_nd convolution cos elu embedding empty_like erf exp expm1 floor
            full full_like gather gelu grid_sampler_2d hardsigmoid hardswish hardtanh leaky_relu log
            logical_and logical_not max_pool2d_with_indices maximum minimum mish mm native_group_norm
            native_layer_norm neg new_empty new_zeros ones ones_like reciprocal relu round rsqrt sigmoid
            silu sin softplus sqrt stack tanh zeros zeros_like
        """,
        "Tensor": "_unsafe_index add bitwise_and bitwise_or div eq ge gt le lt masked_fill mul ne sub",
        "Scalar": "eq ge gt le lt masked_fill ne rsub",
        "start": "arange",
        "start_step": "arange",
        "memory_format": "empty",
        "dim": "mean",
        "Tensor_Scalar": "pow",
        "Tensor_Tensor": "pow",
        "dim_IntList": "sum",
        "self": "where",
    }
)
"""Operators of `aten`, by their overload, whose outputs are new tensors with sizes that those of the inputs tell."""

FakeOutputs = Callable[..., Any]
"""From a FakeTensorMode and the arguments of an operator to the fake tensors that it returns."""


@frozen
class Layout:
    """What a trace knows of a tensor: all but its values."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: Any
    device: Any


def with_equal_calls(table: Mapping[Any, FakeOutputs]) -> dict[Any, FakeOutputs]:
    """`table`, and the operators of `OPERATORS`; each of these computes an output once for arguments that are equal."""
    import torch

    operators = [
        getattr(getattr(torch.ops.aten, name), overload)
        for overload, names in OPERATORS.items()
        for name in names.split()
    ]
    return {**table, **{operator: _once(table.get(operator) or by_torch(operator)) for operator in operators}}


def by_torch(operator: Any) -> FakeOutputs:
    """The outputs of an operator that is not in torch's table of fast functions."""

    def outputs(mode: Any, *args: Any, **kwargs: Any) -> Any:
        table = torch_name("fast_functions")()
        function = table.pop(operator, None)  # else torch would call this function again
        try:
            with mode:
                return operator(*args, **kwargs)
        finally:
            table.update({operator: function} if function else {})

    return outputs


def _once(function: FakeOutputs) -> FakeOutputs:
    """`function`, which is called once for arguments that are equal."""
    layouts: dict[Any, Any] = {}

    def outputs(mode: Any, *args: Any, **kwargs: Any) -> Any:
        call = (mode, *map(_description, args), *((name, _description(kwargs[name])) for name in sorted(kwargs)))
        if call in layouts:
            return _fake_tensors(mode, layouts[call])
        result = function(mode, *args, **kwargs)
        layouts[call] = _layouts(result)
        return result

    return outputs


def _description(argument: Any) -> Any:
    """What an output's shape can depend on, in a form that can be compared: a size is described by its formula."""
    import torch

    if isinstance(argument, torch.Tensor):
        sizes, strides = (tuple(map(_formula, sizes)) for sizes in (argument.shape, argument.stride()))
        return Layout(sizes, strides, argument.dtype, argument.device)
    if isinstance(argument, (list, tuple)):
        return tuple(map(_description, argument))
    return type(argument), _formula(argument)


def _formula(size: Any) -> Any:
    """The formula of a dynamic size, from the sizes of the inputs; other values as they are."""
    return size.node._expr if hasattr(size, "node") else size


def _layouts(result: Any) -> Any:
    """The layout of a tensor, or of each in a tuple; other values as they are."""
    import torch

    if isinstance(result, torch.Tensor):
        return Layout(tuple(result.shape), tuple(result.stride()), result.dtype, result.device)
    return tuple(map(_layouts, result)) if isinstance(result, (list, tuple)) else result


def _fake_tensors(mode: Any, layouts: Any) -> Any:
    """Fake tensors of these layouts."""
    if isinstance(layouts, tuple):
        return tuple(_fake_tensors(mode, layout) for layout in layouts)
    return fake_tensor(mode, layouts) if isinstance(layouts, Layout) else layouts


def fake_tensor(mode: Any, layout: Layout) -> Any:
    """A fake tensor of this layout."""
    import torch

    with torch_name("without_dispatch")():
        tensor = torch.empty_strided(layout.sizes, layout.strides, dtype=layout.dtype, device="meta")
    return torch_name("FakeTensor")(mode, tensor, layout.device)
