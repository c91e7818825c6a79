"""Longformer's attention without branches on data (modeling_longformer, modeling_led, transformers 5.23).

A sequence is split into blocks of half a window. Each block attends to itself and to its two neighbours. Tokens with
global attention are gathered. As in the original, memory is linear in the length. The results are the same.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.specs.errors import InvalidSpec


def unpadded_inputs(
    _: Any,
    input_ids: Tensor | None,
    attention_mask: Tensor,
    token_type_ids: Tensor,
    position_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    pad_token_id: int,
) -> tuple[Any, ...]:
    """For LongformerModel._pad_to_window_size, which branches on the length: `attention` pads its last block."""
    return 0, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds


def led_unpadded_inputs(
    _: Any, input_ids: Tensor | None, attention_mask: Tensor, inputs_embeds: Tensor | None, pad_token_id: int
) -> tuple[Any, ...]:
    """`unpadded_inputs` for LEDEncoder._pad_to_window_size (modeling_led), whose attention is Longformer's."""
    return 0, input_ids, attention_mask, inputs_embeds


def attention(
    self: Any,
    hidden_states: Tensor,
    attention_mask: Any = None,
    is_index_masked: Any = None,
    is_index_global_attn: Any = None,
    is_global_attn: Any = None,
    output_attentions: bool = False,
) -> tuple[Tensor]:
    """For LongformerSelfAttention.forward, which branches on `is_global_attn` and writes into slices of its tensors.

    A token attends to the tokens of its window that are neither masked nor global, and to all global tokens. The output
    of a masked token is 0. A global token attends to all tokens that are not masked, with separate projections.
    InvalidSpec for `output_attentions`.
    """
    if output_attentions:
        raise InvalidSpec("longformer is exported without its attentions; leave out output_attentions")
    indices, is_global = _global_token_indices(is_index_global_attn)
    local_output = _window_attention(self, hidden_states, attention_mask != 0, indices, is_global)
    local_output = local_output.masked_fill(is_index_masked[:, :, None], 0.0)
    global_output = _global_attention(self, hidden_states, is_index_masked, indices)
    index = _expanded_index(indices, local_output)
    rows = torch.where(is_global[:, :, None], global_output, local_output.gather(1, index))
    return (local_output.scatter(1, index, rows),)


def _global_token_indices(is_index_global: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of the global tokens of each row, `[batch, most]`, and which of them hold one; `most` is never 0."""
    most = is_index_global.sum(dim=1).max().clamp(min=1).item()
    torch_name("check")(most >= 1)
    torch_name("check")(most <= is_index_global.shape[1])
    is_global, indices = is_index_global.to(torch.int64).topk(most, dim=1)
    return indices, is_global.bool()


def _window_attention(self: Any, hidden_states: Tensor, excluded: Tensor, indices: Tensor, is_global: Tensor) -> Tensor:
    """The attention of each token to its window and to global tokens, but `excluded` ones: `[batch, length, size]`."""
    side = self.one_sided_attn_window_size
    k, v = (_split_heads(self, project(hidden_states)) for project in (self.key, self.value))
    q_blocks = _blocks(_split_heads(self, self.query(hidden_states) / self.head_dim**0.5), side)
    window_scores = q_blocks @ _neighbour_blocks(k, side).transpose(-1, -2)
    window_scores = window_scores.masked_fill(~_window_mask(excluded, side)[:, None], _lowest(window_scores))
    global_scores = q_blocks @ _gathered(k, indices)[:, :, None].transpose(-1, -2)
    global_scores = global_scores.masked_fill(~is_global[:, None, None, None, :], _lowest(global_scores))
    scores = torch.cat((global_scores, window_scores), dim=-1)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).type_as(window_scores)
    most = indices.shape[1]
    global_output = weights[..., :most] @ _gathered(v, indices)[:, :, None]
    output = global_output + weights[..., most:] @ _neighbour_blocks(v, side)
    return _merged_heads(output.flatten(2, 3)[:, :, : hidden_states.shape[1]])


def _global_attention(self: Any, hidden_states: Tensor, is_masked: Tensor, indices: Tensor) -> Tensor:
    """The attention of the tokens at `indices` to all tokens, `[batch, most, hidden]`."""
    tokens = hidden_states.gather(1, _expanded_index(indices, hidden_states))
    q = _split_heads(self, self.query_global(tokens) / self.head_dim**0.5)
    scores = q @ _split_heads(self, self.key_global(hidden_states)).transpose(-1, -2)
    scores = scores.masked_fill(is_masked[:, None, None, :], _lowest(scores))
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)
    return _merged_heads(weights @ _split_heads(self, self.value_global(hidden_states)))


def _split_heads(self: Any, states: Tensor) -> Tensor:
    """`[batch, length, heads*size]` -> `[batch, heads, length, size]`."""
    return states.unflatten(2, (self.num_heads, self.head_dim)).transpose(1, 2)


def _merged_heads(heads: Tensor) -> Tensor:
    """`[batch, heads, length, size]` -> `[batch, length, heads*size]`."""
    return heads.transpose(1, 2).flatten(2)


def _gathered(heads: Tensor, indices: Tensor) -> Tensor:
    """The tokens at these indices, `[batch, heads, most, size]`."""
    batch, most = indices.shape
    return heads.gather(2, indices[:, None, :, None].expand(batch, heads.shape[1], most, heads.shape[3]))


def _expanded_index(indices: Tensor, states: Tensor) -> Tensor:
    """`indices` as an index for gather and scatter of `[batch, length, hidden]` along the length."""
    return indices[:, :, None].expand(*indices.shape, states.shape[2])


def _blocks(heads: Tensor, side: int, *, around: int = 0) -> Tensor:
    """`[batch, heads, length, size]` -> `[batch, heads, blocks, side, size]`, with `around` zero blocks at each end."""
    # even, and so never 1, a size that torch.export treats as static
    count = (heads.shape[2] + 2 * side - 1) // (2 * side) * 2
    padding = count * side - heads.shape[2]
    return pad(heads, (0, 0, around * side, around * side + padding)).unflatten(2, (count + 2 * around, side))


def _neighbour_blocks(heads: Tensor, side: int) -> Tensor:
    """Each block with the blocks before and after it, `[batch, heads, blocks, 3*side, size]`."""
    blocks = _blocks(heads, side, around=1)
    return torch.cat((blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]), dim=3)


def _window_mask(excluded: Tensor, side: int) -> Tensor:
    """True for tokens at most `side` away that are not excluded, `[batch, blocks, side, 3*side]`."""
    included = _neighbour_blocks((~excluded).to(torch.int64)[:, None, :, None], side)[:, 0, :, None, :, 0] > 0
    queries, keys = torch.arange(side, device=excluded.device), torch.arange(3 * side, device=excluded.device)
    return included & ((queries[:, None] + side - keys[None, :]).abs() <= side)


def _lowest(scores: Tensor) -> float:
    return float(torch.finfo(scores.dtype).min)
