"""Canine without loops over the text: the same numbers in operations that torch.export can follow.

The originals are in transformers/models/canine/modeling_canine.py (5.23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def attention(
    self: Any,
    hidden_states: Tensor,
    attention_mask: Tensor,
    output_attentions: bool = False,  # noqa: FBT001, FBT002 - the original's signature
) -> tuple[Any, ...]:
    """For CanineAttention.forward, which attends chunk by chunk when it is local: here all at once, under a mask.

    The model makes its local layers so that a character sees its own chunk and nothing else. Memory grows with the
    square of the length, as it does in the original's last layer, which is not local.
    """
    seen = _within_chunks(attention_mask, self.attend_from_chunk_stride) if self.local else attention_mask
    outputs = self.self(hidden_states, hidden_states, seen, output_attentions)
    return (self.output(outputs[0], hidden_states), *outputs[1:])


def downsampled_mask(_: Any, char_attention_mask: Tensor, downsampling_rate: int) -> Tensor:
    """For CanineModel._downsample_attention_mask: a molecule is seen when one of its characters is.

    The original pools along one axis, and torch fixes the length in `max_pool1d`; along two it does not.
    """
    from torch.nn.functional import max_pool2d

    mask = char_attention_mask[:, None, None, :].float()
    return max_pool2d(mask, (1, downsampling_rate))[:, 0, 0]


def repeated_molecules(self: Any, molecules: Tensor, char_seq_length: int) -> Tensor:
    """For CanineModel._repeat_molecules: each molecule stands for as many characters, the last for what remains.

    The original repeats the last one a number of times that depends on the length; here each character takes its own.
    """
    import torch

    places = torch.arange(char_seq_length, device=molecules.device) // self.config.downsampling_rate + 1
    return molecules[:, places.clamp(max=molecules.shape[1] - 1)]


def _within_chunks(mask: Tensor, stride: int) -> Tensor:
    """A mask `batch from to` of 1 and 0 that hides all other chunks too, more deeply: by minus infinity.

    CanineSelfAttention adds `(1 - mask) * lowest`. A chunk of nothing but padding attends to itself evenly, as before.
    """
    import torch

    chunks = torch.arange(mask.shape[1], device=mask.device) // stride
    return mask.masked_fill(chunks[:, None] != chunks, -torch.inf)
