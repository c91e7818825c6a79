"""Canine without loops over the text (modeling_canine, transformers 5.23). The results are the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def attention(
    self: Any,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    output_attentions: bool = False,  # noqa: FBT001, FBT002 - the original's signature
) -> tuple[Any, ...]:
    """For CanineAttention.forward, whose local attention loops over chunks. Here a mask separates the chunks.

    The model configures its local layers so that a character attends to its own chunk only. Memory grows with the
    square of the length, as it does in the original's last layer, which is not local.
    """
    mask = _chunk_mask(attention_mask, self.attend_from_chunk_stride) if self.local else attention_mask
    outputs = self.self(hidden_states, hidden_states, mask, output_attentions)
    return (self.output(outputs[0], hidden_states), *outputs[1:])


def downsampled_mask(_: Any, char_attention_mask: Tensor, downsampling_rate: int) -> Tensor:
    """For CanineModel._downsample_attention_mask: a molecule is unmasked if one of its characters is.

    The original uses `max_pool1d`, in which torch.export fixes the length. `max_pool2d` keeps it dynamic.
    """
    from torch.nn.functional import max_pool2d

    mask = char_attention_mask[:, None, None, :].float()
    return max_pool2d(mask, (1, downsampling_rate))[:, 0, 0]


def repeated_molecules(self: Any, molecules: Tensor, char_seq_length: int) -> Tensor:
    """For CanineModel._repeat_molecules: repeats each molecule per character, and the last one for the remainder.

    The original's number of repetitions of the last molecule depends on the length. Here each character gathers its
    molecule.
    """
    indices = torch.arange(char_seq_length, device=molecules.device) // self.config.downsampling_rate + 1
    return molecules[:, indices.clamp(max=molecules.shape[1] - 1)]


def _chunk_mask(mask: Any, stride: int) -> Tensor:
    """The mask `[batch, from, to]` of 1 and 0, with minus infinity between characters of different chunks.

    CanineSelfAttention adds `(1 - mask) * lowest value`. A chunk of padding only attends to itself evenly, as in the
    original.
    """
    chunks = torch.arange(mask.shape[1], device=mask.device) // stride
    return mask.masked_fill(chunks[:, None] != chunks, -torch.inf)
