"""A text written through the files, token by token, against PyTorch's logits of the whole text at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve

from onnxfn.check.compare import LARGEST_ORDINARY, ROUNDING, Comparison, scale_of
from onnxfn.check.generation import greedy, most_likely_token, most_likely_unused_token
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.axes import names
from onnxfn.specs.compose import group
from onnxfn.specs.dummies import Array, dummies, padded
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, by_tokens
from onnxfn.specs.fixed_axes import fixed_sizes
from onnxfn.specs.plan.check_cases import past_lengths, with_dummies
from onnxfn.specs.planned import Part, Plan, PlannedSpec
from onnxfn.specs.spec import Dummies

PROMPT, STEPS, TEXTS = 6, 16, 2
"""Tokens of the prompts, tokens written after them, and how many texts each way, when a decoder is checked by them."""

TEXT = ("input_ids", "attention_mask", "position_ids")
"""What a text itself says."""

TOKEN_CHOICES: Mapping[str, Callable[[Array, Array], Array]] = MappingProxyType(
    {"greedy": most_likely_token, "greedy, no token twice": most_likely_unused_token}
)
"""How texts are written: a model may repeat its likeliest token for ever, and then hardly looks at what it keeps."""

SessionOpener = Callable[[Path], Any]
"""From an ONNX file to a session of ONNX Runtime."""


def decoded_text_comparisons(
    model: Any, part: Part, made: Plan, folder: Path, opens: SessionOpener
) -> list[Comparison]:
    """What a part writes, in a trial for each way to write; in none where it writes nothing by itself.

    PyTorch keeps no cache here, so a wrong cache shows. What other parts hand over comes from their files for the one,
    from PyTorch for the other; what nobody hands over is a dummy for both.
    """
    if not _writes(part, made):
        return []
    spec = _of_tokens(part, made)
    now = names(next(one.axes for one in spec.inputs if one.name == "input_ids"))[-1]
    turns = _turns(spec)
    sizes = {**_batch(spec), **dict.fromkeys(past_lengths(spec), 0)}
    table = opens(folder / f"{EMBEDDING_FILE}.onnx") if EMBEDDING_FILE in _givers(part) else None
    read, truly_read = (_for_each(one, part, len(turns[0])) for one in _handed(model, part, made, folder, opens))
    prompts = dummies(with_dummies(spec, padded("left")), {**sizes, now: PROMPT})
    mask = _alike(prompts.get("attention_mask", np.ones_like(prompts["input_ids"])), len(turns[0]))
    given = {*TEXT, *read, *(one.input for one in spec.feedback)}
    alone = {name: array for name, array in prompts.items() if name not in given}
    session = opens(folder / f"{part.name}.onnx")
    trials = []
    for ways in turns:
        choose = _choose_by_group([TOKEN_CHOICES[way] for way in ways])
        texts = greedy(
            session, prompts["input_ids"], mask, steps=STEPS, beside=read | alone, choose=choose, table=table
        )
        logits = _whole(model, evolve(part, spec=spec), texts, mask, truly_read | alone, {**sizes, now: texts.shape[1]})
        for way, its, told in zip(ways, _shared(texts, len(ways)), _shared(logits, len(ways)), strict=True):
            case = f"{way} ({STEPS} tokens after {len(its)} left-padded prompts)"
            trials.append(_judged(spec, case, its, told.astype(np.float64), TOKEN_CHOICES[way]))
    return trials


def _turns(spec: PlannedSpec) -> tuple[tuple[str, ...], ...]:
    """The ways that are gone in one batch: a step costs two texts hardly more than one. Each alone in a fixed batch."""
    return tuple((way,) for way in TOKEN_CHOICES) if _fixed(spec) else (tuple(TOKEN_CHOICES),)


def _choose_by_group(choices: Sequence[Callable[[Array, Array], Array]]) -> Callable[[Array, Array], Array]:
    """The first texts of a batch choose in the first way, the next in the next."""

    def choose(logits: Array, written: Array) -> Array:
        shares = zip(choices, _shared(logits, len(choices)), _shared(written, len(choices)), strict=True)
        return np.concatenate([way(said, texts) for way, said, texts in shares])

    return choose


def _shared(rows: Array, ways: int) -> list[Array]:
    return np.array_split(rows, ways)


def _alike(mask: Array, ways: int) -> Array:
    """A mask in which the texts of each way are padded as those of the first, which has one without padding."""
    return np.tile(mask[: len(mask) // ways], (ways, 1))


def _judged(
    spec: PlannedSpec, case: str, texts: Array, logits: Array, choose: Callable[[Array, Array], Array]
) -> Comparison:
    """A text agrees when PyTorch's choices are no better than its tokens by more than the tolerance.

    Then both would write the same, or are of two minds.
    """
    steps = range(PROMPT, texts.shape[1])
    chosen = np.stack([choose(logits[:, step - 1], texts[:, :step]) for step in steps], axis=1)
    said = logits[:, PROMPT - 1 : -1]
    best, here = (np.take_along_axis(said, one[..., None], axis=-1)[..., 0] for one in (chosen, texts[:, PROMPT:]))
    scale = scale_of(said[np.abs(said) < LARGEST_ORDINARY])
    absolute, relative = ROUNDING[spec.target.float_dtype or "float32"]
    slack = 2 * ((spec.check.atol or 0.0) * absolute * scale + (spec.check.rtol or 0.0) * relative * np.abs(best))
    worst = float((best - here).max())
    agree = bool((best - here <= slack).all())
    return Comparison("greedy tokens", case, texts.shape, worst, worst / scale, float(slack.min()), agree)


def _batch(spec: PlannedSpec) -> dict[str, int]:
    """How many texts are written at once: as many as the graph takes, where that is fixed."""
    return {"batch_size": _fixed(spec) or TEXTS * len(TOKEN_CHOICES)}


def _fixed(spec: PlannedSpec) -> int | None:
    return fixed_sizes(spec).get("batch_size")


def _writes(part: Part, made: Plan) -> bool:
    """Whether a part goes from tokens to tokens, begins with an empty past, and what it is handed is in the plan."""
    spec = part.spec
    given = {one.input for one in spec.feedback}
    tokens = {"input_ids", *(link.input for link in spec.links if link.part == EMBEDDING_FILE)} & {*part.inputs}
    begins = all(one.name in given for one in spec.inputs if one.generator == "past_states")
    lengths = past_lengths(spec)
    begins = begins and not fixed_sizes(spec).keys() & {*lengths, *lengths.values()}
    here = set(_givers(part)) <= {one.name for one in made.parts}
    return bool(tokens) and "logits" in part.outputs and bool(given) and begins and here


def _of_tokens(part: Part, made: Plan) -> PlannedSpec:
    """The spec of a part that takes tokens where it takes what the table gives of them."""
    table = next((one.spec for one in made.parts if one.name == EMBEDDING_FILE), PlannedSpec())
    return by_tokens(evolve(part.spec, dummies=group(part.spec.dummies, Dummies(generators=table.dummies.generators))))


def _givers(part: Part) -> tuple[str, ...]:
    return tuple(dict.fromkeys(link.part for link in part.spec.links))


def _before(part: Part) -> set[str]:
    """The parts whose answers stay the same while a text is written: all that give but the table of embeddings."""
    return {*_givers(part)} - {EMBEDDING_FILE}


def _handed(
    model: Any, part: Part, made: Plan, folder: Path, opens: SessionOpener
) -> tuple[dict[str, Array], dict[str, Array]]:
    """What the parts before this one hand to it: by their files, and by PyTorch."""
    by_files: dict[str, Array] = {}
    by_pytorch: dict[str, Array] = {}
    for giver in (one for one in made.parts if one.name in _before(part)):
        read = dummies(with_dummies(giver.spec, padded("right")), {"batch_size": _fixed(giver.spec) or TEXTS})
        answers = opens(folder / f"{giver.name}.onnx").run(list(giver.outputs), read)
        truth = torch_outputs(model, giver, read)
        for answered, told in ((answers, by_files), (truth, by_pytorch)):
            known = {**read, **dict(zip(giver.outputs, answered, strict=True))}
            told.update({link.input: known[link.output] for link in part.spec.links if link.part == giver.name})
    return by_files, by_pytorch


def _for_each(handed: Mapping[str, Array], part: Part, ways: int) -> dict[str, Array]:
    """What is handed to the texts of one way, once for each: they are written of the same, which is read once."""
    along = {name: [axis for axis, size in part.inputs[name].items() if size == "batch_size"] for name in handed}
    return {
        name: np.concatenate([array] * ways, axis=along[name][0]) if along[name] else array
        for name, array in handed.items()
    }


def _whole(
    model: Any, part: Part, texts: Array, mask: Array, read: Mapping[str, Array], sizes: Mapping[str, int]
) -> Array:
    """PyTorch's logits of whole texts, with nothing kept from before."""
    seen = np.concatenate([mask, np.ones_like(texts[:, mask.shape[1] :])], axis=1)
    places = np.maximum(seen.cumsum(axis=1) - 1, 0)
    known = {**read, "input_ids": texts, "attention_mask": seen, "position_ids": places}
    arrays = dummies(part.spec, sizes)
    told = {name: array.astype(arrays[name].dtype) for name, array in known.items() if name in arrays}
    fed = arrays | _nothing(part, arrays) | told
    return torch_outputs(model, part, fed)[list(part.outputs).index("logits")]


def _nothing(part: Part, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """A past before anything was said: of length 0 along all that moves but the batch, zero where nothing does."""
    moving = part.inputs
    return {
        one.input: np.zeros(
            [
                0 if moving[one.input].get(axis, "batch_size") != "batch_size" else size
                for axis, size in enumerate(arrays[one.input].shape)
            ],
            arrays[one.input].dtype,
        )
        for one in part.spec.feedback
    }
