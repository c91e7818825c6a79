"""Functions whose trace fixes a length, such as LSTM, and packed sequences.

torch packs the steps of all sequences without padding, and reads the lengths in Python: a trace would fix them. A GRU,
an LSTM and an RNN loop over time: a trace would unroll the steps of the sample. Each is one ONNX operator; an LSTM with
a projection, which ONNX has none for, is a Scan over time.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from types import MappingProxyType, ModuleType
from typing import Any

import torch
from attrs import field, frozen

from onnxfn.architectures.patches.image_sizes import tensor_of_sizes, unit_steps
from onnxfn.architectures.patches.text import cos_sin_matrices
from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.models.patching import replaced


@frozen(eq=False)
class PackedSizes:
    """The stand-in for the `batch_sizes` of a packed sequence in a trace; `time`: the steps of the padded tensor."""

    lengths: Any
    time: Any
    longest: Any = field(repr=False)
    device: Any = field(repr=False)

    def __getitem__(self, step: int) -> Any:
        """The number of sequences, which is the first of torch's batch sizes; IndexError for the others."""
        if step != 0:
            raise IndexError(step)
        return self.lengths.shape[0]

    def size(self, axis: int = 0) -> Any:  # noqa: ARG002 - torch's own signature
        """The number of torch's batch sizes: the longest length."""
        return self.longest


def packed(steps: Any, sizes: PackedSizes) -> Any:
    """The steps of a tensor `[time, batch, ...]` without padding, one after the other."""
    return steps.flatten(0, 1).index_select(0, _is_step(steps.shape[0], sizes.lengths).flatten().nonzero().squeeze(1))


def padded(data: Any, sizes: PackedSizes, time: Any, padding: float = 0.0) -> Any:
    """The steps of packed sequences as a tensor `[time, batch, ...]`, which is `padding` after the last of each."""
    is_step = _is_step(time, sizes.lengths)
    steps = data.index_select(0, (is_step.flatten().long().cumsum(0) - 1).clamp(min=0)).unflatten(0, is_step.shape)
    return steps.where(is_step.reshape(*is_step.shape, *[1] * (data.dim() - 1)), padding)


def _pack(tensor: Any, lengths: Any, batch_first: bool) -> tuple[Any, PackedSizes]:  # noqa: FBT001 - torch's own
    """The result of `pack_padded_sequence`: the data, and the stand-in for the batch sizes."""
    steps = tensor.transpose(0, 1) if batch_first else tensor
    longest, check = lengths.max().item(), torch_name("check")
    check(longest <= steps.shape[0])
    check(longest >= 1)
    sizes = PackedSizes(lengths, steps.shape[0], longest, lengths.device)
    return packed(steps, sizes), sizes


def _pad(data: Any, sizes: PackedSizes, batch_first: bool, padding: float, time: Any) -> tuple[Any, Any]:  # noqa: FBT001
    """The result of `pad_packed_sequence`: the padded tensor, and the lengths."""
    steps = padded(data, sizes, time, padding)
    return steps.transpose(0, 1) if batch_first else steps, sizes.lengths


def _is_step(time: Any, lengths: Any) -> Any:
    """Whether a step belongs to its sequence and is not padding: `[time, batch]`."""
    return torch.arange(time, device=lengths.device)[:, None] < lengths


@frozen
class Recurrence:
    """The operator of ONNX for a recurrent function of torch; `gates`: their positions in torch's weights."""

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


def _code_of(model: Any) -> list[Any]:
    """The Python modules that define the `forward` of a model's modules, with their libraries but for large ones."""
    names = {module.forward.__module__ for module in model.modules()} & sys.modules.keys()
    libraries = {name.partition(".")[0] for name in names} - {"torch", "transformers", "onnxfn"}
    loaded = [sys.modules[each] for each in sorted(sys.modules) if {each, each.partition(".")[0]} & (names | libraries)]
    return [each for each in loaded if type(each) is ModuleType]  # others may be imported when they are asked


def _data(data: Any, tensor: Any) -> Any:
    """The `data` of a tensor; in a trace a view of it, since torch does not see what is written into `data`."""
    return data.__get__(tensor) if torch_name("proxy_mode")() is None else tensor.detach()


