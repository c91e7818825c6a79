"""VITS and FastSpeech 2 Conformer without branches on data and loops over texts (transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onnxfn.architectures.private.torch_names import torch_name


def length_regulated_states(encoded_embeddings: Tensor, duration_labels: Tensor, speaking_speed: float = 1.0) -> Tensor:
    """For length_regulator, which loops over the tokens: each token `[batch, length, size]` repeated by its duration.

    If all durations of a batch are 0, each token has one frame.
    """
    durations = duration_labels
    if speaking_speed != 1.0:
        durations = torch.round(durations.float() * speaking_speed).long()
    durations = torch.where(durations.sum() == 0, torch.ones_like(durations), durations)
    ends = durations.cumsum(dim=1)
    frames = ends[:, -1].max().item()
    torch_name("check")(frames >= 1)
    indices = torch.arange(frames, device=durations.device)[:, None]
    frame_of_token = (indices < ends[:, None]) & (indices >= (ends - durations)[:, None])
    return frame_of_token.to(encoded_embeddings.dtype) @ encoded_embeddings


def relative_positional_encoding(encoding: Any, feature_representation: Tensor) -> tuple[Tensor, Tensor]:
    """For FastSpeech2ConformerRelPositionalEncoding.forward, which slices its table or extends it.

    Here the rows of the table are looked up by index.
    """
    length, center = feature_representation.shape[1], encoding.pos_enc.shape[1] // 2
    indices = torch.arange(2 * length - 1, device=feature_representation.device) + (center - length + 1)
    return feature_representation * encoding.input_scale, encoding.pos_enc.index_select(1, indices)
