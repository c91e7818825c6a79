"""The calls of torch while a model runs: they show whether layers that are not traced compute what the traced ones do.

A layer may ask for its index, or the model may treat one layer differently. The first layers, which are traced, do not
show that. So the model runs with all its layers, and with the traced ones alone. The calls of the long run must be
those of the short one, with the second period of the layers repeated.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from attrs import evolve, field, frozen

from onnxfn.architectures.patches.table import patches_of
from onnxfn.architectures.private.torch_names import NAMES, torch_name
from onnxfn.graphs.capture.forward import raw_forward, tensors_for
from onnxfn.graphs.capture.meta_tensors import CHANGES_ARGUMENT, PLAIN, TorchCall, leaves, meta_call
from onnxfn.graphs.capture.model_state import unchanged_eval, with_attention
from onnxfn.graphs.capture.patching import applied
from onnxfn.graphs.capture.quiet import quiet
from onnxfn.graphs.capture.repeated_layers import LayerStack, truncated
from onnxfn.specs.dummies import dummies
from onnxfn.specs.errors import LayersDiffer, first_line, root_cause
from onnxfn.specs.planned import Part
from onnxfn.specs.records import Patch
from onnxfn.specs.reports import Tick, no_tick

FIRST_STEP_OF_SCAN = Patch(
    NAMES["scan"],
    "onnxfn.graphs.capture.layer_calls:first_step",
    why="torch compiles the step of a scan before it calls it, and the calls of one step are all that is needed",
)
"""Another patch of a model whose calls are recorded."""

OF_SIZES = re.compile(r"\b(sizes?|shapes?|channels|dimensions?)\b", re.IGNORECASE)
"""A word in the messages of torch for sizes that do not fit."""


@frozen
class Layer:
    """A layer of a stack.

    Attributes:
        stack: The path of the stack.
        index: The index of the layer in the stack.
    """

    stack: str
    index: int


@frozen
class Stored:
    """A tensor that depends on the parameters of no layer: an input, a constant, a mask; or a parameter itself.

    Attributes:
        name: What it is, or a hash of how it is computed. The index of a layer in it is 0.
        layer: The layer that it belongs to; None if it belongs to none.
        is_parameter: Whether it is a parameter or buffer of the model.
    """

    name: str
    layer: Layer | None = None
    is_parameter: bool = False


@frozen
class Computed:
    """A tensor that depends on the parameters of a layer.

    Attributes:
        call: The index of the call.
        output: The index of the tensor among those that the call returned.
    """

    call: int
    output: int


@frozen
class Call:
    """A call of a function of torch that depends on the parameters of a layer.

    Attributes:
        function: The name of the function.
        arguments: The tensors among its arguments, and all other values as text.
    """

    function: str
    arguments: tuple[Any, ...] = field(converter=tuple)


@frozen
class Expected:
    """A call that the run of all layers should have.

    Attributes:
        call: The index of the same call in the run of the traced layers.
        shifts: How many layers later the layers that it reads are here, by the path of their stack; 0 if not named.
    """

    call: int
    shifts: Mapping[str, int]


@frozen
class RunTensors:
    """The tensors that a model runs with while its calls are recorded.

    Attributes:
        converted: Function from an input to what takes its place.
        torch_call: How a function of torch is called.
        mode: The mode of torch in which the model runs.
    """

    converted: Callable[[Any], Any]
    torch_call: TorchCall
    mode: AbstractContextManager[Any]


def prove_calls(
    model: Any,
    part: Part,
    traced_part: Part,
    stacks: Sequence[LayerStack],
    cache_stack: LayerStack,
    tick: Tick = no_tick,
) -> None:
    """Compares the calls of torch in a run of all layers with those in a run of the traced layers alone.

    Inputs that belong to layers, such as a cache, belong to those of `cache_stack`. `tick` is called for each call.

    Raises LayersDiffer if a layer that is not traced does not call the same functions with the same arguments as the
    layer that stands for it, or if the model cannot run. The message names the first function that differs.
    """
    with truncated(model, stacks):  # first, as it tells in less time with which tensors the model runs
        kind, traced_calls = _calls(model, traced_part, stacks, cache_stack, tick, which="without some of its layers")
    _, calls = _calls(model, part, stacks, cache_stack, tick, kind, which="with all of its layers")
    expected, repeated = _expected_calls(traced_calls, stacks)
    for index, (call, row) in enumerate(zip(calls, expected, strict=False)):
        tick()
        if not _same_call(index, call, traced_calls[row.call], expected, repeated):
            raise LayersDiffer(f"{call.function} is called in another way in a layer that is not traced")
    if len(calls) != len(expected):
        raise LayersDiffer(f"all layers call {len(calls)} functions of torch; {len(expected)} were expected")


# The calls of a run


def _calls(
    model: Any,
    part: Part,
    stacks: Sequence[LayerStack],
    cache_stack: LayerStack,
    tick: Tick,
    first_kind: int = 0,
    *,
    which: str,
) -> tuple[int, list[Call]]:
    """The kind of the tensors with which a part runs on dummy inputs, as a number, and the calls in that run.

    0: The tensors have shapes and no values. 1: Some models need fake tensors, which take longer. 2: A model that
    branches on values runs with real ones; one whose sizes do not fit is not run with them. Kinds before `first_kind`
    are not tried. Raises LayersDiffer if the model cannot run; `which` says with which of its layers it was asked to.
    """
    inputs, parameters = tensors_for(model, part.spec, dummies(part.spec, {})), _parameters(model, stacks)
    mode = torch_name("FakeTensorMode")(allow_non_fake_inputs=True)
    meta = RunTensors(lambda tensor: tensor.to("meta"), meta_call(parameters, inputs[0].device), nullcontext())
    fake = RunTensors(mode.from_tensor, _plain_call, mode)
    real = RunTensors(lambda tensor: tensor, _plain_call, nullcontext())

    def run(kind: RunTensors) -> list[Call]:
        calls: list[Call] = []
        with kind.mode, unchanged_eval(model), with_attention(model, part.spec.call.attention):
            tensors = [*map(kind.converted, inputs)]
            with _recorded(calls, parameters | _inputs(part, tensors, cache_stack), _ticking(kind.torch_call, tick)):
                raw_forward(model, part.spec)(tensors)
        return calls

    with quiet(), _as_in_a_trace(model, part):
        errors: list[str] = []
        for number, kind in [*enumerate((meta, fake, real))][first_kind:]:
            try:
                return number, run(kind)
            except Exception as error:  # noqa: BLE001 - a branch on values raises an error of any type
                errors.append(first_line(root_cause(error)))
                if kind is fake and _is_of_sizes(root_cause(error)):
                    break  # with values, which take long, the sizes are the same
        raise LayersDiffer(f"{which} the model does not run on dummy inputs ({errors[-1]})")


def _is_of_sizes(error: BaseException) -> bool:
    """Whether torch refused the sizes of tensors; an error for values that are missing has a type of its own."""
    return type(error) in (RuntimeError, IndexError) and OF_SIZES.search(str(error)) is not None


def _ticking(torch_call: TorchCall, tick: Tick) -> TorchCall:
    """A function that calls `tick`, then `torch_call`."""

    def call(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        tick()
        return torch_call(function, arguments, named)

    return call


def _plain_call(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    return function(*arguments, **named)


@contextmanager
def _as_in_a_trace(model: Any, part: Part) -> Iterator[None]:
    """The model takes the branches that it takes while torch.export traces it; random numbers are not used up."""
    import torch

    patches = applied((*patches_of(model, part.spec.call), FIRST_STEP_OF_SCAN))
    branches, random_numbers = torch_name("compiling")(), torch.random.fork_rng(devices=[])
    with patches, torch.no_grad(), branches, random_numbers:
        yield


def first_step(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, inputs: Sequence[Any]) -> tuple[Any, Any]:
    """In place of torch's `scan`: the state after the first step, and its output as that of all steps."""
    steps = inputs[0].shape[0]
    new_state, output = step(state, [tensor[0] for tensor in inputs])
    return new_state, output.unsqueeze(0).expand(steps, *output.shape)


