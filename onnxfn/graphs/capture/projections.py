"""An LSTM with a projection, which ONNX has no operator for: a Scan over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name


def projected_layer(
    steps: Any, states: Sequence[Any], weights: Sequence[Sequence[Any]], lengths: Any = None
) -> tuple[Any, Any, Any]:
    """The outputs `[time, batch, directions * size]` and the last states of one layer.

    `steps` are `[time, batch, features]`, the first hidden and cell states `[directions, batch, size]` each. `weights`
    has torch's for each direction: of inputs, of hidden states, two biases or none, the projection. `lengths`: the
    number of steps of each sequence; None if all have all.
    """
    import torch

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
    import torch

    if lengths is None:
        return steps.flip(0)
    times = torch.arange(steps.shape[0], device=steps.device)[:, None]
    sources = torch.where(times < lengths, lengths - 1 - times, times)
    return steps.gather(0, sources[..., None].expand(steps.shape))


def _direction(steps: Any, states: tuple[Any, Any], weights: Sequence[Any], lengths: Any) -> tuple[Any, Any]:
    """The last states and the outputs of one direction. After the end of a sequence its states do not change."""
    import torch

    of_inputs, of_hidden, *biases, projection = weights
    gates = steps @ of_inputs.T + sum(biases)
    times = torch.arange(steps.shape[0], device=steps.device)[:, None]
    is_step = (times < (times.shape[0] if lengths is None else lengths)).expand(steps.shape[:2])[..., None]

    def step(state: tuple[Any, Any], of_step: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
        (hidden, cell), (gate, active) = state, of_step
        enter, keep, content, leave = (gate + hidden @ of_hidden.T).chunk(4, -1)
        next_cell = keep.sigmoid() * cell + enter.sigmoid() * content.tanh()
        projected = (leave.sigmoid() * next_cell.tanh()) @ projection.T
        next_state = torch.where(active, projected, hidden), torch.where(active, next_cell, cell)
        return next_state, projected * active

    last_states, outputs = torch_name("scan")(step, states, (gates, is_step))
    return last_states, outputs