@contextmanager
def dynamic_lengths(model: Any) -> Iterator[None]:
    """Replaces the functions that fix a length, or pack and pad a sequence, in this thread while it lasts."""
    functions, check = torch_name("recurrent_functions"), torch.nn.RNNBase.check_forward_args

    def check_padded(layer: Any, steps: Any, hidden: Any, sizes: Any) -> None:
        if not isinstance(sizes, PackedSizes):
            check(layer, steps, hidden, sizes)

    replacements: list[tuple[Any, str, Any]] = [
        (torch.nn.RNNBase, "check_forward_args", check_padded),
        (functions, "_pack_padded_sequence", _pack),
        (functions, "_pad_packed_sequence", _pad),
        (functions, "stft", partial(_stft, functions.stft)),
        (torch, "linspace", unit_steps),
        (torch, "as_tensor", tensor_of_sizes),
        (torch, "max_pool1d", _max_pool1d),
        (torch.Tensor, "data", property(partial(_data, torch.Tensor.data))),
        # Without a matrix product: torch has one for more than 25 rows, and reads the number of rows.
        (torch, "cdist", lambda x1, x2, p=2.0, *_, f=torch.cdist, **__: f(x1, x2, p, "donot_use_mm_for_euclid_dist")),
        *((owner, "len", _length) for owner in _code_of(model)),
        *((functions, name, partial(_recurrent, each, getattr(functions, name))) for name, each in RECURRENCES.items()),
    ]
    with ExitStack() as undo:
        for replacement in replacements:
            undo.enter_context(replaced(*replacement))
        yield


@contextmanager
def symbolic_numbers(model: Any) -> Iterator[None]:
    """In the code of a model, numbers and extremes of formulas are formulas in this thread while it lasts."""

    def converted(kind: Any, formula: Callable[[Any], Any], number: Any = 0, *base: Any) -> Any:
        return formula(number) if isinstance(number, torch.SymInt | torch.SymFloat) else kind(number, *base)

    # torch.export does so with sizes alone, not with quotients of sizes.
    original = torch_name("tensor_min_max")

    def least_or_largest(*numbers: Any, tensor_callable: Any, **named: Any) -> Any:
        if len(numbers) == 2 and any(isinstance(each, torch.SymFloat) for each in numbers):  # noqa: PLR2004
            return (torch.sym_max if tensor_callable is torch.maximum else torch.sym_min)(*numbers)
        return original(*numbers, tensor_callable=tensor_callable, **named)

    with ExitStack() as undo:
        undo.enter_context(replaced(torch_name("builtin_min_max"), "_tensor_min_max", least_or_largest))
        for owner, (kind, formula) in product(_code_of(model), {int: torch.sym_int, float: torch.sym_float}.items()):
            undo.enter_context(replaced(owner, kind.__name__, partial(converted, kind, formula)))
        yield


def _length(items: Any) -> Any:
    """For len: the size of the first axis of a tensor. The original returns an int, so a trace fixes the size."""
    return items.shape[0] if hasattr(items, "shape") else len(items)


