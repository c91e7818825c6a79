"""Encoder-decoders from images: the inputs of the decoder from the encoder, and its first token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from onnxfn.architectures.placeholders import Placeholders, placeholder_of
from onnxfn.run.greedy_decoding import session_outputs
from onnxfn.run.merged_embeddings import merged_embeddings
from onnxfn.run.prompts_with_images import Prompt, for_one
from onnxfn.run.towers import tower_features
from onnxfn.specs.algebra.dummies import Array, dummies
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.edits.token_embeddings import EMBEDS, IDS

STARTS = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
"""The keys of the first token of a decoder, in the order in which `generate` reads them, and a last resort."""


def encoder_prompts(encoder: Part) -> Iterator[Prompt]:
    """One image, and several, as the inputs of an encoder that reads nothing else."""
    for spec in (for_one(encoder.spec), encoder.spec):
        inputs = dummies(spec, {})
        count = len(inputs[spec.inputs[0].name])
        arguments = {str(input_.forward_path[0]): inputs[input_.name] for input_ in spec.inputs}
        yield Prompt("1 image" if count == 1 else f"{count} images", arguments)


def start_tokens(model: Any, count: int) -> Array:
    """The first token of the decoder for each of `count` texts, `[count, 1]`."""
    configs = (model.generation_config, model.config, model.config.get_text_config(decoder=True))
    known = (getattr(config, key, None) for key in STARTS for config in configs)
    return np.full((count, 1), next((token for token in known if token is not None), 0), dtype=np.int64)


def embedded(
    table: Any, sessions: Mapping[str, Any], known: Placeholders, arguments: Mapping[str, Array]
) -> dict[str, Array]:
    """The arguments with the embeddings of tokens, and features among them in the places of placeholder tokens.

    Args:
        table: The session that looks up embeddings.
        sessions: Those that compute features, see `tower_features`.
        known: The placeholder tokens of the model.
        arguments: Those of `forward`; `input_ids` is one of them.
    """
    ids = arguments[IDS]
    rows = {placeholder_of(name, known): each for name, each in tower_features(sessions, arguments).items()}
    return {**arguments, EMBEDS: merged_embeddings(session_outputs(table, {IDS: ids})[EMBEDS], ids, rows)}


def encoder_outputs(encoder: Part, decoder: Part, session: Any, arguments: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of a decoder from its encoder: outputs of the encoder, or inputs that both share."""
    paths = {input_.name: str(input_.forward_path[0]) for input_ in encoder.spec.inputs}
    inputs = {name: arguments[argument] for name, argument in paths.items() if argument in arguments}
    computed = {**inputs, **session_outputs(session, inputs)}
    links = (link for link in decoder.spec.links if link.part == encoder.name and link.input in decoder.inputs)
    return {link.input: computed[link.output] for link in links}
