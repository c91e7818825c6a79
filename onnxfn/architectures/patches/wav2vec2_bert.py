"""Wav2Vec2-BERT's embeddings of speakers, without a loop over the batch (modeling_wav2vec2_bert, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def xvector_output(
    model: Any,
    input_features: Tensor,
    attention_mask: Tensor | None = None,
    labels: Any = None,  # noqa: ARG001 - of training alone
    **_: Any,
) -> Any:
    """For Wav2Vec2BertForXVector.forward, which loops over the batch for the mean and deviation of each row's frames.

    Here both are sums over all frames, of which a mask chooses those of the row.
    """
    from transformers.modeling_outputs import XVectorOutput

    weighted = model.config.use_weighted_layer_sum
    outputs = model.wav2vec2_bert(input_features, attention_mask=attention_mask, output_hidden_states=weighted)
    states = _weighted_sum(model, outputs.hidden_states) if weighted else outputs.last_hidden_state
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


def _weighted_sum(model: Any, states: tuple[Tensor, ...]) -> Tensor:
    return (torch.stack(states, dim=-1) * model.layer_weights.softmax(dim=-1)).sum(dim=-1)


def _statistics(states: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation of the first frames of each row. A negative length counts from the end."""
    frames = states.shape[1]
    ends = torch.where(lengths < 0, lengths + frames, lengths).clamp(0, frames)[:, None, None]
    mask = (torch.arange(frames, device=states.device)[None, :, None] < ends).to(states.dtype)
    mean = (states * mask).sum(dim=1) / ends[:, 0]
    squares = (states - mean[:, None]).square() * mask
    return mean, (squares.sum(dim=1) / (ends[:, 0] - 1)).sqrt()
