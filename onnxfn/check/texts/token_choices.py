"""How texts of a check choose their tokens, and the logits of texts that PyTorch reads token by token.

A random model may write the placeholder of an image, and no image belongs to it.

PyTorch's logits of texts that it reads token by token, with the cache that the model itself makes.

They are those of the whole texts, unless attention of one pass reads what a later pass has cached: in a decoder whose
loops share a cache. There the text that a model writes depends on the steps in which it reads. So texts that differ
from PyTorch's logits of the whole are compared once more, with these.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import numpy as np

from onnxfn.architectures.placeholders import placeholders
from onnxfn.architectures.private.renamed import called, field
from onnxfn.check.verdict.verdict import NoReference
from onnxfn.models.model_state import unchanged_eval, with_attention
from onnxfn.models.torch_modes import quiet
from onnxfn.run.greedy_decoding import ChooseTokens
from onnxfn.specs.algebra.config_values import config_of, snapshot
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.stored.reports import Tick


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


def among_ordinary(special: Collection[int], choose: ChooseTokens, tick: Tick) -> ChooseTokens:
    """A function that chooses ordinary tokens, and calls `tick` each time."""

    def chosen(logits: Array, texts: Array) -> Array:
        tick()
        return choose(ordinary_logits(special, logits), texts)

    return chosen


def reads_tokens_alone(spec: PlannedSpec, others: Collection[str]) -> bool:
    """Whether a decoder takes tokens and its cache: no inputs that other parts compute, and no others."""
    return "input_ids" in spec.inputs and not (spec.links or spec.call.submodule or others)


def no_exact_logits() -> tuple[str, Array]:
    """Raises NoReference: a text in steps is not read in a wider dtype."""
    raise NoReference("token by token, with the cache of the model")


def logits_in_steps(model: Any, spec: PlannedSpec, texts: Array, prompt_mask: Array, start: int) -> Array:
    """The logits of texts, `[batch, length, vocabulary]`: of the first `start` tokens at once, then token by token."""
    import torch

    mask = np.concatenate([prompt_mask, np.ones_like(texts[:, start:])], axis=1)
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
    constants = {each.name: each.value for each in spec.call.constants if not each.path}
    cache, logits = None, []
    with quiet(), unchanged_eval(model), with_attention(model, spec.call.attention), torch.no_grad():
        for first, last in pairwise((0, *range(start, texts.shape[1] + 1))):
            new = slice(first, last)
            arrays = {"input_ids": texts[:, new], "attention_mask": mask[:, :last], "position_ids": positions[:, new]}
            taken = {name: torch.tensor(array) for name, array in arrays.items() if name in spec.inputs}
            result = called(model, **{**constants, **taken, "past_key_values": cache, "use_cache": True})
            cache = field(result, "past_key_values")
            logits.append(result.logits.float())
    whole: Array = torch.cat(logits, dim=1).numpy()
    return whole
