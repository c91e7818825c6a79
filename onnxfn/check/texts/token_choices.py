"""The choice of tokens in texts of a check: only ordinary tokens.

A random model may write the placeholder of an image, and no image belongs to it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from onnxfn.architectures.placeholders import placeholders
from onnxfn.specs.algebra.config_values import config_of, snapshot
from onnxfn.specs.algebra.dummies import Array


def special_tokens(model: Any) -> frozenset[int]:
    """The tokens that the configuration of a model names, if one of them is a placeholder; else none."""
    if config_of(model) is None:
        return frozenset()
    known = placeholders(snapshot(model))
    return known.special if known.tokens else frozenset()


def ordinary_logits(special: Collection[int], logits: Array) -> Array:
    """Logits by which no special token is written.

    >>> ordinary_logits({1}, np.array([[0.5, 2.0, 1.0]])).argmax(axis=-1).tolist()
    [2]
    """
    known = [token for token in special if 0 <= token < logits.shape[-1]]
    ordinary = logits.copy()
    ordinary[..., known] = np.finfo(logits.dtype).min
    return ordinary


def ordinary_ids(special: Collection[int], ids: Array) -> Array:
    """Tokens with the smallest ordinary one in place of special ones.

    >>> ordinary_ids({0, 9}, np.array([[9, 4, 0]])).tolist()
    [[1, 4, 1]]
    """
    ordinary = min({*range(len(special) + 1)} - {*special})
    return np.where(np.isin(ids, [*special]), ordinary, ids)