def _parameters(model: Any, stacks: Sequence[LayerStack]) -> dict[int, Stored]:
    """The parameters and buffers of a model, by their `id`."""
    tensors = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    return {id(tensor): _parameter(name, stacks) for name, tensor in tensors}


def _parameter(name: str, stacks: Sequence[LayerStack]) -> Stored:
    for stack in stacks:
        layer = stack.layer_index(name)
        if layer is not None:
            return Stored(stack.shifted(name, -layer), Layer(stack.path, layer), is_parameter=True)
    return Stored(name, is_parameter=True)


def _inputs(part: Part, tensors: Sequence[Any], cache_stack: LayerStack) -> dict[int, Stored]:
    """The inputs of a part, by their `id`. Those of a layer are told by their shapes, the others by their names."""
    return {
        id(tensor): Stored(input_.name)
        if input_.layer is None
        else Stored(_tensor_type(tensor), Layer(cache_stack.path, input_.layer))
        for input_, tensor in zip(part.spec.inputs, tensors, strict=True)
    }


@contextmanager
def _recorded(calls: list[Call], stored: Mapping[int, Stored], torch_call: TorchCall) -> Iterator[None]:
    """Appends to `calls` the calls of torch in this thread that depend on the parameters of a layer.

    A dropout that returns its argument as it is computes nothing, and is left out: its rate may differ by layer.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils.weak import WeakTensorKeyDictionary

    sources = WeakTensorKeyDictionary()

    def source(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return _text(value)
        return sources.get(value) or stored.get(id(value)) or Stored(_tensor_type(value))

    def record(_: Any, function: Callable[..., Any], __: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        result = torch_call(function, arguments, named)
        name = getattr(function, "__name__", "a function")
        changed = arguments[:1] if result is None else ()  # x[0] = y returns nothing and changes x
        tensors = [value for value in leaves([result, changed]) if isinstance(value, torch.Tensor)]
        values = leaves([arguments, named]) if tensors else []
        unchanged = set[int]() if CHANGES_ARGUMENT.fullmatch(name) else {*map(id, values)}
        new = [id(tensor) not in unchanged for tensor in tensors]
        if any(new) or (tensors and "dropout" not in name):
            results = zip(tensors, new, _results(calls, Call(name, map(source, values)), len(tensors)), strict=True)
            sources.update({tensor: result for tensor, is_new, result in results if is_new})
        return result

    mode = TorchFunctionMode()
    mode.__torch_function__ = types.MethodType(record, mode)
    with mode:
        yield


def _results(calls: list[Call], call: Call, count: int) -> list[Any]:
    """The tensors that a call returns. The call is appended to `calls` if it depends on the parameters of a layer."""
    stored = [value for value in call.arguments if isinstance(value, Stored)]
    layers = {value.layer for value in stored if value.layer is not None}
    computed = any(isinstance(value, Computed) for value in call.arguments)
    if computed or any(value.is_parameter and value.layer is not None for value in stored):
        calls.append(call)
        return [Computed(len(calls) - 1, output) for output in range(count)]
    layer = layers.pop() if len(layers) == 1 else None
    if layer is not None:
        call = Call(call.function, tuple(map(_without_layer, call.arguments)))
    return [Stored(f"{call.function} {hash(call)} {output}", layer) for output in range(count)]


def _without_layer(value: Any) -> Any:
    return evolve(value, layer=None) if isinstance(value, Stored) else value


def _tensor_type(tensor: Any) -> str:
    return f"{tensor.dtype}{[*tensor.shape]}"


def _text(value: Any) -> str:
    """An argument that is no tensor: a number, a name, a dtype. Other objects are their type."""
    import torch

    plain = isinstance(value, (*PLAIN, torch.dtype, torch.device, torch.memory_format))
    return repr(value) if plain else type(value).__qualname__


# The comparison of two runs


def _expected_calls(traced: Sequence[Call], stacks: Sequence[LayerStack]) -> tuple[list[Expected], set[int]]:
    """The calls that a run of all layers should have, and the indices of the traced calls in the two periods.

    They are the traced calls, with the second period of each stack repeated for the layers that are not traced.
    """
    starts = [(start, stack) for stack in stacks if (start := _period_starts(traced, stack))]
    expected: list[Expected] = []
    repeated: set[int] = set()
    end, shifts = 0, dict[str, int]()
    for (first, second, next_end), stack in sorted(starts, key=lambda pair: pair[0]):
        expected.extend(Expected(call, shifts) for call in range(end, next_end))
        end, added = next_end, stack.layers - stack.traced_layers
        for shift in range(stack.period, added + 1, stack.period):
            expected.extend(Expected(call, {**shifts, stack.path: shift}) for call in range(second, end))
        shifts = {**shifts, stack.path: added}
        repeated.update(range(first, end))
    expected.extend(Expected(call, shifts) for call in range(end, len(traced)))
    return expected, repeated


def _period_starts(traced: Sequence[Call], stack: LayerStack) -> tuple[int, int, int] | None:
    """Where the two periods and the layers after them begin: at the first call that reads a parameter of their layers.

    None if no call reads the stack. Raises LayersDiffer if one of these layers is not read.
    """
    first_reads: dict[int, int] = {}
    for index, call in enumerate(traced):
        for value in call.arguments:
            if isinstance(value, Stored) and value.is_parameter and value.layer and value.layer.stack == stack.path:
                first_reads.setdefault(value.layer.index, index)
    try:
        first, second, end = (first_reads[stack.head + period * stack.period] for period in range(3))
    except KeyError:
        if not first_reads:
            return None
        raise LayersDiffer(f"{stack.path}: a layer is not called") from None
    return first, second, end


def _same_call(index: int, call: Call, traced: Call, expected: Sequence[Expected], repeated: set[int]) -> bool:
    """Whether call number `index` of the run of all layers is the traced call that stands for it, shifted."""
    return (
        call.function == traced.function
        and len(call.arguments) == len(traced.arguments)
        and all(
            _corresponds(index, value, other, expected, repeated)
            for value, other in zip(call.arguments, traced.arguments, strict=True)
        )
    )


def _corresponds(index: int, value: Any, other: Any, expected: Sequence[Expected], repeated: set[int]) -> bool:
    """Whether an argument of call number `index` is the argument of the traced call, shifted by a number of layers."""
    row = expected[index]
    if isinstance(value, Computed) and isinstance(other, Computed):
        same_distance = index - value.call == row.call - other.call
        same_call = other.call not in repeated and expected[value.call].call == other.call
        return value.output == other.output and (same_distance or same_call)
    if isinstance(value, Stored) and value.layer is not None:
        index_of_layer = value.layer.index - row.shifts.get(value.layer.stack, 0)
        return bool(evolve(value, layer=evolve(value.layer, index=index_of_layer)) == other)
    return bool(value == other)
