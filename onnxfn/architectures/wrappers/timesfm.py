"""Forecasts of TimesFM for a batch of series of one length, where the models loop over a list (transformers 5.23)."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad


def forecast(model: Any, past_values: Tensor, freq: Tensor) -> dict[str, Tensor]:
    """TimesFM: past values and their frequency -> mean and quantiles of the future values."""
    values, padding = _context(model, past_values)
    outputs = model.decoder(past_values=values, past_values_padding=padding, freq=freq[:, None])  # TimesFmModel
    predictions = model._postprocess_output(outputs.last_hidden_state, (outputs.loc, outputs.scale))[:, -1]
    return {"mean_predictions": predictions[..., 0], "full_predictions": predictions}


def forecast_by_quantiles(model: Any, past_values: Tensor) -> dict[str, Tensor]:
    """TimesFM 2.5: past values -> mean and quantiles; with `force_flip_invariance` also of the negated series."""
    config = model.config
    values, padding = _context(model, past_values)
    mean, std = values.mean(dim=1, keepdim=True), values.std(dim=1, keepdim=True)
    series = model.model._revin(values, mean, std, reverse=False)
    if config.force_flip_invariance:  # in one batch: the graph has the layers once
        both, paddings = torch.cat([series, -series]), torch.cat([padding, padding])
        points, spreads = map(_averaged, model._decode_and_project(both, paddings)[:2])
    else:
        points, spreads = model._decode_and_project(series, padding)[:2]
    horizon = min(model.horizon_len, points.shape[1])
    quantiles = _quantiles(config, points[:, :horizon], spreads)
    predictions = model.model._revin(quantiles, mean, std, reverse=True)
    if config.infer_is_positive:
        least = values.masked_fill(padding == 1, torch.inf).min()
        predictions = torch.where(least >= 0, predictions.clamp(min=0), predictions)
    mean_index = min(config.decode_index, predictions.shape[-1] - 1)
    return {"mean_predictions": predictions[..., mean_index], "full_predictions": predictions}


def _context(model: Any, past_values: Tensor) -> tuple[Tensor, Tensor]:
    """The last `context_len` values, zero-padded before a shorter series, and their padding mask (1 for padding)."""
    # The values are looked up by index. A slice would fix in the trace whether a series is longer than the context.
    length = model.context_len
    indices = torch.arange(length) + past_values.shape[1]
    padding = pad(torch.zeros_like(past_values), (length, 0), value=1.0)
    return pad(past_values, (length, 0)).index_select(1, indices), padding.index_select(1, indices)


def _averaged(quantiles: Tensor) -> Tensor:
    """The average of the quantiles of series and of the same series negated, whose quantiles are in reverse order."""
    # the second half of the batch is negated; the first entry of each is the mean
    series, negated = quantiles.unflatten(0, (2, -1))
    return (series - torch.cat([negated[..., :1], negated[..., 1:].flip(-1)], dim=-1)) / 2


def _quantiles(config: Any, points: Tensor, spreads: Tensor) -> Tensor:
    """The quantiles. Up to the horizon of the quantile head, their distance from the median is that of this head."""
    if not config.use_continuous_quantile_head:
        return points
    median = min(config.decode_index, points.shape[-1] - 1)
    horizon = min(points.shape[1], spreads.shape[1])
    shifted = spreads[:, :horizon] - spreads[:, :horizon, median, None] + points[:, :horizon, median, None]
    unchanged = [index in (0, median) for index in range(points.shape[-1])]
    near = torch.where(torch.tensor(unchanged), points[:, :horizon], shifted[..., : points.shape[-1]])
    return torch.cat([near, points[:, horizon:]], dim=1)
