"""Attention and positions of texts, without loops over tokens and without branches on values (transformers 5.23)."""

import copy
import inspect
import math
import sys
from math import prod
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS, dynamic_rope_update

from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.plan.text_cases import LONGROPE, is_scaled


def canine_attention(
    self: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, output_attentions: bool = False
) -> tuple[Any, ...]:
    """For CanineAttention.forward, whose local attention loops over chunks; here a mask separates the chunks."""
    mask: Any = attention_mask
    if self.local:  # CanineSelfAttention adds `(1 - mask) * lowest value`; a chunk of padding attends to itself evenly
        chunks = torch.arange(mask.shape[1], device=mask.device) // self.attend_from_chunk_stride
        mask = mask.masked_fill(chunks[:, None] != chunks, -torch.inf)
    outputs = self.self(hidden_states, hidden_states, mask, output_attentions)
    return (self.output(outputs[0], hidden_states), *outputs[1:])


def attention_mask(self: Any, input_ids: Tensor, span: Tensor, context: Tensor, length: Tensor) -> Tensor:
    """For CpmAntModel._prepare_attention_mask, which lists all positions in Python: `[batch, queries, keys]`, bool."""
    # The tokens of the prompt come first; after them, padding is at the left.
    index = torch.arange(input_ids.shape[1], device=input_ids.device)
    is_earlier = index[None, :] <= index[:, None]
    has_context = context[:, None, :].bool() | (context[:, :, None].logical_not() & is_earlier)
    attends = has_context & (span[:, None, :] == span[:, :, None])
    is_prompt = index < self.prompt_length
    is_token = is_prompt[None] | (input_ids.shape[1] - 1 - index[None] < length[:, None])
    return is_token[:, :, None] & is_token[:, None, :] & attends


def padding_mask(input_ids: Tensor, padding_idx: int = 1) -> Tensor:
    """For make_padding_mask: true for each padding token. The original returns None if there is no padding."""
    return input_ids.eq(padding_idx)


def alibi_bias(attention_mask: Tensor, num_heads: int, dtype: Any) -> Tensor:
    """For build_alibi_tensor: the slope of each head times the position of each token, `[batch*heads, 1, length]`."""
    # A product of two bfloat16 numbers is exact in float32, so it is rounded once here, as in the original.
    positions = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    # a geometric sequence for the largest power of 2 heads; further heads have every other slope of the next power
    power_of_2 = 1 << (num_heads.bit_length() - 1)
    own = [2.0 ** (-8.0 / power_of_2 * power) for power in range(1, power_of_2 + 1)]
    further = [2.0 ** (-4.0 / power_of_2 * power) for power in range(1, 2 * (num_heads - power_of_2) + 1, 2)]
    slopes = torch.tensor(own + further, device=attention_mask.device)[:, None]
    products = (slopes.bfloat16().float() * positions.bfloat16().float()).bfloat16()
    return products.reshape(-1, 1, attention_mask.shape[1]).to(dtype)


