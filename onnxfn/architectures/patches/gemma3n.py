"""Gemma 3n without the inverse error function, which ONNX does not have (modeling_gemma3n, transformers 5.23)."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def gaussian_topk(self: Any, inputs: Tensor) -> Tensor:
    """For Gemma3nTextMLP._gaussian_topk: how far inputs exceed a quantile. It depends on the layer only.

    So the inverse error function is computed in Python, when the model is traced.
    """
    quantile = NormalDist().inv_cdf(self.activation_sparsity)
    mean, std = inputs.mean(-1, keepdim=True), inputs.std(-1, keepdim=True, unbiased=False)
    return (inputs - (mean + std * quantile)).relu()
