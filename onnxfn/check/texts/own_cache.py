"""PyTorch's logits of texts that it reads token by token, with the cache that the model itself makes.

They are those of the whole texts, unless attention of one pass reads what a later pass has cached: in a decoder whose
loops share a cache. There the text that a model writes depends on the steps in which it reads. So texts that differ
from PyTorch's logits of the whole are compared once more, with these.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import numpy as np

from onnxfn.architectures.private.renamed import called, field
from onnxfn.check.verdict.exact_outputs import NoReference
from onnxfn.models.model_state import unchanged_eval, with_attention
from onnxfn.models.quiet import quiet
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import PlannedSpec


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
