"""The parts of a model that sees or hears as a whole: the decoder of their files for a prompt, and PyTorch's logits."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from onnxfn.architectures.placeholders import Placeholders, placeholders, with_placeholders
from onnxfn.check.texts.decoded_texts import NEW_TOKENS, SessionOpener, ordinary_logits
from onnxfn.check.wholes.torch_whole import MASK, WHOLE, encoder_arguments, forward_arguments, whole_part
from onnxfn.models.forward import torch_outputs
from onnxfn.run.greedy_decoding import Decoder, greedy, most_likely_token, prompt_outputs, session_outputs
from onnxfn.run.prompts_with_images import Prompt, encoder_prompts, processed_prompts, whole_prompts
from onnxfn.run.sessions import file_errors
from onnxfn.run.towers import TOWERS, embedded, encoder_outputs, start_tokens, takes_three_positions, with_features
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.edits.behaviors import STEMS
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, EMBEDS, IDS
from onnxfn.specs.tasks.tasks import WITH_PAST
from onnxfn.weights.layouts import dtype_suffix


@frozen
class Whole:
    """The parts of a model that sees or hears. The towers are by the stem of their files.

    `table` looks up the embeddings of tokens; None if the decoder takes tokens. The decoder gives logits, or the last
    hidden states. `known`: how tokens and features become one sequence. `encoder` reads the input before the texts of
    the decoder; None if the decoder reads it itself.
    """

    model: Any
    towers: Mapping[str, Part]
    table: Part | None
    decoder: Part
    known: Placeholders
    session_of: Callable[[Part], Any] = field(repr=False)
    encoder: Part | None = None


def whole_model(model: Any, plan: Plan, folder: Path, session_for: SessionOpener) -> Whole | None:
    """The parts of a plan as a whole; None if it has no part that reads images or sounds."""
    suffix = dtype_suffix(plan.parts[0].dtype)
    parts = {part.name.removesuffix(suffix): part for part in plan.parts}
    towers = {stem: parts[stem] for stem in TOWERS if stem in parts}
    table, encoder = parts.get(EMBEDDING_FILE), parts.get(STEMS["encoder"])
    tokens = IDS if table is None else EMBEDS
    writers = (part for part in plan.parts if part != encoder and tokens in part.inputs and main_output(part))
    decoder = next(writers, None)
    reads_images = encoder is not None and (encoder.spec.task or "").removesuffix(WITH_PAST) == "image-text-to-text"
    if decoder is None or not (reads_images or (towers and table)):
        return None
    known = placeholders(snapshot(model))
    return Whole(model, towers, table, decoder, known, lambda part: session_for(folder / f"{part.name}.onnx"), encoder)


def prompts_of(whole: Whole, preprocessor: Any = None) -> Iterator[Prompt]:
    """Texts and images from the dummies of the parts, and what a processor makes of a text with pictures."""
    of_dummies: Iterator[Prompt] = iter(())
    if whole.table is not None:
        of_dummies = whole_prompts(whole.towers, whole.table.spec, whole.known, partial(features_of, whole))
    elif whole.encoder is not None:
        of_dummies = encoder_prompts(whole.encoder)
    for prompt in chain(of_dummies, processed_prompts(preprocessor)):
        yield evolve(prompt, arguments=with_placeholders(prompt.arguments, whole.known))


def begun(whole: Whole, prompt: Prompt) -> tuple[Array, Array]:
    """The tokens after which the decoder writes, and their mask: the prompt, or the first token after an encoder."""
    if whole.encoder is None:
        return prompt.arguments[IDS], prompt.arguments[MASK]
    first = prompt.arguments.get(IDS, next(iter(prompt.arguments.values())))
    ids = start_tokens(whole.model, len(first))
    return ids, np.ones_like(ids)


def decoder_of(whole: Whole, prompt: Prompt) -> Decoder:
    """The decoder of the files for a prompt, with the features of its images and sounds."""
    session = whole.session_of(whole.decoder)
    table = None if whole.table is None else whole.session_of(whole.table)
    decoder = Decoder(session, session, table)
    sessions = {stem: whole.session_of(part) for stem, part in whole.towers.items()}
    arguments = prompt.arguments
    if whole.encoder is None:
        return with_features(decoder, sessions, whole.known, arguments)
    read = arguments if table is None else embedded(table, sessions, whole.known, arguments)
    encoded = encoder_outputs(whole.encoder, whole.decoder, whole.session_of(whole.encoder), read)
    return evolve(decoder, constant_feeds=encoded)


def written(whole: Whole, decoder: Decoder, ids: Array, mask: Array) -> tuple[Array, Array]:
    """The texts that the files write after prompts, `[batch, length + new]`, and the logits of each step."""
    steps: list[Array] = []

    def choose(logits: Array, texts: Array) -> Array:
        steps.append(logits)
        # None of the tokens that the configuration names is written, such as an end.
        return most_likely_token(ordinary_logits(whole.known.special, logits), texts)

    texts = greedy(decoder, ids, mask, steps=NEW_TOKENS, choose=choose)
    return texts, np.stack(steps, axis=1)


def main_output(part: Part) -> str:
    """The output of a part that is compared with the whole model; empty if it has none."""
    return next((name for name in ("logits", "last_hidden_state") if name in part.outputs), "")


def features_of(whole: Whole, tower: Part, inputs: Mapping[str, Array]) -> Array:
    """The features that the file of a tower computes."""
    stem = next(stem for stem, part in whole.towers.items() if part == tower)
    return session_outputs(whole.session_of(tower), inputs)[TOWERS[stem]]


def arguments_of(whole: Whole, prompt: Prompt, texts: Array) -> dict[str, Array]:
    """The arguments of `forward` for texts that begin with a prompt."""
    if whole.encoder is not None:
        return encoder_arguments(whole.model, prompt.arguments, texts)
    three = takes_three_positions(whole.session_of(whole.decoder))
    return forward_arguments(whole.model, prompt.arguments, texts, whole.known, has_three_positions=three)


def part_of(whole: Whole, arguments: Mapping[str, Array]) -> Part:
    """The whole model with the main output of the part that takes embeddings. It gets what its towers always get."""
    parameters = inspect.signature(whole.model.forward).parameters
    of_towers = dict.fromkeys(each for tower in whole.towers.values() for each in tower.spec.call.constants)
    constants = [each for each in of_towers if each.name in parameters]
    return whole_part(arguments, whole.decoder.spec, main_output(whole.decoder), constants)


def torch_logits(whole: Whole, prompt: Prompt, texts: Array, dtype: Any = None) -> Array:
    """The logits of PyTorch's whole model for texts that begin with a prompt; None: in its dtype. CaptureFailed."""
    arguments = arguments_of(whole, prompt, texts)
    (logits,) = torch_outputs(whole.model, part_of(whole, arguments), arguments, dtype)
    return logits


def prompt_logits(
    whole: Whole, prompt: Prompt, in_torch: Whole, dtype: Any = None
) -> tuple[Decoder, Array, Array, Array]:
    """The decoder of the files for a prompt, the logits by them and by `in_torch`, and which are tokens'."""
    ids, mask = begun(whole, prompt)
    expected = torch_logits(in_torch, prompt, ids, dtype)
    with run_errors(prompt):
        decoder = decoder_of(whole, prompt)
        actual = prompt_outputs(decoder, ids, mask)[main_output(whole.decoder)]
    last = actual.shape[1]
    return decoder, actual, expected[:, -last:], mask[:, -last:].astype(bool)


def run_errors(prompt: Prompt) -> AbstractContextManager[None]:
    """Raises CheckFailed for an error of the files, with the case."""
    return file_errors(f"{WHOLE}: the files cannot be run one after the other ({prompt.case})")
