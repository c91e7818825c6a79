"""The tokens that a quantized or 16-bit decoder chooses after a real text, against PyTorch in float32.

Rounding may decide between two tokens of nearly the same logit. Then the texts differ from there on, and no file is
wrong; so the share of equal tokens has no floor, and the report says where the first other token is and by how much.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from onnxfn.check.cases.references import Reference
from onnxfn.check.texts.decoded_texts import SessionOpener, can_decode, logits_without_cache, prompts_of, token_part_of
from onnxfn.models.forward import torch_outputs
from onnxfn.run.greedy_decoding import Decoder, greedy
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.edits.token_embeddings import IDS
from onnxfn.specs.results.measurements import Measurement

PROMPT_TOKENS, GREEDY_TOKENS = 16, 32
"""The tokens of a prompt, and the tokens that are chosen after it."""


def greedy_measurements(
    model: Any, part: Part, plan: Plan, folder: Path, session_for: SessionOpener, text: Reference | None
) -> tuple[Measurement, ...]:
    """The share of greedy tokens that PyTorch chooses, too; none for a part that decodes no text by itself.

    The texts are those of the file. PyTorch computes their logits without a cache, in one call.
    """
    import torch

    if text is None or IDS not in text.inputs or part.spec.links or not can_decode(part, plan):
        return ()
    token_part = token_part_of(part, plan)
    prompts = prompts_of(token_part.spec, set())
    rows = len(prompts.input_ids)
    ids = np.resize(text.inputs[IDS], (rows, PROMPT_TOKENS))
    prompts = evolve(prompts, input_ids=ids, attention_mask=np.ones_like(ids))
    session = session_for(folder / f"{part.name}.onnx")
    cache = {feedback.input: feedback.output for feedback in part.spec.feedback}
    decoder = Decoder(session, session, constant_feeds=prompts.constant_inputs, cache=cache)
    texts = greedy(decoder, ids, prompts.attention_mask, steps=GREEDY_TOKENS)
    run = partial(torch_outputs, model, dtype=torch.float32)
    logits = logits_without_cache(token_part, plan, texts, prompts, run)[:, PROMPT_TOKENS - 1 : -1]
    chosen = texts[:, PROMPT_TOKENS:]
    share = float((chosen == logits.argmax(-1)).mean())
    label = f"{GREEDY_TOKENS} tokens after {rows} prompts"
    return (
        Measurement(part.name, "greedy tokens", "agreement", share, None, label, True, other_tokens(chosen, logits)),
    )


def other_tokens(chosen: Array, logits: Array) -> str:
    """Where the first other token of each text is: its number, both tokens, and the margin between their logits.

    >>> logits = np.array([[[0.0, 2.0, 1.5], [3.0, 0.0, 0.0]]])
    >>> other_tokens(np.array([[2, 0]]), logits), other_tokens(np.array([[1, 0]]), logits)
    ('text 1: token 1 is 2 where PyTorch has 1, by a margin of 0.5', '')
    """
    best, notes = logits.argmax(-1), []
    for row in np.flatnonzero((chosen != best).any(axis=1)):
        step = int(np.argmax(chosen[row] != best[row]))
        own, other = int(chosen[row, step]), int(best[row, step])
        margin = float(logits[row, step, other]) - float(logits[row, step, own])
        notes.append(
            f"text {row + 1}: token {step + 1} is {own} where PyTorch has {other}, by a margin of {margin:.2g}"
        )
    return "; ".join(notes)