def selected_by_blocks(
    self: Any, hidden_states: Tensor, position_embeddings: tuple[Tensor, Tensor], attention_mask: Tensor, cache: Any
) -> Tensor:
    """For Qwen4ExpTextQSAIndexer.forward (modeling_qwen4_exp, transformers 5.23): `[batch, 1, queries, keys]`, bool.

    The visible tokens of a query form blocks; it attends to the blocks with the largest scores, and to the tokens
    after the last full block. The mask is causal: the blocks of a query are the first ones of its text, so the last
    query, which sees all tokens, knows them all.
    """
    visible = (attention_mask if attention_mask.dtype == torch.bool else attention_mask == 0)[:, 0]
    queries, keys = _queries_and_keys(self, hidden_states, position_embeddings, cache)
    order = visible[:, -1].cumsum(-1) - 1
    full = visible.sum(-1, keepdim=True) // self.compress_ratio
    block_keys = _block_keys(self, keys, visible[:, -1], position_embeddings)
    scores = torch.relu(queries.float() @ block_keys.float().transpose(-1, -2)[:, None]).sum(2)
    is_chosen = _largest(scores / math.sqrt(self.index_head_dim), full, self.block_topk)
    block = (order.clamp(min=0) // self.compress_ratio)[:, None].expand(visible.shape)
    is_after = order[:, None] >= full * self.compress_ratio
    return (visible & (is_chosen.gather(-1, block) | is_after))[:, None]


def _queries_and_keys(
    self: Any, hidden_states: Tensor, position_embeddings: tuple[Tensor, Tensor], cache: Any
) -> tuple[Tensor, Tensor]:
    """The rotated queries `[batch, length, heads, size]`, and the keys of past and present `[batch, keys, size]`."""
    length, size = hidden_states.shape[1], self.index_head_dim
    projected = self.index_qk_proj(hidden_states).unflatten(-1, (-1, size))
    queries = self.q_layernorm(projected[:, :, : self.index_n_heads])
    # One head of keys, as the original needs it.
    keys = projected[:, :, self.index_n_heads]
    if cache is not None:
        keys = cache.update_indexer(keys, self.layer_idx)
    cos, sin = (each[:, -length:] for each in position_embeddings)
    return _rotated_by_model(self, queries, cos, sin), keys


def _block_keys(self: Any, keys: Tensor, is_seen: Tensor, position_embeddings: tuple[Tensor, Tensor]) -> Tensor:
    """The mean key of each block of seen tokens, rotated as its first token, `[batch, blocks, size]`."""
    length, ratio = is_seen.shape[-1], self.compress_ratio
    index = torch.arange(length, device=keys.device)
    # the last block may hold unseen tokens, too; no query chooses one that is not full
    seen_first = torch.where(is_seen, index, index + length).argsort(-1)
    blocks = torch.nn.functional.pad(seen_first, (0, -length % ratio)).unflatten(-1, (-1, ratio))
    rows = torch.arange(keys.shape[0], device=keys.device)[:, None, None]
    pooled = self.k_layernorm(keys[rows, blocks].float().mean(2).to(keys.dtype))
    cos, sin = (each[rows[..., 0], blocks[..., 0]] for each in position_embeddings)
    return _rotated_by_model(self, pooled[:, :, None], cos, sin)[:, :, 0]


def _largest(scores: Tensor, full: Tensor, count: int) -> Tensor:
    """True for full blocks among the `count` best of their query, `[batch, queries, blocks]`."""
    blocks = scores.shape[-1]
    is_full = torch.arange(blocks, device=scores.device) < full
    # As many blocks again, so that there are never fewer than are chosen.
    candidates = torch.nn.functional.pad(scores.masked_fill(~is_full, -torch.inf), (0, count), value=-torch.inf)
    chosen = torch.zeros_like(candidates, dtype=torch.bool).scatter(-1, candidates.topk(count).indices, value=True)
    return chosen[..., :blocks] & is_full


def _rotated_by_model(self: Any, states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """States `[batch, length, heads, size]`, rotated by the function of the model's module."""
    return sys.modules[type(self).__module__].apply_rotary_pos_emb(states, cos=cos, sin=sin, unsqueeze_dim=2)


def updated_states(self: Any, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    """All keys and values; a window of them is stored. A cut from a negative start would branch on the length."""
    if not self.is_initialized:
        self.lazy_initialization(key_states, value_states)
    self.cumulative_length += key_states.shape[-2]
    keys = torch.cat([self.keys, key_states], dim=-2)
    values = torch.cat([self.values, value_states], dim=-2)
    self.keys, self.values = keys, values
    if not self.record_past:
        length = keys.shape[-2]
        last = torch.arange(torch.sym_max(length - self.sliding_window + 1, 0), length, device=keys.device)
        self.keys, self.values = (states.index_select(-2, last) for states in (keys, values))
    return keys, values


@dynamic_rope_update  # type: ignore[untyped-decorator]
def cos_sin(self: Any, x: Tensor, position_ids: Tensor) -> Tensor:
    """For RotaryEmbedding.forward, which returns complex numbers: cosines and sines, `[batch, length, pairs, 2]`."""
    angles = position_ids[..., None].float() * self.inv_freq.to(x.device).float()
    return torch.stack((angles.cos(), angles.sin()), dim=-1) * self.attention_scaling


def rotated_heads_first(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """For apply_rotary_emb of modeling_deepseek_v2: `[batch, heads, length, size]`."""
    return _rotated(xq, freqs_cis[:, None]), _rotated(xk, freqs_cis[:, None])


def rotated_length_first(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    """For apply_rotary_emb of modeling_llama4: `[batch, length, heads, size]`."""
    return _rotated(xq, freqs_cis[:, :, None]), _rotated(xk, freqs_cis[:, :, None])


def _rotated(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Each pair of `x`, as a complex number, times its complex exponential."""
    real, imaginary = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos_sin.unbind(-1)
    return torch.stack((real * cos - imaginary * sin, real * sin + imaginary * cos), dim=-1).flatten(-2).type_as(x)


def scaled_angles(self: Any, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> tuple[Tensor, Tensor]:
    """For the call of a module whose forward has `dynamic_rope_update`: cosines and sines of all positions."""
    # With dynamic scaling these are the frequencies of a model that has read no longer text (transformers 5.24).
    of_layers = {} if layer_type is None else {"layer_type": layer_type}
    prefix = "" if layer_type is None else f"{layer_type}_"
    rotary = copy.copy(self)
    rotary._buffers = {**self._buffers, f"{prefix}inv_freq": _frequencies(self, x, position_ids, layer_type, prefix)}
    angles: tuple[Tensor, Tensor] = inspect.unwrap(type(self).forward)(rotary, x, position_ids, **of_layers)
    return angles


def _frequencies(self: Any, x: Tensor, position_ids: Tensor, layer_type: str | None, prefix: str) -> Tensor:
    """The frequencies of short texts, or of those that are longer than the texts of the training."""
    types, scalings = self.rope_type, self.config.rope_parameters
    rope_type, scaling = (types, scalings) if layer_type is None else (types[layer_type], scalings[layer_type])
    short: Tensor = getattr(self, f"{prefix}original_inv_freq")
    if not is_scaled(rope_type):
        return short
    length = position_ids.max() + 1
    is_longrope = rope_type == LONGROPE
    original = scaling["original_max_position_embeddings"] if is_longrope else self.original_max_seq_len
    of_long = original + 1 if is_longrope else length
    long, _ = ROPE_INIT_FUNCTIONS[rope_type](self.config, x.device, seq_len=of_long, layer_type=layer_type)
    return torch.where(length > original, long, short)


def phimoe_angles(self: Any, x: Tensor, position_ids: Any = None) -> tuple[Tensor, Tensor]:
    """For PhimoeRotaryEmbedding.forward: the largest position decides a factor, but not the frequencies."""
    scaling = self.config.rope_parameters
    inv_freq, factor = self.rope_init_fn(self.config)
    if scaling["rope_type"] != "default":
        is_long = position_ids.max() + 1 > scaling["original_max_position_embeddings"]
        factor = torch.where(is_long, scaling["long_mscale"], scaling["short_mscale"])
    freqs = position_ids[..., None].float() * inv_freq.to(device=x.device, dtype=torch.float)
    angles = torch.cat((freqs, freqs), dim=-1)
    return (angles.cos() * factor).to(x.dtype), (angles.sin() * factor).to(x.dtype)


def position_embeds(self: Any, seq_len: int, dtype: Any, device: Any) -> Any:
    """For FunnelAttentionStructure.get_position_embeds, which lists all positions in Python and so fixes the length."""
    # The positions of a block are evenly spaced, so relative positions are a descending arithmetic sequence.

    def sin_cos(positions: Tensor) -> tuple[Tensor, Tensor]:
        half = self.config.d_model // 2
        frequencies = 1 / (10000 ** (torch.arange(half, device=device).to(dtype) / half))
        angles = positions.to(dtype)[:, None] * frequencies
        return angles.sin(), angles.cos()

    def descending_embeds(start: int, step: int, count: int) -> Tensor:
        return torch.cat(sin_cos(start - step * torch.arange(count, device=device)), dim=-1)

    if self.config.attention_type == "factorized":
        sin, cos = sin_cos(torch.arange(seq_len, device=device))
        # The matrices phi, pi, psi and omega of the paper's appendix A.2.2, as in the original.
        return tuple(torch.cat(pair, dim=-1) for pair in ((sin, sin), (cos, cos), (cos, sin), (-sin, cos)))
    is_cut = self.config.separate_cls and not self.config.truncate_seq
    embeds = [[descending_embeds(seq_len, 1, 2 * seq_len), None]]
    for block in range(1, self.config.num_blocks):
        step, pooled_length = 2 ** (block - 1), seq_len // 2 + 1 if is_cut else (seq_len + 1) // 2  # as stride_pool_pos
        shift = -step if self.config.separate_cls else 0
        pooling = descending_embeds(shift + 2 * pooled_length * step, step, 2 * pooled_length + seq_len)
        embeds.append([descending_embeds(2 * pooled_length * step, 2 * step, 2 * pooled_length), pooling])
        seq_len = pooled_length
    return embeds


def axial_positions(module: Any, position_ids: Tensor) -> Tensor:
    """For AxialPositionEmbeddings.forward, which picks the positions of one text after another."""
    shape = tuple(module.axial_pos_shape)
    if prod(shape) < position_ids.shape[1]:
        raise InvalidSpec(f"axial_pos_shape={shape} has {prod(shape)} positions, and a text {position_ids.shape[1]}")
    # rows, columns, and the features of both factors
    table = torch.cat([weight.expand(*shape, weight.shape[-1]) for weight in module.weights], dim=-1)
    return table.flatten(0, -2)[position_ids]
