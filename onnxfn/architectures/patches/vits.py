"""VITS in operations that torch.export can follow; the originals are in modeling_vits (transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def gated_activation(input_a: Tensor, input_b: Tensor, _: Any) -> Tensor:
    """For fused_add_tanh_sigmoid_multiply, which cuts in two at a number that it keeps in a tensor."""
    values, gates = (input_a + input_b).chunk(2, dim=1)
    return values.tanh() * gates.sigmoid()


def relative_embeddings(attention: Any, relative_embeddings: Tensor, length: int) -> Tensor:
    """For VitsAttention._get_relative_embeddings: `[1, 2 * length - 1, size]`, zeros outside the window.

    The original pads or cuts, by whether the text is longer than the window.
    """
    import torch

    window = attention.window_size
    apart = torch.arange(2 * length - 1, device=relative_embeddings.device) - (length - 1)
    chosen = relative_embeddings[:, (apart + window).clamp(0, 2 * window)]
    return chosen * (apart.abs() <= window)[:, None]


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
    """For _unconstrained_rational_quadratic_spline backwards: the root of the quadratic of the bin that a value is in.

    The original selects the values inside of the bounds, so that their number depends on them; here all are computed,
    and those outside stay as they are. Speech runs the flow backwards alone, and asks for no determinant.
    """
    import torch
    from torch.nn import functional

    assert reverse, "speech runs the flow backwards"
    inside = inputs.clamp(-tail_bound, tail_bound)
    xs, ys = (
        _knots(made, least, tail_bound)
        for made, least in ((unnormalized_widths, min_bin_width), (unnormalized_heights, min_bin_height))
    )
    inner = min_derivative + functional.softplus(unnormalized_derivatives)
    ends = torch.ones_like(inner[..., :1])  # what the original pads with, so that the curve goes on straight
    slopes = torch.cat([ends, inner, ends], dim=-1)
    last = torch.cat([ys[..., :-1], ys[..., -1:] + 1e-6], dim=-1)
    found = (inside[..., None] >= last).sum(dim=-1, keepdim=True) - 1

    def of_bin(values: Tensor) -> Tensor:
        return values.gather(-1, found)[..., 0]

    widths, heights = xs[..., 1:] - xs[..., :-1], ys[..., 1:] - ys[..., :-1]
    slope, left, right = of_bin(heights / widths), of_bin(slopes[..., :-1]), of_bin(slopes[..., 1:])
    above = inside - of_bin(ys[..., :-1])
    bend = above * (left + right - 2 * slope)
    a = of_bin(heights) * (slope - left) + bend
    b = of_bin(heights) * left - bend
    c = -slope * above
    root = (2 * c) / (-b - (b * b - 4 * a * c).sqrt())
    made = root * of_bin(widths) + of_bin(xs[..., :-1])
    return torch.where(inputs.abs() <= tail_bound, made, inputs), None


def _knots(unnormalized: Tensor, least: float, bound: float) -> Tensor:
    """Where bins begin and end, from `-bound` to `bound`, none narrower than its share."""
    import torch

    shares = least + (1 - least * unnormalized.shape[-1]) * unnormalized.softmax(dim=-1)
    places = 2 * bound * shares.cumsum(dim=-1)[..., :-1] - bound
    end = torch.full_like(shares[..., :1], bound)
    return torch.cat([-end, places, end], dim=-1)
