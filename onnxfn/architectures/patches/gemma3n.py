"""Gemma 3n without the inverse of the error function: the same numbers in operations that ONNX has.

The original is in transformers/models/gemma3n/modeling_gemma3n.py (5.23).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def gaussian_topk(self: Any, inputs: Tensor) -> Tensor:
    """For Gemma3nTextMLP._gaussian_topk: what lies above a quantile that depends on the layer alone."""
    quantile = NormalDist().inv_cdf(self.activation_sparsity)
    middle, spread = inputs.mean(-1, keepdim=True), inputs.std(-1, keepdim=True, unbiased=False)
    return (inputs - (middle + spread * quantile)).relu()
