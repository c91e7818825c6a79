"""FNet without complex numbers (modeling_fnet, transformers 5.23)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def fourier_transform(_: Any, hidden_states: Tensor) -> tuple[Tensor]:
    """For FNetBasicFourierTransform.forward: the real part of the Fourier transform along length and size.

    ONNX Runtime's DFT is a hundred times less accurate than torch's unless the length is a power of 2 (relative error
    1e-3 at 768). Products with matrices of cosines and sines are as accurate as torch's transform. Every
    implementation of the transform that a configuration can choose computes these numbers.
    """
    length, size = (_cos_sin_matrices(count, hidden_states) for count in hidden_states.shape[1:])
    return (length[0] @ hidden_states @ size[0] - length[1] @ hidden_states @ size[1],)


def _cos_sin_matrices(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles `2 pi * row * column / count`, reduced modulo `2 pi` to keep precision."""
    indices = torch.arange(count, device=like.device)
    period = torch.full((), count, device=like.device)  # a tensor: torch's ONNX table has no remainder by a size
    angles = (indices[:, None] * indices % period) / period * (2 * torch.pi)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)
