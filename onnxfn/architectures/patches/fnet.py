"""FNet without complex numbers.

The original is in transformers/models/fnet/modeling_fnet.py (5.23).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def fourier_transform(_: Any, hidden_states: Tensor) -> tuple[Tensor]:
    """For FNetBasicFourierTransform.forward: the real part of a Fourier transform along length and size, as products.

    ONNX Runtime's DFT is a hundred times less exact than torch's unless a length is a power of 2 (1e-3 of the values
    at 768); products with matrices of cosines and sines are as exact as torch's. Every way in which a configuration
    can ask for the transform gives these numbers.
    """
    lengths, sizes = (_cos_sin_matrices(count, hidden_states) for count in hidden_states.shape[1:])
    return (lengths[0] @ hidden_states @ sizes[0] - lengths[1] @ hidden_states @ sizes[1],)


def _cos_sin_matrices(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles `2 pi * row * column / count`, whole turns taken off before they cost digits."""
    import torch

    steps = torch.arange(count, device=like.device)
    whole = torch.full((), count, device=like.device)  # a tensor: torch's ONNX table has no remainder by a size
    angles = (steps[:, None] * steps % whole) / whole * (2 * torch.pi)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)
