"""Longformer without branches on data: the same numbers in operations that torch.export can follow.

The originals are in transformers/models/longformer/modeling_longformer.py (5.23). A sequence is looked at in blocks of
half a window, each against itself and its two neighbours; tokens with global attention are gathered to the front.
Memory is linear in the length, as it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnxfn.specs.errors import InvalidSpec

if TYPE_CHECKING:
    from torch import Tensor


def unpadded_inputs(
    _: Any,
    input_ids: Tensor | None,
    attention_mask: Tensor,
    token_type_ids: Tensor,
    position_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    pad_token_id: int,  # noqa: ARG001 - the original's signature
) -> tuple[Any, ...]:
    """For LongformerModel._pad_to_window_size: nothing is padded, as `attention` fills its last block by itself.

    The original pads to a multiple of the largest window, under a condition on the length, and the encoder cuts the
    padding off again; padded tokens are masked, so no other token sees them.
    """
    return 0, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds


def led_unpadded_inputs(
    _: Any,
    input_ids: Tensor | None,
    attention_mask: Tensor,
    inputs_embeds: Tensor | None,
    pad_token_id: int,  # noqa: ARG001 - the original's signature
) -> tuple[Any, ...]:
    """`unpadded` for LEDEncoder._pad_to_window_size (modeling_led), whose attention is Longformer's."""
    return 0, input_ids, attention_mask, inputs_embeds


def attention(
    self: Any,
    hidden_states: Tensor,
    attention_mask: Tensor,
    is_index_masked: Tensor,
    is_index_global_attn: Tensor,
    is_global_attn: Any = None,  # noqa: ARG001 - the original's signature
    output_attentions: bool = False,  # noqa: FBT001, FBT002
) -> tuple[Tensor]:
    """For LongformerSelfAttention.forward, which branches on `is_global_attn` and writes into slices of its tensors.

    Here both kinds of attention are always computed: a token sees the tokens of its window that are neither masked nor
    global, and every global token of its row; a masked token gives 0; a global token sees every token that is not
    masked, through projections of its own. Attentions are not given, and there is no dropout: nothing is trained here.
    """
    if output_attentions:
        raise InvalidSpec("longformer is exported without its attentions; leave out output_attentions")
    places, held = _global_places(is_index_global_attn)
    everyone = _windowed(self, hidden_states, attention_mask != 0, places, held)
    everyone = everyone.masked_fill(is_index_masked[:, :, None], 0.0)
    theirs = _global(self, hidden_states, is_index_masked, places)
    return (_overwritten(everyone, theirs, places, held),)


def _global_places(is_global: Tensor) -> tuple[Tensor, Tensor]:
    """Where each row has its global tokens, `batch most`, and which of these places hold one: a row may have fewer.

    For _get_global_attn_indices. `most` is at least 1, so that no tensor is ever empty.
    """
    import torch

    most = is_global.sum(dim=1).max().clamp(min=1).item()
    torch._check(most >= 1)
    torch._check(most <= is_global.shape[1])
    held, places = is_global.to(torch.int64).topk(most, dim=1)
    return places, held.bool()


def _windowed(self: Any, hidden: Tensor, removed: Tensor, places: Tensor, held: Tensor) -> Tensor:
    """What every token sees in its window and of the global tokens, `batch length hidden`.

    For _sliding_chunks_query_key_matmul, _concat_with_global_key_attn_probs, _compute_attn_output_with_global_indices
    and _sliding_chunks_matmul_attn_probs_value.
    """
    import torch

    side = self.one_sided_attn_window_size
    query, key, value = (
        _heads(self, _scaled(self, self.query(hidden))),
        _heads(self, self.key(hidden)),
        _heads(self, self.value(hidden)),
    )
    in_blocks = _blocks(query, side)
    local = in_blocks @ _neighbours(key, side).transpose(-1, -2)
    local = local.masked_fill(~_seen(removed, side)[:, None], _lowest(local))
    far = in_blocks @ _taken(key, places)[:, :, None].transpose(-1, -2)
    far = far.masked_fill(~held[:, None, None, None, :], _lowest(far))
    weights = torch.softmax(torch.cat((far, local), dim=-1), dim=-1, dtype=torch.float32).type_as(local)
    most = places.shape[1]
    seen = weights[..., :most] @ _taken(value, places)[:, :, None] + weights[..., most:] @ _neighbours(value, side)
    return _joined(seen.flatten(2, 3)[:, :, : hidden.shape[1]])


