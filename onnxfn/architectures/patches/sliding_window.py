"""The cache layer of attention with a sliding window, for any length of the text."""

from __future__ import annotations

from typing import Any


def updated_states(self: Any, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    """All keys and values; the layer stores the last of them, as many as its window has room for.

    transformers cuts them with a negative start, which torch resolves by a branch on the length.
    """
    import torch

    if not self.is_initialized:
        self.lazy_initialization(key_states, value_states)
    self.cumulative_length += key_states.shape[-2]
    keys = torch.cat([self.keys, key_states], dim=-2)
    values = torch.cat([self.values, value_states], dim=-2)
    room = self.sliding_window - 1
    self.keys, self.values = (keys, values) if self.record_past else (_last(keys, room), _last(values, room))
    return keys, values


def _last(states: Any, most: int) -> Any:
    """The last tokens of states, at most so many."""
    import torch

    length = states.shape[-2]
    positions = torch.arange(torch.sym_max(length - most, 0), length, device=states.device)
    return states.index_select(-2, positions)
