"""EoMT with constant probabilities of masked attention (modeling_eomt, transformers 5.23)."""

from __future__ import annotations

import copy
from typing import Any


def with_constant_mask_probs(model: Any) -> Any:
    """The model with `attn_mask_probs` as Python floats, so that the trace can branch on them.

    The buffer holds, for each layer, the probability with which the queries' attention is masked. In a fully trained
    model it is 0. Between 0 and 1 the model draws a random number, which a graph cannot.
    """
    copied = copy.copy(model)
    copied._buffers = {name: buffer for name, buffer in model._buffers.items() if name != "attn_mask_probs"}
    copied.attn_mask_probs = model.attn_mask_probs.tolist()
    return copied