def _stft(original: Callable[..., Any], signal: Any, count: int, *settings: Any) -> Any:
    """The spectra of a signal by products with cosines and sines, as ONNX Runtime's are inexact but for powers of 2."""
    hop, length, window, is_normalized, is_half, is_complex, *_ = settings
    if count.bit_count() == 1 or is_half is False:
        return original(signal, count, *settings)
    window = signal.new_ones(length or count) if window is None else window
    before = (count - window.shape[0]) // 2
    centered = torch.nn.functional.pad(window, (before, count - window.shape[0] - before))
    frames = signal.unfold(-1, count, hop or count // 4) * (centered / count**0.5 if is_normalized else centered)
    cosines, sines = ((frames @ waves[:, : count // 2 + 1]).mT for waves in cos_sin_matrices(count, frames))
    return torch.complex(cosines, -sines) if is_complex else torch.stack((cosines, -sines), dim=-1)


def _recurrent(recurrence: Recurrence, original: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a recurrent function, of tensors or of a packed sequence."""
    steps, second, *others = arguments
    if isinstance(second, PackedSizes):
        states, weights, _, layers, _, _, bidirectional = others
        time_first = padded(steps, second, second.time)
        outputs, *finals = _layers(recurrence, time_first, states, weights, (layers, 1 + bidirectional), second.lengths)
        return packed(outputs, second), *finals
    weights, _, layers, _, _, bidirectional, *batch_first = others
    if not batch_first:
        return original(*arguments)  # a packed sequence that was packed before the trace
    time_first = steps.transpose(0, 1) if batch_first[0] else steps
    outputs, *finals = _layers(recurrence, time_first, second, weights, (layers, 1 + bidirectional))
    return outputs.transpose(0, 1) if batch_first[0] else outputs, *finals


def _layers(
    recurrence: Recurrence, steps: Any, states: Any, weights: Sequence[Any], layout: Sequence[int], lengths: Any = None
) -> tuple[Any, ...]:
    """The outputs of the last layer and the last states of all; an odd number of weights has a projection."""
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
    directions, (batch, size) = len(weights), states[0].shape[1:]
    inner, recurrent, *biases = (
        [_in_onnx_order(recurrence, tensor) for tensor in tensors] for tensors in zip(*weights, strict=True)
    )
    bias = torch.stack([torch.cat(both) for both in zip(*biases, strict=True)]) if biases else None
    counts = None if lengths is None else lengths.to(torch.int32)
    direction = "bidirectional" if directions > 1 else "forward"
    activations = {"activations": [recurrence.activation] * directions} if recurrence.activation else {}
    outputs, *last_states = torch.onnx.ops.symbolic_multi_out(
        recurrence.operator,
        (steps, torch.stack(inner), torch.stack(recurrent), bias, counts, *states),
        {"hidden_size": size, "direction": direction, **activations, **dict(recurrence.attributes)},
        dtypes=[steps.dtype] * (1 + len(states)),
        shapes=[(steps.shape[0], directions, batch, size), *[(directions, batch, size)] * len(states)],
    )
    return (outputs.squeeze(1) if directions == 1 else outputs.transpose(1, 2).flatten(2)), *last_states


def _max_pool1d(
    input: Any,  # noqa: A002 - torch's own name
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,  # noqa: FBT001, FBT002 - torch's own signature
) -> Any:
    """The largest number in each window, as pooling of images of height 1; torch's CPU function reads the length."""
    sizes = zip((1, 1, 0, 1), (kernel_size, stride or kernel_size, padding, dilation), strict=True)
    pairs = ((height, size[0] if isinstance(size, (tuple, list)) else size) for height, size in sizes)
    return torch.max_pool2d(input.unsqueeze(-2), *pairs, ceil_mode).squeeze(-2)


def _in_onnx_order(recurrence: Recurrence, weight: Any) -> Any:
    """A weight or bias with the gates in ONNX's order."""
    if len(recurrence.gates) == 1:
        return weight
    gates = weight.chunk(len(recurrence.gates))
    return torch.cat([gates[position] for position in recurrence.gates])


def projected_layer(
    steps: Any, states: Sequence[Any], weights: Sequence[Sequence[Any]], lengths: Any = None
) -> tuple[Any, Any, Any]:
    """The outputs `[time, batch, directions * size]` and the last states of one layer.

    `steps` are `[time, batch, features]`, the hidden and cell states `[directions, batch, size]` each. `weights` has
    torch's for each direction: of inputs, of hidden states, two biases or none, the projection.
    """
    outputs, hidden, cells = [], [], []
    for direction, of_direction in enumerate(weights):
        ordered = reversed_steps(steps, lengths) if direction else steps
        first = tuple(state[direction] for state in states)
        (last_hidden, last_cell), projected = _direction(ordered, first, of_direction, lengths)
        outputs.append(reversed_steps(projected, lengths) if direction else projected)
        hidden.append(last_hidden)
        cells.append(last_cell)
    return torch.cat(outputs, -1), torch.stack(hidden), torch.stack(cells)


def reversed_steps(steps: Any, lengths: Any = None) -> Any:
    """The steps of each sequence from its last to its first; padding stays where it is."""
    if lengths is None:
        return steps.flip(0)
    times = torch.arange(steps.shape[0], device=steps.device)[:, None]
    return steps.gather(0, torch.where(times < lengths, lengths - 1 - times, times)[..., None].expand(steps.shape))


def _direction(steps: Any, states: tuple[Any, Any], weights: Sequence[Any], lengths: Any) -> tuple[Any, Any]:
    """The last states and the outputs of one direction. After the end of a sequence its states do not change."""
    of_inputs, of_hidden, *biases, projection = weights
    gates = steps @ of_inputs.T + sum(biases)
    times = torch.arange(steps.shape[0], device=steps.device)[:, None]
    is_step = (times < (times.shape[0] if lengths is None else lengths)).expand(steps.shape[:2])[..., None]

    def step(state: tuple[Any, Any], of_step: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
        (hidden, cell), (gate, active) = state, of_step
        enter, keep, content, leave = (gate + hidden @ of_hidden.T).chunk(4, -1)
        next_cell = keep.sigmoid() * cell + enter.sigmoid() * content.tanh()
        projected = (leave.sigmoid() * next_cell.tanh()) @ projection.T
        return (torch.where(active, projected, hidden), torch.where(active, next_cell, cell)), projected * active

    last_states, outputs = torch_name("scan")(step, states, (gates, is_step))
    return last_states, outputs
