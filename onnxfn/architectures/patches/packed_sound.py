"""Audio towers that take the frames of all sounds in one row, without loops over the sounds."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from onnxfn.architectures.patches.packed_vision import members, starts


def chunks(
    input_features: Tensor,
    feature_lens: Tensor,
    n_window: int,
    kwargs: Any = None,  # the arguments of a tower may hold the chunks already; those of a graph do not
) -> tuple[Tensor, Tensor]:
    """For chunk_and_pad_features of Qwen2.5-Omni: `[mels, frames]` as `[chunks, mels, most frames]`, and lengths."""
    counts = (feature_lens + 2 * n_window - 1) // (2 * n_window)
    sound, within = members(counts)
    lengths = (feature_lens[sound] - within * 2 * n_window).clamp(max=2 * n_window)
    frames = torch.arange(lengths.max().item(), device=sound.device)
    index = starts(lengths)[:, None] + frames
    rows = input_features.T[index.clamp(max=input_features.shape[1] - 1)]
    return torch.where(frames[:, None] < lengths[:, None, None], rows, 0.0).transpose(1, 2), lengths


def pairs(feature_lens: Tensor, kwargs: Any = None) -> Tensor:
    """For get_pool_indices of Qwen2.5-Omni: the first row of each pair of rows of a sound, of which a mean is made."""
    rows = (feature_lens - 1) // 2 + 1
    sound, within = members(rows // 2)
    return starts(rows)[sound] + within * 2


def omni_features(
    self: Any,
    input_features: Tensor,
    feature_attention_mask: Any = None,
    audio_feature_lengths: Any = None,  # the original does not read it either
    **kwargs: Any,
) -> Any:
    """For Qwen2_5OmniThinkerModel.get_audio_features. The original reads lengths and compares its rows with them."""
    lengths = feature_attention_mask.sum(1)
    frames = input_features.permute(0, 2, 1)[feature_attention_mask.bool()].T
    rows, _ = self.audio_tower._get_feat_extract_output_lengths(lengths)
    return self.audio_tower(frames, feature_lens=lengths, aftercnn_lens=rows, **kwargs)


def segment_ends(
    chunk_lengths: Tensor, feature_lens: Tensor, n_window_infer: int, n_window: int, kwargs: Any = None
) -> Tensor:
    """For get_audio_cu_seqlens of Qwen3-ASR: 0, then for each row the end of its window; the original has each once."""
    # A window has as many rows as `n_window_infer` frames; the last one of a sound may have fewer.
    counts = _rows(feature_lens, n_window)
    window = _rows(chunk_lengths, n_window).max() * (n_window_infer // (2 * n_window))
    sound, within = members(counts)
    end_of_window = torch.minimum((within // window + 1) * window, counts[sound])
    return functional.pad(starts(counts)[sound] + end_of_window, (1, 0))


def _rows(frames: Tensor, n_window: int) -> Tensor:
    """The rows that convolutions make of the frames of sounds in chunks of `2 * n_window` frames: 13 of a whole one."""
    rest = frames % (2 * n_window)
    return (torch.where(rest > 0, ((rest + 1) // 2 + 1) // 2, 0) + 1) // 2 + frames // (2 * n_window) * 13


def apertus_tokens(self: Any, input_values: Tensor, padding_mask: Any) -> list[Tensor]:
    """For Apertus1p5Model.get_audio_tokens (transformers 5.24), which cuts sounds to their lengths: one, not padded."""
    (sound,) = input_values
    codes = self.audio_tokenizer.encode(sound.reshape(1, 1, -1)).audio_codes
    return [codes.flatten() + self.config.audio_token_offset]
