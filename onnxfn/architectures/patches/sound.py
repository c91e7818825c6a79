"""Models of sounds: sizes that are held in tensors, loops over sounds, branches on lengths (transformers 5.23)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.modeling_outputs import XVectorOutput

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.specs.errors import InvalidSpec


def patch_embeddings(self: Any, hidden_states: Tensor, is_longer_idx: Tensor | None = None) -> Tensor:
    """For ClapAudioPatchEmbed.forward, which selects longer sounds to fuse them with crops: here all are fused."""
    embeddings = self.proj(hidden_states[:, :1])
    if is_longer_idx is not None:
        indices = torch.arange(hidden_states.shape[0], device=embeddings.device)
        is_longer = (indices[:, None] == is_longer_idx).to(torch.int64).sum(dim=1) > 0
        crops = hidden_states[:, 1:]
        batch, count, *size = crops.shape
        crops = self.mel_conv2d(crops.reshape(batch * count, 1, *size))
        joined = crops.view(batch, count, *crops.shape[1:]).permute(0, 2, 3, 1, 4).flatten(3)  # along the width
        crops = functional.pad(joined, (0, embeddings.shape[-1] - joined.shape[-1]))
        fused = self.fusion_model(embeddings, crops)
        embeddings = torch.where(is_longer[:, None, None, None], fused, embeddings)
    normalized: Tensor = self.norm(embeddings.flatten(2).transpose(1, 2) if self.flatten else embeddings)
    return normalized


def codebook_embedding_sum(quantizer: Any, codes: Tensor) -> Tensor:
    """For EncodecResidualVectorQuantizer.decode: codes `[codebooks, batch, frames]` -> `[batch, size, frames]`."""
    tables = torch.stack([layer.codebook.embed for layer in quantizer.layers])
    codebooks = torch.arange(codes.shape[0], device=codes.device)[:, None, None]
    quantized: Tensor = tables[codebooks, codes].sum(0).permute(0, 2, 1)
    return quantized


def block_attention(
    attention: Any, hidden_states: Tensor, position_embeddings: Tensor, attention_mask: Tensor | None = None, **_: Any
) -> tuple[Tensor, None]:
    """For GraniteSpeech5EncoderAttention.forward (transformers 5.23) with a mask `[batch, length]`."""

    def projected(states: Tensor) -> tuple[Tensor, ...]:
        return attention.q_proj(states), attention.k_proj(states), attention.v_proj(states)

    positions, scale = attention.rel_pos_emb(position_embeddings), attention.scaling
    return attention.o_proj(_attended_in_blocks(hidden_states, attention_mask, projected, positions, scale)), None


def conformer_attention(attention: Any, hidden_states: Tensor, attention_dists: Tensor) -> Tensor:
    """For GraniteSpeechConformerAttention.forward (transformers 5.23): no frame attends to padding."""

    def projected(states: Tensor) -> tuple[Tensor, ...]:
        return attention.to_q(states), *attention.to_kv(states).chunk(2, dim=-1)

    states, positions = attention.pre_norm(hidden_states), attention.rel_pos_emb(attention_dists)
    return attention.to_out(_attended_in_blocks(states, None, projected, positions, attention.scale))


def _attended_in_blocks(
    states: Tensor, mask: Tensor | None, projected: Callable[[Tensor], Any], positions: Tensor, scale: float
) -> Tensor:
    """The attention of each frame to the frames of its block, `[batch, length, width]`; the last block is padded.

    `mask`: true for frames that are not padding. `projected`: queries, keys and values of padded states, `[batch,
    padded length, heads * size]` each. `positions`: the embedding of each distance in a block, `[block, block, size]`.
    """
    length, (block, _, size) = states.shape[1], positions.shape
    padding = (length + block - 1) // block * block - length
    frames = torch.ones_like(states[..., 0], dtype=torch.bool) if mask is None else mask
    is_frame = functional.pad(frames, (0, padding)).reshape(-1, 1, 1, block)
    padded = functional.pad(states, (0, 0, 0, padding))
    q, k, v = (each.reshape(-1, block, each.shape[-1] // size, size).transpose(1, 2) for each in projected(padded))
    bias = (q.transpose(1, 2) @ (positions * scale).transpose(1, 2)).transpose(1, 2)
    bias = bias.masked_fill(~is_frame, torch.finfo(bias.dtype).min)
    attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale).transpose(1, 2)
    merged = attended.reshape(states.shape[0], -1, attended.shape[2] * size)
    return merged.index_select(1, torch.arange(length))


def feature_lengths(_: Any, input_lengths: Any) -> Any:
    """For MoonshinePreTrainedModel._get_feat_extract_output_lengths: the features for a number of samples."""
    return (((input_lengths - 127) // 64 + 1 - 7) // 3 + 1 - 3) // 2 + 1


def delay_pattern_mask(
    decoder: Any, input_ids: Tensor, pad_token_id: Tensor, max_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """For MusicgenForCausalLM.build_delay_pattern_mask, which writes into slices: delayed codes, and the pattern."""
    # The pattern is -1 where a code is to be generated; the given codes and -1 if `max_length` is too short.
    max_length = decoder.generation_config.max_length if max_length is None else max_length
    torch_name("check")(max_length >= 0)
    codebooks, steps = decoder.num_codebooks, decoder.num_codebooks // decoder.config.audio_channels
    codes = input_ids.reshape(-1, codebooks, input_ids.shape[-1])
    length = codes.shape[-1]
    delays = (torch.arange(codebooks) // decoder.config.audio_channels)[:, None]
    pattern = _delayed_codes(codes, torch.arange(max_length), delays, length, pad_token_id, max_length - steps)
    delayed = _delayed_codes(codes, torch.arange(length), delays, length, pad_token_id, max_length - steps)
    too_short = torch.full((1,), max_length) < 2 * steps - 1
    return (
        torch.where(too_short, codes, delayed).reshape(-1, length),
        torch.where(too_short, -1, pattern).reshape(input_ids.shape[0], -1),
    )


def _delayed_codes(
    codes: Tensor, positions: Tensor, delays: Tensor, length: int, pad_token_id: Tensor, last: int
) -> Tensor:
    """The delayed code at each position: -1 after the given codes, padding outside of the codebook's range."""
    index = (positions - delays).clamp(0, length - 1)
    shifted = codes.gather(2, index.expand(codes.shape[0], -1, -1))
    delayed = torch.where((positions >= delays) & (positions < length + delays), shifted, -1)
    return torch.where((positions <= delays) | (positions > delays + last), pad_token_id, delayed)


