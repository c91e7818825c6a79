"""A model's `forward` as a function of the planned inputs that returns the planned outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnxfn.graphs.capture.argument_builders import ARGUMENT_BUILDERS
from onnxfn.graphs.capture.dtypes import float_dtype
from onnxfn.graphs.capture.model_state import unchanged_eval, with_attention
from onnxfn.graphs.capture.quiet import quiet
from onnxfn.graphs.capture.submodules import submodule_of
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import CaptureFailed, OnnxfnError, UnknownName, first_line, listed
from onnxfn.specs.planned import Part, PlannedSpec
from onnxfn.specs.tensor_paths import at, nested


def torch_outputs(model: Any, part: Part, arrays: Mapping[str, Array], dtype: Any = None) -> tuple[Array, ...]:
    """The outputs of a part as PyTorch computes them, without patches: one array per planned output.

    Floating-point inputs have the torch dtype `dtype`; None is that of the model. Floating-point outputs are float64 if
    that is float64, else float32: numpy has no bfloat16.

    CaptureFailed if the model does not run on these inputs.
    """
    import torch

    dtype = dtype or float_dtype(model)
    try:
        with quiet(), unchanged_eval(model), with_attention(model, part.spec.call.attention), torch.no_grad():
            outputs = flat_forward(model, part.spec)(tensors_for(model, arrays, dtype))
    except (OnnxfnError, MemoryError):
        raise
    except Exception as error:
        raise CaptureFailed(_cannot_run(model, part, error)) from error
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return tuple(
        output.detach().to(wide).numpy() if output.is_floating_point() else output.numpy() for output in outputs
    )


def _cannot_run(model: Any, part: Part, error: Exception) -> str:
    """The message for a model that PyTorch cannot run on the inputs of a part; weights of several types may be why."""
    dtypes = dict.fromkeys(str(weight.dtype) for weight in model.parameters() if weight.is_floating_point())
    advice = f"; its weights have several types, {listed(dtypes)}: use model.float()" if len(dtypes) > 1 else ""
    name = f"{type(model).__name__} does not run in PyTorch on inputs of {part.name}"
    return f"{name}: {type(error).__name__}: {first_line(error)}{advice}"


def flat_forward(model: Any, spec: PlannedSpec) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function from the tensors of the planned inputs to those of the planned outputs, both in the plan's order."""
    forward = raw_forward(model, spec)

    def outputs(tensors: Sequence[Any]) -> tuple[Any, ...]:
        result = forward(tensors)
        _check_layers(model, spec, result)
        try:
            return tuple(at(output.forward_path, result) for output in spec.outputs)
        except UnknownName as error:
            raise CaptureFailed(f"{type(model).__name__} does not fit {spec.task or 'this spec'}: {error}") from None

    return outputs


def raw_forward(model: Any, spec: PlannedSpec) -> Callable[[Sequence[Any]], Any]:
    """A function from the tensors of the planned inputs to all that `forward` returns; a lone tensor is a 1-tuple."""
    import torch

    submodule = submodule_of(model, spec.call.submodule)
    constants = {
        constant.name: constant.value for constant in spec.call.constants if _has_parameter(submodule, constant.name)
    }

    def forward(tensors: Sequence[Any]) -> Any:
        arguments = nested((input_.forward_path, tensor) for input_, tensor in zip(spec.inputs, tensors, strict=True))
        objects = {
            builder.name: ARGUMENT_BUILDERS[builder.by](model, arguments.get(builder.name, {}))
            for builder in spec.call.builders
        }
        result = submodule(**{**constants, **arguments, **objects})
        return (result,) if isinstance(result, torch.Tensor) else result

    return forward


def _check_layers(model: Any, spec: PlannedSpec, result: Any) -> None:
    """Raises CaptureFailed when a field of the result, such as `hidden_states`, has more layers than the plan."""
    planned: dict[Any, list[Any]] = {}
    for output in spec.outputs:
        if output.layer is not None and len(output.forward_path) == 2:  # noqa: PLR2004 - the field, and the index in it
            planned.setdefault(output.forward_path[0], []).append(output.forward_path[1])
    for field, indices in planned.items():
        layers = at((field,), result) if isinstance(result, Mapping) and field in result else ()
        if len(layers or ()) > max(indices) + 1:
            raise CaptureFailed(
                f"{type(model).__name__} returns {len(layers)} {field}, but the plan has {max(indices) + 1}"
            )


def tensors_for(model: Any, arrays: Mapping[str, Array], dtype: Any = None) -> tuple[Any, ...]:
    """Arrays as tensors on the model's device; floating-point numbers in a dtype, by default that of the model."""
    import torch

    dtype = dtype or float_dtype(model)
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    tensors = (torch.from_numpy(array).to(device) for array in arrays.values())
    return tuple(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors)


def _has_parameter(model: Any, name: str) -> bool:
    """Whether `forward` accepts a keyword argument of this name."""
    parameters = inspect.signature(model.forward).parameters
    return name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