def _global(self: Any, hidden: Tensor, masked: Tensor, places: Tensor) -> Tensor:
    """What the tokens at these places see with global attention, `batch most hidden`.

    For _compute_global_attn_output_from_hidden. Places that hold no global token get an answer that nobody uses.
    """
    import torch

    chosen = hidden.gather(1, _along(places, hidden))
    query = _heads(self, _scaled(self, self.query_global(chosen)))
    scores = query @ _heads(self, self.key_global(hidden)).transpose(-1, -2)
    scores = scores.masked_fill(masked[:, None, None, :], _lowest(scores))
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)
    return _joined(weights @ _heads(self, self.value_global(hidden)))


def _overwritten(everyone: Tensor, theirs: Tensor, places: Tensor, held: Tensor) -> Tensor:
    """`everyone`, with `theirs` where a place holds a global token: the end of LongformerSelfAttention.forward."""
    import torch

    index = _along(places, everyone)
    return everyone.scatter(1, index, torch.where(held[:, :, None], theirs, everyone.gather(1, index)))


def _scaled(self: Any, query: Tensor) -> Tensor:
    return query / self.head_dim**0.5


def _heads(self: Any, states: Tensor) -> Tensor:
    """`batch length (heads size)` -> `batch heads length size`."""
    return states.unflatten(2, (self.num_heads, self.head_dim)).transpose(1, 2)


def _joined(heads: Tensor) -> Tensor:
    """`batch heads length size` -> `batch length (heads size)`."""
    return heads.transpose(1, 2).flatten(2)


def _taken(heads: Tensor, places: Tensor) -> Tensor:
    """The tokens at these places: `batch heads most size`."""
    batch, most = places.shape
    return heads.gather(2, places[:, None, :, None].expand(batch, heads.shape[1], most, heads.shape[3]))


def _along(places: Tensor, states: Tensor) -> Tensor:
    """Places as an index into `batch length hidden`."""
    return places[:, :, None].expand(*places.shape, states.shape[2])


def _blocks(heads: Tensor, side: int, *, around: int = 0) -> Tensor:
    """`batch heads length size` -> `batch heads block side size`, with `around` blocks of zeros before and after.

    The number of blocks is even, as in the original. It is never 1 then, which torch.export would take for always 1.
    """
    from torch.nn.functional import pad

    count = (heads.shape[2] + 2 * side - 1) // (2 * side) * 2
    missing = count * side - heads.shape[2]
    return pad(heads, (0, 0, around * side, around * side + missing)).unflatten(2, (count + 2 * around, side))


def _neighbours(heads: Tensor, side: int) -> Tensor:
    """Each block with the one before and the one after it: `batch heads block 3*side size`."""
    import torch

    blocks = _blocks(heads, side, around=1)
    return torch.cat((blocks[:, :, :-2], blocks[:, :, 1:-1], blocks[:, :, 2:]), dim=3)


def _seen(removed: Tensor, side: int) -> Tensor:
    """Which of its neighbours each token sees: `batch block side 3*side`.

    For _mask_invalid_locations and the diagonal mask: those at most `side` away, in the sequence, and not removed.
    """
    import torch

    there = _neighbours((~removed).to(torch.int64)[:, None, :, None], side)[:, 0, :, None, :, 0] > 0
    own, other = torch.arange(side, device=removed.device), torch.arange(3 * side, device=removed.device)
    return there & ((own[:, None] + side - other[None, :]).abs() <= side)


def _lowest(scores: Tensor) -> float:
    import torch

    return float(torch.finfo(scores.dtype).min)
