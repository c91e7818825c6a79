"""TimesFM 2.5's statistics for all patches at once."""

from typing import Any

import torch
from torch import Tensor


def forward(self: Any, past_values: Tensor, past_values_padding: Tensor | None = None, **kwargs: Any) -> Any:
    """For TimesFm2_5Model.forward, which loops over patches; `past_values_padding` is 1 where a value is padding."""
    from transformers.masking_utils import create_causal_mask
    from transformers.models.timesfm2_5.modeling_timesfm2_5 import TimesFm2_5Output

    steps = past_values.unflatten(1, (-1, self.config.patch_length))
    padding = torch.zeros_like(past_values) if past_values_padding is None else past_values_padding
    is_padding = padding.reshape(steps.shape) >= 0.5  # noqa: PLR2004 - the threshold of the model
    means, deviations = running_mean_std(steps, ~is_padding)
    normal = self._revin(steps, means, deviations, mask=is_padding)
    states = self.input_ff_layer(torch.cat((normal, is_padding.to(normal.dtype)), dim=-1))

    is_read = ~is_padding[..., -1]
    positions = torch.arange(states.shape[1])[None] - (~is_read).sum(dim=-1, keepdim=True)
    mask = create_causal_mask(self.config, states, is_read.to(torch.int64), None)
    turns = self.rotary_emb(states, positions)
    for layer in self.layers:
        states = layer(states, position_embeddings=turns, attention_mask=mask, position_ids=positions, **kwargs)
    return TimesFm2_5Output(
        last_hidden_state=states,
        loc=means[:, -1],
        scale=deviations[:, -1].clamp(min=self.tolerance),
        context_mu=means,
        context_sigma=deviations,
    )


def running_mean_std(steps: Tensor, is_valid: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the deviation of the valid steps of each patch and of those before it, `[batch, patches]`."""
    # A deviation is summed from the distances between means: no sum is the small difference of two large ones.
    mask = is_valid.to(steps.dtype)
    counts = mask.sum(dim=-1)
    means = (steps * mask).sum(dim=-1) / counts.clamp(min=1)
    squares = (((steps - means[..., None]) * mask) ** 2).sum(dim=-1)

    counts_so_far = counts.cumsum(dim=1).clamp(min=1)
    means_so_far = (counts * means).cumsum(dim=1) / counts_so_far
    # [batch, patches, patches before it]
    between = (counts[:, None] * (means[:, None] - means_so_far[..., None]) ** 2).tril()
    return means_so_far, ((squares.cumsum(dim=1) + between.sum(dim=-1)) / counts_so_far).sqrt()
