"""The tensors that the modules of a PyTorch model take and return while it runs, in the order of the run."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

from attrs import frozen

from onnxfn.models.casting import cast_on_use
from onnxfn.models.forward import flat_forward, tensors_for
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.torch_modes import quiet
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part


@frozen(eq=False)
class RecordedTensor:
    """A floating-point tensor that a module takes or returns, as float32 or float64. The model's own path is empty.

    `computed_by`: the path of the module with the code that computes the tensor: it returns the tensor, or passes it to
    another module. `call`: the number of the call of the module, counted over the run. `is_of_leaf`: the module has no
    modules inside it. `output`: the name of the planned output that the tensor is; empty for the tensors of modules.
    """

    module: str
    computed_by: str
    call: int
    is_result: bool
    is_of_leaf: bool
    output: str
    array: Array


def recorded_tensors(
    model: Any, part: Part, arrays: Mapping[str, Array], dtype: Any = None
) -> tuple[RecordedTensor, ...]:
    """The tensors of all modules in one run of a part, in a torch dtype or its own, then its planned outputs."""
    import torch

    recorded: list[RecordedTensor] = []
    running = [("", 0)]
    calls = count(1)

    def record(path: str, module: Any, computed_by: str, values: Any, *, is_result: bool) -> None:
        call, is_of_leaf = running[-1][1], not module._modules
        tensors = [RecordedTensor(path, computed_by, call, is_result, is_of_leaf, "", each) for each in _arrays(values)]
        recorded.extend(tensors)

    def enter(path: str, module: Any, arguments: Any, named: Any) -> None:
        caller, _ = running[-1]
        running.append((path, next(calls)))
        record(path, module, caller, (arguments, named), is_result=False)

    def leave(path: str, module: Any, _: Any, result: Any) -> None:
        record(path, module, path, result, is_result=True)
        running.pop()

    with quiet(), unchanged_eval(model, part.spec.call.attention), cast_on_use(model, dtype), ExitStack() as hooks:
        for path, module in model.named_modules():
            hooks.callback(module.register_forward_pre_hook(partial(enter, path), with_kwargs=True).remove)
            hooks.callback(module.register_forward_hook(partial(leave, path)).remove)
        with torch.no_grad():
            outputs = flat_forward(model, part.spec)(tensors_for(model, part.spec, arrays, dtype))
    # A tensor whose elements are all equal is left out: tensors of a graph may equal it by chance.
    inner = [tensor for tensor in recorded if tensor.array.size and (tensor.array != tensor.array.flat[0]).any()]
    planned = (
        RecordedTensor("", "", 0, True, False, output.name, array)
        for output, tensor in zip(part.spec.outputs, outputs, strict=True)
        for array in _arrays(tensor)
    )
    return (*inner, *planned)


def _arrays(value: Any) -> list[Array]:
    """The tensors of real numbers in a value, each as an array of its own."""
    detached = (tensor.detach().cpu() for tensor in real_tensors(value))
    return [(each if each.itemsize == 8 else each.float()).numpy().copy() for each in detached]  # noqa: PLR2004 - float64


def real_tensors(value: Any) -> Iterator[Any]:
    """The tensors of real numbers in the arguments or the result of a module."""
    import torch

    if isinstance(value, torch.Tensor) and value.is_floating_point():
        yield value
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    for item in items:
        yield from real_tensors(item)
