"""Functions of torch whose trace fixes the length of a sequence, and what stands for them while a model is traced.

A GRU, an LSTM and an RNN loop over time, so that a trace unrolls the steps of the sample: each is an operator of ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.capture.packed_sequences import PackedSizes, packed, packed_by_lengths, padded
from onnxfn.graphs.capture.projections import projected_layer
from onnxfn.models.patching import replaced


@frozen
class Recurrence:
    """How ONNX has a recurrent function of torch.

    Attributes:
        operator: The operator of ONNX.
        gates: The position in torch's weights of each gate, in the order of ONNX.
        attributes: Attributes of the operator.
        activation: The activation of each direction, if the operator has it as an attribute.
    """

    operator: str
    gates: tuple[int, ...]
    attributes: tuple[tuple[str, int], ...] = ()
    activation: str = ""


RECURRENCES: Mapping[str, Recurrence] = MappingProxyType(
    {
        "gru": Recurrence("GRU", (1, 0, 2), (("linear_before_reset", 1),)),
        "lstm": Recurrence("LSTM", (0, 3, 1, 2)),
        "rnn_tanh": Recurrence("RNN", (0,), activation="Tanh"),
        "rnn_relu": Recurrence("RNN", (0,), activation="Relu"),
    }
)
"""Function of torch -> its operator of ONNX."""


@contextmanager
def dynamic_lengths() -> Iterator[None]:
    """Replaces the functions that fix the length of a sequence, in this thread while it lasts."""
    import torch

    with ExitStack() as undo:
        functions = torch_name("recurrent_functions")
        undo.enter_context(packed_by_lengths())
        undo.enter_context(replaced(torch, "max_pool1d", _max_pool1d))
        undo.enter_context(replaced(torch, "cdist", partial(_cdist, torch.cdist)))
        for name, recurrence in RECURRENCES.items():
            function = partial(_recurrent, recurrence, getattr(functions, name))
            undo.enter_context(replaced(functions, name, function))
        yield


def _recurrent(recurrence: Recurrence, original: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a recurrent function, of tensors or of a packed sequence."""
    steps, second, *others = arguments
    if isinstance(second, PackedSizes):
        states, weights, _, layers, _, _, bidirectional = others
        time_first = padded(steps, second, second.time)
        layout = layers, 2 if bidirectional else 1
        outputs, *finals = _layers(recurrence, time_first, states, weights, layout, second.lengths)
        return packed(outputs, second), *finals
    weights, _, layers, _, _, bidirectional, *batch_first = others
    if not batch_first:
        return original(*arguments)  # a packed sequence that was packed before the trace
    layout = layers, 2 if bidirectional else 1
    time_first = steps.transpose(0, 1) if batch_first[0] else steps
    outputs, *finals = _layers(recurrence, time_first, second, weights, layout)
    return outputs.transpose(0, 1) if batch_first[0] else outputs, *finals


def _layers(
    recurrence: Recurrence,
    steps: Any,
    states: Any,
    weights: Sequence[Any],
    layout: tuple[int, int],
    lengths: Any = None,
) -> tuple[Any, ...]:
    """The outputs `[time, batch, directions * size]` of the last layer, and the last states of all layers.

    `layout` is the number of layers and that of directions. An odd number of weights has a projection among them.
    """
    import torch

    layers, directions = layout
    every_state = (states,) if isinstance(states, torch.Tensor) else tuple(states)
    kinds = len(weights) // (layers * directions)
    one_layer = projected_layer if kinds % 2 else partial(_layer, recurrence)
    finals = []
    for layer in range(layers):
        rows = slice(layer * directions, (layer + 1) * directions)
        of_layer = weights[rows.start * kinds : rows.stop * kinds]
        by_direction = [of_layer[start : start + kinds] for start in range(0, len(of_layer), kinds)]
        steps, *last_states = one_layer(steps, [state[rows] for state in every_state], by_direction, lengths)
        finals.append(last_states)
    return steps, *(torch.cat(of_layers) for of_layers in zip(*finals, strict=True))


def _layer(
    recurrence: Recurrence, steps: Any, states: Sequence[Any], weights: Sequence[Sequence[Any]], lengths: Any = None
) -> tuple[Any, ...]:
    """The outputs `[time, batch, directions * size]` and the last states of one layer."""
    import torch

    directions, (batch, size) = len(weights), states[0].shape[1:]
    inner, recurrent, *biases = (
        [_in_onnx_order(recurrence, tensor) for tensor in tensors] for tensors in zip(*weights, strict=True)
    )
    bias = torch.stack([torch.cat(both) for both in zip(*biases, strict=True)]) if biases else None
    counts = None if lengths is None else lengths.to(torch.int32)
    outputs, *last_states = torch.onnx.ops.symbolic_multi_out(
        recurrence.operator,
        (steps, torch.stack(inner), torch.stack(recurrent), bias, counts, *states),
        _attributes(recurrence, size, directions),
        dtypes=[steps.dtype] * (1 + len(states)),
        shapes=[(steps.shape[0], directions, batch, size), *[(directions, batch, size)] * len(states)],
    )
    joined = outputs.squeeze(1) if directions == 1 else outputs.transpose(1, 2).flatten(2)
    return joined, *last_states


def _attributes(recurrence: Recurrence, size: int, directions: int) -> dict[str, Any]:
    direction = {"direction": "bidirectional"} if directions > 1 else {}
    activations = {"activations": [recurrence.activation] * directions} if recurrence.activation else {}
    return {"hidden_size": size, **direction, **activations, **dict(recurrence.attributes)}


def _max_pool1d(
    input: Any,  # noqa: A002 - torch's own name
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,  # noqa: FBT001, FBT002 - torch's own signature
) -> Any:
    """The largest number in each window, as pooling of images of height 1; torch's CPU function reads the length."""
    import torch

    def pair(size: Any, height: int) -> tuple[int, int]:
        return height, size[0] if isinstance(size, (tuple, list)) else size

    steps = pair(stride, 1) if stride else pair(kernel_size, 1)
    sizes = pair(kernel_size, 1), steps, pair(padding, 0), pair(dilation, 1)
    return torch.max_pool2d(input.unsqueeze(-2), *sizes, ceil_mode).squeeze(-2)


def _cdist(original: Callable[..., Any], x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Any:  # noqa: ARG001
    """The distances of rows without a matrix product; torch reads the number of rows, and has one for more than 25."""
    return original(x1, x2, p, "donot_use_mm_for_euclid_dist")


def _in_onnx_order(recurrence: Recurrence, weight: Any) -> Any:
    """A weight or bias with the gates in ONNX's order."""
    import torch

    if len(recurrence.gates) == 1:
        return weight
    gates = weight.chunk(len(recurrence.gates))
    return torch.cat([gates[position] for position in recurrence.gates])
