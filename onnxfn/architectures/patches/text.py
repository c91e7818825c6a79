"""Heads, shifts and transforms of texts, without what a trace fixes (transformers 5.23)."""

from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor


def encoder_layer_output(
    layer: Any, hidden_states: Tensor, attention_mask: Tensor | None = None, **arguments: Any
) -> Tensor:
    """For BartEncoderLayer.forward, which branches on whether a float16 tensor holds an infinity."""
    attention_output, _ = layer.self_attn(hidden_states, attention_mask=attention_mask, **arguments)
    attended = layer.self_attn_layer_norm(hidden_states + attention_output)
    states: Tensor = layer.final_layer_norm(attended + layer.fc2(layer.activation_fn(layer.fc1(attended))))
    if states.dtype != torch.float16:
        return states
    # As in the original, all values are clamped to the finite range if any is infinite.
    largest = torch.finfo(torch.float16).max
    all_finite = (states.float().abs() <= largest).all()
    return torch.where(all_finite, states, states.clamp(1000 - largest, largest - 1000))


def fourier_transform(_: Any, hidden_states: Tensor) -> tuple[Tensor]:
    """For FNetBasicFourierTransform.forward: the real part of the Fourier transform along length and size."""
    # ONNX Runtime's DFT has relative errors of 1e-3 unless the length is a power of 2; products of matrices do not.
    length, size = (cos_sin_matrices(count, hidden_states) for count in hidden_states.shape[1:])
    return (length[0] @ hidden_states @ size[0] - length[1] @ hidden_states @ size[1],)


def cos_sin_matrices(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles `2 pi * row * column / count`, reduced modulo `2 pi` to keep precision."""
    indices = torch.arange(count, device=like.device)
    period = torch.full((), count, device=like.device)  # a tensor: torch's ONNX table has no remainder by a size
    angles = (indices[:, None] * indices % period) / period * (2 * torch.pi)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def global_block_ids(attention_mask: Tensor, global_block_size: int) -> tuple[Tensor, Tensor]:
    """For _make_global_fixed_block_ids: block ids `[batch, length]` and segment ids `[batch, blocks]`."""
    # Block ids are -1 for padding; tokens after the last full block belong to it. Segment ids are 1 for used blocks.
    positions = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    block_ids = torch.where(attention_mask != 0, positions // global_block_size, -1)
    block_ends = (positions % global_block_size == global_block_size - 1) & (block_ids >= 0)
    block_ids = torch.minimum(block_ids, block_ends.sum(dim=-1, keepdim=True) - 1)
    blocks = torch.arange(attention_mask.shape[1] // global_block_size + 1, device=attention_mask.device)
    segment_ids = blocks <= block_ids.amax(dim=-1, keepdim=True)
    return block_ids.to(torch.int32), segment_ids.to(torch.int32)


def side_bias(attention: Any, mask: Tensor, global_segment_ids: Tensor) -> Tensor:
    """For compute_side_bias: the attention bias of tokens to blocks, `[batch, heads, tokens, blocks]`."""
    # As in the original, padding attends to the blocks that hold no token. No token attends to the last block.
    blocks = torch.arange(global_segment_ids.shape[-1], device=mask.device)
    distances = blocks - global_block_ids(mask, attention.global_block_size)[0][..., None].to(torch.int64)
    buckets = attention._relative_position_bucket(
        distances,
        bidirectional=not attention.is_decoder,
        num_buckets=attention.relative_attention_num_buckets,
        max_distance=attention.relative_attention_max_distance,
    )
    relative_bias = attention.global_relative_attention_bias(buckets).permute(0, 3, 1, 2)
    attends = mask[:, None, :, None] == global_segment_ids[:, None, None]
    return (torch.where(attends, 0.0, -1e10) + relative_bias).masked_fill(blocks == blocks.shape[0] - 1, -torch.inf)


def gaussian_topk(self: Any, inputs: Tensor) -> Tensor:
    """For Gemma3nTextMLP._gaussian_topk: how far inputs exceed a quantile, which Python computes, once a layer."""
    quantile = NormalDist().inv_cdf(self.activation_sparsity)
    mean, std = inputs.mean(-1, keepdim=True), inputs.std(-1, keepdim=True, unbiased=False)
    return (inputs - (mean + std * quantile)).relu()


def joined_embeddings(
    image_embeddings: Tensor,
    inputs_embeds: Tensor,
    bbox: Tensor,
    visual_bbox: Tensor | None,
    attention_mask: Tensor | None = None,
    num_patches: int = 14,
    max_len: int = 0,  # 0 is the number of all patches, and the model asks for no other
    image_size: int = 224,
    patch_size: int = 16,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """For combine_image_text_embeddings: tokens, each plus the patch at its place, then other patches, then zeros."""
    from transformers.models.udop.modeling_udop import get_visual_bbox

    # the patch in which the middle of a token's box lies
    sums = (bbox[..., axis] + bbox[..., axis + 2] for axis in (0, 1))
    column, row = ((each / 2.0 * num_patches).floor().long().clamp(0, num_patches - 1) for each in sums)
    patches = column + row * num_patches
    seen = image_embeddings.gather(1, patches[..., None].expand(-1, -1, image_embeddings.shape[-1]))
    mean = bbox.double().mean(-1)
    is_special = (mean == 0.0) | (mean == 1.0)
    texts = inputs_embeds + torch.where(is_special[..., None], 0.0, seen)

    is_left = torch.ones_like(image_embeddings[..., 0], dtype=torch.bool).scatter(1, patches, False)
    count, index = is_left.sum(1, keepdim=True), torch.arange(is_left.shape[1], device=is_left.device)[None]
    rank = torch.where(is_left, is_left.long().cumsum(1) - 1, count + (~is_left).long().cumsum(1) - 1)
    order = torch.zeros_like(rank).scatter(1, rank, index.expand_as(rank))
    exists = index < count
    boxes = (
        get_visual_bbox(image_size, patch_size).to(image_embeddings.device)[None]
        if visual_bbox is None
        else visual_bbox
    )
    boxes = boxes.expand(order.shape[0], -1, -1)

    def left(values: Tensor) -> Tensor:
        ordered = values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))
        return torch.where(exists[..., None], ordered, torch.zeros_like(ordered))

    embeddings = torch.cat([texts, left(image_embeddings)], 1)
    places = torch.cat([bbox.double(), left(boxes).double()], 1)
    mask = None if attention_mask is None else torch.cat([attention_mask, exists.to(attention_mask.dtype)], 1)
    return embeddings, places, mask
