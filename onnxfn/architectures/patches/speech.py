"""VITS and FastSpeech 2 Conformer without branches on data and loops over texts (transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.specs.errors import InvalidSpec


def gated_activation(
    input_a: Tensor,
    input_b: Tensor,
    num_channels: Any,  # noqa: ARG001 - half of those of the inputs
) -> Tensor:
    """For fused_add_tanh_sigmoid_multiply, which slices at an index that it reads from a tensor."""
    values, gates = (input_a + input_b).chunk(2, dim=1)
    return values.tanh() * gates.sigmoid()


def relative_embeddings(attention: Any, relative_embeddings: Tensor, length: int) -> Tensor:
    """For VitsAttention._get_relative_embeddings: `[1, 2 * length - 1, size]`, zeros outside of the window.

    The original pads or slices. It branches on whether the text is longer than the window.
    """
    window = attention.window_size
    distances = torch.arange(2 * length - 1, device=relative_embeddings.device) - (length - 1)
    embeddings = relative_embeddings[:, (distances + window).clamp(0, 2 * window)]
    return embeddings * (distances.abs() <= window)[:, None]


def inverse_spline(
    inputs: Tensor,
    unnormalized_widths: Tensor,
    unnormalized_heights: Tensor,
    unnormalized_derivatives: Tensor,
    reverse: bool = False,  # noqa: FBT001, FBT002 - the original's signature
    tail_bound: float = 5.0,
    min_bin_width: float = 1e-3,
    min_bin_height: float = 1e-3,
    min_derivative: float = 1e-3,
) -> tuple[Tensor, None]:
    """For _unconstrained_rational_quadratic_spline with `reverse=True`: the inverse of the spline.

    In each bin the spline is inverted by the root of a quadratic equation. The original selects the values within the
    bounds by a boolean mask, so their number depends on the data. Here the root is computed for all values, and used
    within the bounds. The determinant is omitted: speech does not use it.

    Raises:
        InvalidSpec: `reverse` is false. Speech runs the flow in reverse only.
    """
    if not reverse:
        raise InvalidSpec(
            "VITS is exported for speech, which runs the spline flow with reverse=True; got reverse=False"
        )
    bounded = inputs.clamp(-tail_bound, tail_bound)
    x_edges, y_edges = (
        _bin_edges(unnormalized, least, tail_bound)
        for unnormalized, least in ((unnormalized_widths, min_bin_width), (unnormalized_heights, min_bin_height))
    )
    inner = min_derivative + functional.softplus(unnormalized_derivatives)
    ends = torch.ones_like(inner[..., :1])  # the derivative of the identity, which continues the curve outside
    derivatives = torch.cat([ends, inner, ends], dim=-1)
    upper_edges = torch.cat([y_edges[..., :-1], y_edges[..., -1:] + 1e-6], dim=-1)
    bin_index = (bounded[..., None] >= upper_edges).sum(dim=-1, keepdim=True) - 1

    def of_bin(values: Tensor) -> Tensor:
        return values.gather(-1, bin_index)[..., 0]

    widths, heights = x_edges[..., 1:] - x_edges[..., :-1], y_edges[..., 1:] - y_edges[..., :-1]
    delta = of_bin(heights / widths)
    left, right = of_bin(derivatives[..., :-1]), of_bin(derivatives[..., 1:])
    y = bounded - of_bin(y_edges[..., :-1])
    curvature = y * (left + right - 2 * delta)
    a = of_bin(heights) * (delta - left) + curvature
    b = of_bin(heights) * left - curvature
    c = -delta * y
    root = (2 * c) / (-b - (b * b - 4 * a * c).sqrt())
    inverse = root * of_bin(widths) + of_bin(x_edges[..., :-1])
    return torch.where(inputs.abs() <= tail_bound, inverse, inputs), None


def _bin_edges(unnormalized: Tensor, least: float, bound: float) -> Tensor:
    """The edges of bins from `-bound` to `bound`. `least` is the smallest width as a share of the interval."""
    shares = least + (1 - least * unnormalized.shape[-1]) * unnormalized.softmax(dim=-1)
    edges = 2 * bound * shares.cumsum(dim=-1)[..., :-1] - bound
    end = torch.full_like(shares[..., :1], bound)
    return torch.cat([-end, edges, end], dim=-1)


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


def shifted_relative_positions(_: Any, pos_tensor: Tensor) -> Tensor:
    """For FastSpeech2ConformerAttention.shift_relative_position_tensor: `[batch, heads, length, 2 * length - 1]`.

    Each position gathers its distances to all positions. The original pads and reshapes.
    """
    length = pos_tensor.shape[2]
    positions = torch.arange(length, device=pos_tensor.device)
    distances = positions - positions[:, None] + (length - 1)
    return pos_tensor.gather(3, distances.expand(*pos_tensor.shape[:2], -1, -1))
