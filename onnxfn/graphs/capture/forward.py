"""A model's `forward` on flat tensors: planned inputs in, planned outputs out; and PyTorch's answers to a check."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnxfn.graphs.capture.argument_builders import ARGUMENT_BUILDERS
from onnxfn.graphs.capture.model_state import unchanged_eval, with_attention
from onnxfn.graphs.capture.quiet import quiet
from onnxfn.graphs.capture.submodules import submodule_of
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import CaptureFailed, UnknownName
from onnxfn.specs.planned import Part, PlannedSpec
from onnxfn.specs.tensor_paths import at, nested

LOCK = threading.RLock()
"""torch.export keeps state of its own while it traces: one trace at a time in a process."""


def in_dtype(model: Any, dtype: str | None) -> Any:
    """The model in a float type: itself when it is so already or none is asked, else a copy."""
    import torch

    if dtype is None or _float_dtype(model) == getattr(torch, dtype):
        return model
    with LOCK:
        return copy.deepcopy(model).to(getattr(torch, dtype))


def torch_outputs(model: Any, part: Part, arrays: Mapping[str, Array]) -> tuple[Array, ...]:
    """What PyTorch answers to these inputs: one array an output of the plan."""
    import torch

    with LOCK, quiet(), unchanged_eval(model), with_attention(model, part.spec.call.attention), torch.no_grad():
        answers = flat_forward(model, part.spec)(tensors_for(model, arrays))
    return tuple(
        answer.detach().float().numpy() if answer.is_floating_point() else answer.numpy() for answer in answers
    )


def flat_forward(model: Any, spec: PlannedSpec) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """`forward` on flat tensors: the planned inputs go to their places, the planned outputs come from theirs."""
    answer = raw_forward(model, spec)

    def forward(tensors: Sequence[Any]) -> tuple[Any, ...]:
        result = answer(tensors)
        _layers_counted(model, spec, result)
        try:
            return tuple(at(one.place, result) for one in spec.outputs)
        except UnknownName as problem:
            raise CaptureFailed(f"{type(model).__name__} does not fit {spec.task or 'this spec'}: {problem}") from None

    return forward


def raw_forward(model: Any, spec: PlannedSpec) -> Callable[[Sequence[Any]], Any]:
    """`forward` on flat tensors with all that it gives; a tensor that it gives alone is the first of one."""
    import torch

    called = submodule_of(model, spec.call.submodule)
    constants = {one.name: one.value for one in spec.call.constants if _takes(called, one.name)}

    def answer(tensors: Sequence[Any]) -> Any:
        arguments = nested((one.place, tensor) for one, tensor in zip(spec.inputs, tensors, strict=True))
        built = {one.name: ARGUMENT_BUILDERS[one.by](model, arguments.get(one.name, {})) for one in spec.call.builders}
        result = called(**{**constants, **arguments, **built})
        return (result,) if isinstance(result, torch.Tensor) else result

    return answer


def _layers_counted(model: Any, spec: PlannedSpec, result: Any) -> None:
    """What is one of each layer is planned for as many layers as gave it; else CaptureFailed."""
    planned: dict[Any, list[Any]] = {}
    for one in spec.outputs:
        if one.layer is not None and len(one.place) == 2:  # noqa: PLR2004 - the field, and the place in it
            planned.setdefault(one.place[0], []).append(one.place[1])
    for field, places in planned.items():
        there = at((field,), result) if isinstance(result, Mapping) and field in result else ()
        if len(there or ()) > max(places) + 1:
            raise CaptureFailed(
                f"{type(model).__name__} gives {len(there)} {field}, and the plan has {max(places) + 1}"
            )


def tensors_for(model: Any, arrays: Mapping[str, Array]) -> tuple[Any, ...]:
    """Arrays as tensors where the model's own are, real numbers in their type."""
    import torch

    dtype = _float_dtype(model)
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    made = (torch.from_numpy(array).to(device) for array in arrays.values())
    return tuple(one.to(dtype) if one.is_floating_point() else one for one in made)


def _float_dtype(model: Any) -> Any:
    import torch

    return next((one.dtype for one in model.parameters() if one.is_floating_point()), torch.float32)


def _takes(model: Any, name: str) -> bool:
    parameters = inspect.signature(model.forward).parameters
    return name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