def conv1d_output(layer: Any, hidden_states: Tensor, padding_cache: Any = None) -> Tensor:
    """For EncodecConv1d.forward and copies, which keep strides in tensors; the input is longer than its padding."""
    if padding_cache is not None:
        raise InvalidSpec("a sound that comes in pieces needs a cache of padding, which cannot be traced")
    stride = layer.conv.stride[0]
    total = (layer.conv.kernel_size[0] - 1) * layer.conv.dilation[0] + 1 - stride
    right = 0 if layer.causal else total // 2
    padding = (total - right, right + -hidden_states.shape[-1] % stride)
    features = layer.conv(functional.pad(hidden_states, padding, layer.pad_mode))
    normalized: Tensor = layer.norm(features) if getattr(layer, "norm_type", "") == "time_group_norm" else features
    return normalized


def nemotron_attention(
    attention: Any,
    hidden_states: Tensor,
    position_embeddings: Tensor,
    attention_mask: Tensor | None = None,
    cache: Any = None,  # the export encodes all frames at once
    **options: Any,
) -> tuple[Tensor, Any]:
    """For NemotronAsrStreamingEncoderAttention.forward, whose mask of minus infinity makes NaN of a masked row."""
    # Parakeet's masks with a finite number. A frame that attends to nothing gets the bias of the output projection.
    from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderAttention

    output, weights = ParakeetEncoderAttention.forward(
        attention, hidden_states, position_embeddings, attention_mask=attention_mask, **options
    )
    if attention_mask is None:
        return output, weights
    bias = attention.o_proj.bias
    masked_output = torch.zeros((), dtype=output.dtype) if bias is None else bias
    return torch.where(attention_mask[:, 0].any(dim=-1, keepdim=True), output, masked_output), weights


def xvector_output(
    model: Any, input_features: Tensor, attention_mask: Tensor | None = None, labels: Any = None, **_: Any
) -> Any:
    """For Wav2Vec2BertForXVector.forward, which loops over the batch for the mean and deviation of each row."""
    weighted = model.config.use_weighted_layer_sum
    outputs = model.wav2vec2_bert(input_features, attention_mask=attention_mask, output_hidden_states=weighted)
    states = outputs.last_hidden_state
    if weighted:
        states = (torch.stack(outputs.hidden_states, dim=-1) * model.layer_weights.softmax(dim=-1)).sum(dim=-1)
    states = model.projector(states)
    for layer in model.tdnn:
        states = layer(states)
    if attention_mask is None:
        mean, deviation = states.mean(dim=1), states.std(dim=1)
    else:
        lengths = model._get_feat_extract_output_lengths(attention_mask.sum(dim=1))
        mean, deviation = _statistics(states, model._get_tdnn_output_lengths(lengths))
    embeddings = model.feature_extractor(torch.cat([mean, deviation], dim=-1))
    return XVectorOutput(logits=model.classifier(embeddings), embeddings=embeddings)


def _statistics(states: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation of the first frames of each row. A negative length counts from the end."""
    frames = states.shape[1]
    ends = torch.where(lengths < 0, lengths + frames, lengths).clamp(0, frames)[:, None, None]
    mask = (torch.arange(frames, device=states.device)[None, :, None] < ends).to(states.dtype)
    mean = (states * mask).sum(dim=1) / ends[:, 0]
    squares = (states - mean[:, None]).square() * mask
    return mean, (squares.sum(dim=1) / (ends[:, 0] - 1)).sqrt()


def length_regulated_states(encoded_embeddings: Tensor, duration_labels: Tensor, speaking_speed: float = 1.0) -> Tensor:
    """For length_regulator, which loops over tokens: each is repeated by its duration; one frame if all are 0."""
    durations = duration_labels
    if speaking_speed != 1.0:
        durations = torch.round(durations.float() * speaking_speed).long()
    durations = torch.where(durations.sum() == 0, torch.ones_like(durations), durations)
    return frames_of_tokens(durations, durations.sum(dim=1).max()).to(encoded_embeddings.dtype) @ encoded_embeddings


def frames_of_tokens(durations: Tensor, most: Tensor) -> Tensor:
    """Which of `most` frames are those of a token, `[batch, frames, tokens]`, from the number of frames of each."""
    frames = most.item()
    torch_name("check")(frames >= 1)
    ends = durations.cumsum(dim=1)[:, None]
    index = torch.arange(frames, device=durations.device)[:, None]
    return (index < ends) & (index >= ends - durations[:, None])


def relative_positional_encoding(encoding: Any, feature_representation: Tensor) -> tuple[Tensor, Tensor]:
    """For FastSpeech2ConformerRelPositionalEncoding.forward, which slices or extends its table: rows by their index."""
    length, center = feature_representation.shape[1], encoding.pos_enc.shape[1] // 2
    indices = torch.arange(2 * length - 1, device=feature_representation.device) + (center - length + 1)
    return feature_representation * encoding.input_scale, encoding.pos_enc.index_select(1, indices)
