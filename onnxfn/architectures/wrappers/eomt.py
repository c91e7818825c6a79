"""EoMT with what training left of its masks decided (modeling_eomt, transformers 5.23)."""

from __future__ import annotations

import copy
from typing import Any


def with_constant_mask_probs(model: Any) -> Any:
    """The model, whose layers mask what queries look at as often as a buffer says: here numbers, which the trace reads.

    In a model that is trained to the end none does; between never and always the model draws, and no graph does.
    """
    made = copy.copy(model)
    made._buffers = {name: buffer for name, buffer in model._buffers.items() if name != "attn_mask_probs"}
    made.attn_mask_probs = model.attn_mask_probs.tolist()
    return made
