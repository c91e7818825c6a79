"""What TimesFM forecasts of a batch of series of one length (modeling_timesfm, modeling_timesfm2_5, transformers 5.23).

The models take a list of series and go through it one by one; here a batch is one tensor.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onnxfn.architectures.wrappers.modules import module


def forecast(model: Any) -> Any:
    """TimesFM: from what was measured, and how often, to the mean and the quantiles of what comes."""

    def forward(past_values: Tensor, freq: Tensor) -> dict[str, Tensor]:
        measured, padding = _in_context(model, past_values)
        read = model.decoder(past_values=measured, past_values_padding=padding, freq=freq[:, None])  # TimesFmModel
        made = model._postprocess_output(read.last_hidden_state, (read.loc, read.scale))[:, -1]
        return {"mean_predictions": made[..., 0], "full_predictions": made}

    return module(forward)


def forecast_by_quantiles(model: Any) -> Any:
    """TimesFM 2.5: the same, the series and its mirror image averaged where the configuration says so."""
    import torch

    config = model.config

    def forward(past_values: Tensor) -> dict[str, Tensor]:
        measured, padding = _in_context(model, past_values)
        mean, deviation = measured.mean(dim=1, keepdim=True), measured.std(dim=1, keepdim=True)
        series = model.model._revin(measured, mean, deviation, reverse=False)
        points, spreads, _ = model._decode_and_project(series, padding)
        if config.force_flip_invariance:
            other_points, other_spreads, _ = model._decode_and_project(-series, padding)
            points, spreads = (points - _mirrored(other_points)) / 2, (spreads - _mirrored(other_spreads)) / 2
        horizon = min(model.horizon_len, points.shape[1])
        told = _told(config, points[:, :horizon], spreads)
        made = model.model._revin(told, mean, deviation, reverse=True)
        if config.infer_is_positive:
            least = measured.masked_fill(padding == 1, torch.inf).min()
            made = torch.where(least >= 0, made.clamp(min=0), made)
        return {"mean_predictions": made[..., min(config.decode_index, made.shape[-1] - 1)], "full_predictions": made}

    return module(forward)


def _in_context(model: Any, past_values: Tensor) -> tuple[Tensor, Tensor]:
    """The last steps, as many as the model reads, zeros before a shorter series; and 1 where such a zero stands.

    They are looked up, as a slice would be traced for series that are longer than it, or for those that are shorter.
    """
    import torch
    from torch.nn.functional import pad

    reads = model.context_len
    last = torch.arange(reads) + past_values.shape[1]
    padding = pad(torch.zeros_like(past_values), (reads, 0), value=1.0)
    return pad(past_values, (reads, 0)).index_select(1, last), padding.index_select(1, last)


def _mirrored(made: Tensor) -> Tensor:
    """The quantiles of a mirrored series, the first of which is its mean."""
    import torch

    return torch.cat([made[..., :1], made[..., 1:].flip(-1)], dim=-1)


def _told(config: Any, points: Tensor, spreads: Tensor) -> Tensor:
    """Quantiles as far from the median as their own head says, as far as that reaches."""
    import torch

    if not config.use_continuous_quantile_head:
        return points
    median = min(config.decode_index, points.shape[-1] - 1)
    reach = min(points.shape[1], spreads.shape[1])
    near = spreads[:, :reach] - spreads[:, :reach, median, None] + points[:, :reach, median, None]
    kept = [index in (0, median) for index in range(points.shape[-1])]
    made = torch.where(torch.tensor(kept), points[:, :reach], near[..., : points.shape[-1]])
    return torch.cat([made, points[:, reach:]], dim=1)
